"""What the server process keeps for all sessions: its data folder, the model server, and every cache.

Pages and their parts declare each cache with `cached_data`, `cached_object` or `process_object`, and never with
Streamlit's own decorators. So `empty_caches` reaches all of them when somebody deletes a cohort. This module imports no
other part of the pages.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

if TYPE_CHECKING:
    import pandas as pd

    from core.phi.index import PhiIndex
    from core.runs.store import Workspace
    from core.serving.server import Server
    from core.spec import CorpusSpec

Function = TypeVar("Function", bound=Callable[..., Any])
_objects_of_cohorts: list[Any] = []


def cached_data(**options: Any) -> Callable[[Function], Function]:
    """`st.cache_data`: every caller gets a copy. Emptied when a cohort is deleted."""
    return st.cache_data(**options)


def cached_object(**options: Any) -> Callable[[Function], Function]:
    """`st.cache_resource` for what may hold something of a cohort (a model, scores, tables, a figure).

    All callers share one object, which nobody changes. Emptied when a cohort is deleted.
    """

    def decorate(function: Function) -> Function:
        kept = st.cache_resource(**options)(function)
        _objects_of_cohorts.append(kept)
        return kept

    return decorate


def process_object(function: Function) -> Function:
    """`st.cache_resource` for what lives as long as the process and is never emptied from outside."""
    return cast("Function", st.cache_resource(show_spinner=False)(function))  # called as the function is


def empty_caches() -> None:
    """Empty every cache of this process that may hold something of a cohort."""
    for kept in _objects_of_cohorts:
        kept.clear()
    st.cache_data.clear()


def data() -> Path:
    """The data folder of this server (`data/`, or `PHILAB_DATA`). Raises DataFolderUnusable."""
    from core.runs.store import data_folder

    return data_folder()


def every_workspace() -> Workspace:
    """All runs and cohorts, everybody's uploads included: for what serves all sessions (job engine, model server)."""
    from core.runs.store import Workspace

    return Workspace(data())


def server(of: Workspace | None = None) -> Server:
    """The one model server of this process for a data folder; pages ask it only for runs that their viewer may see."""
    every = of or every_workspace()
    return _server(str(every.root), every)


@process_object
def _server(root: str, _workspace: Workspace) -> Server:
    from core.serving.server import Server

    return Server(_workspace)


@cached_object(max_entries=4, show_spinner=False)
def phi_index(spec: CorpusSpec, _workspace: Workspace) -> PhiIndex:
    """The search index of a cohort that `_workspace` shows; shared by all sessions, read-only."""
    from core.attacks.memorisation.extraction import index_of

    return index_of(_workspace.corpus(spec))


@cached_object(max_entries=4, show_spinner=False)
def patients(spec: CorpusSpec, _workspace: Workspace) -> pd.DataFrame:
    """A cohort's patients by id; shared by all sessions, read-only."""
    return _workspace.corpus(spec).patients.set_index("patient_id")
