"""What the server process keeps for all sessions: how to declare it, the data folder, and the model server.

Pages and their parts declare each cache of what may hold data of a cohort with `cached_data` or `cached_object`, never
with Streamlit's own decorators, so that `empty_caches` empties all of them when a cohort is deleted. What the process
must remember is a `process_object`. Elsewhere are only caches of the program's and the administrator's files
(`functools`), what is derived from the specs of runs (`OfRuns`), limits of tries, and what modules register when they
are imported (`gone.drops`). This module imports no other part of the pages.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

from core.runs.integrity.replacements import replacements

if TYPE_CHECKING:
    import pandas as pd

    from core.phi.index import PhiIndex
    from core.runs.run import Run
    from core.runs.store import Workspace
    from core.serving.server import Server
    from core.spec import CorpusSpec

Function = TypeVar("Function", bound=Callable[..., Any])
_objects_of_cohorts: list[Any] = []
_process_objects: list[dict[tuple[Any, ...], Any]] = []  # one for each function: by its arguments


def cached_data(**options: Any) -> Callable[[Function], Function]:
    """`st.cache_data`: every caller gets a copy. It is emptied when a cohort is deleted.

    An argument may be a run's id: the value is made again once the process has found other files under any run's id.
    """

    def decorate(function: Function) -> Function:
        return _as_called(function, st.cache_data(**options)(_by_runs(function)))

    return decorate


def cached_object(**options: Any) -> Callable[[Function], Function]:
    """`st.cache_resource` for objects that may hold data of a cohort (a model, scores, tables, a figure).

    All callers share one object and must not modify it. It is emptied when a cohort is deleted, and arguments may be
    ids of runs, as in `cached_data`.
    """

    def decorate(function: Function) -> Function:
        kept = st.cache_resource(**options)(_by_runs(function))
        _objects_of_cohorts.append(kept)
        return _as_called(function, kept)

    return decorate


def _by_runs(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with one more argument in front, which Streamlit makes part of the key: `replacements()`.

    A value that was begun before a run was replaced is kept under the earlier count, and so is never used.
    """

    @functools.wraps(function)
    def made(replacements: int, *arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    first = inspect.Parameter("replacements", inspect.Parameter.POSITIONAL_ONLY)
    own = inspect.signature(function)
    made.__signature__ = own.replace(parameters=[first, *own.parameters.values()])  # type: ignore[attr-defined]
    return made


def _as_called(function: Function, kept: Any) -> Function:
    """The cached function as pages call it, with Streamlit's `clear`."""

    @functools.wraps(function)
    def ask(*arguments: Any, **named: Any) -> Any:
        return kept(replacements(), *arguments, **named)

    ask.clear = kept.clear  # type: ignore[attr-defined]
    return cast("Function", ask)


def process_object(function: Function) -> Function:
    """Make an object once for each set of arguments, and keep it as long as the process lives.

    As in Streamlit's caches, arguments whose names begin with `_` do not count. The objects are not in a cache of
    Streamlit's: any browser may send `clear_cache` over its websocket, which empties those for everybody. Rooms, works
    in progress and locks must survive that. Declare them in modules; a page's script is executed at every visit.
    """
    made: dict[tuple[Any, ...], Any] = {}
    making = threading.Lock()
    counts = [not name.startswith("_") for name in inspect.signature(function).parameters]
    _process_objects.append(made)

    @functools.wraps(function)
    def kept(*arguments: Any) -> Any:
        key = tuple(itertools.compress(arguments, counts))
        with making:
            if key not in made:
                made[key] = function(*arguments)
            return made[key]

    return cast("Function", kept)  # called as the function is


def forget_process() -> None:
    """Begin as a new process does, with nothing cached and no process objects: for tests."""
    st.cache_data.clear()
    st.cache_resource.clear()
    for made in _process_objects:
        made.clear()


def empty_caches() -> None:
    """Empty every cache of this process that may hold data of a cohort."""
    for kept in _objects_of_cohorts:
        kept.clear()
    st.cache_data.clear()


def data() -> Path:
    """The data folder of this server (`data/`, or `PHILAB_DATA`). Raises DataFolderUnusable."""
    from core.runs.store import data_folder

    return data_folder()


def every_workspace() -> Workspace:
    """All runs and cohorts, including everyone's uploads.

    For the job engine, the model server, and estimates of time, which show nothing of a note.
    """
    from core.runs.store import Workspace

    return Workspace(data())


def server(of: Workspace | None = None) -> Server:
    """The model server of this process for a data folder; pages request only runs that their viewer may see."""
    every = of or every_workspace()
    return _server(str(every.root), every)


@process_object
def _server(root: str, _workspace: Workspace) -> Server:
    from core.jobs.trained import Promptable
    from core.serving.server import Server

    return Server(Promptable(_workspace))


@cached_object(max_entries=4, show_spinner=False)
def phi_index(spec: CorpusSpec, without: tuple[str, ...] | None, _workspace: Workspace) -> PhiIndex:
    """The search index of a cohort that `_workspace` shows; shared by all sessions, read-only.

    The values of patients that a run was trained `without` are not leaks of that run.
    """
    from core.attacks.memorisation.extraction import index_of

    return index_of(_workspace.corpus(spec).without(without))


def warm_phi_index(run: Run, workspace: Workspace) -> None:
    """Build the search index of a run's cohort in the background, so that the first answer does not wait for it.

    Not of imported notes: their owner may delete them meanwhile, and nothing must remember them afterwards.
    """
    spec = run.spec.corpus
    if spec.imported is None:
        threading.Thread(
            target=phi_index, args=(spec, run.spec.without, workspace), name="phi-index", daemon=True
        ).start()


def training_notes(run: Run) -> pd.DataFrame:
    """The notes that a run was trained on, as it read them; none for a public model. Shared, read-only.

    Ask only for a run that the viewer may see.
    """
    return _training_notes(run.id, run, every_workspace())


@cached_object(max_entries=4, show_spinner=False)
def _training_notes(run_id: str, _run: Run, _workspace: Workspace) -> pd.DataFrame:
    from core.corpus.transforms.defences import defended

    spec = _run.spec
    corpus = _workspace.corpus(spec.corpus).without(spec.without)
    notes = defended(corpus.training_notes(_run.note_cap), spec.defence)
    notes = notes[["note_id", "patient_id", "note_type", "text"]]
    return notes.iloc[:0] if spec.is_base else notes


@cached_object(max_entries=4, show_spinner=False)
def patients(spec: CorpusSpec, _workspace: Workspace) -> pd.DataFrame:
    """A cohort's patients by id; shared by all sessions, read-only."""
    return _workspace.corpus(spec).patients.set_index("patient_id")


@cached_object(max_entries=4, show_spinner=False)
def known_splits(spec: CorpusSpec, _workspace: Workspace) -> pd.Series:
    """Each patient's split by id, null for those without a direct identifier of their own that can be searched for.

    Shared by all sessions, read-only.
    """
    splits = patients(spec, _workspace)["split"]
    if spec.imported is None:
        return splits
    from core.evaluation.summary import searchable  # imports torch and scipy
    from core.phi.fields import DIRECT

    return splits.where(searchable(_workspace.corpus(spec), DIRECT))


@cached_object(max_entries=4, show_spinner=False)
def shared_values(spec: CorpusSpec, _workspace: Workspace) -> frozenset[tuple[str, str]]:
    """(patient id, field) of the values that several patients of imported notes have, which no count includes."""
    return frozenset() if spec.imported is None else _workspace.corpus(spec).shared_values


def leaks_can_be_found(spec: CorpusSpec, workspace: Workspace) -> bool:
    """Whether a direct identifier of any training patient is known; without one, no text can show a leak."""
    return spec.imported is None or bool((known_splits(spec, workspace) == "member").any())
