"""Drops what a session keeps of runs and uploads that are gone, in whatever way they were deleted.

Modules register what they keep; `drop` calls them before a page is drawn. State of a browser session: `uploads_seen`,
the digests of the viewer's uploads at the last page; `uploads_lost`, of those that were deleted elsewhere; and
`uploads_deleted`, of those that this session deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import streamlit as st

from pages.parts.session import owner

_SEEN, _LOST, _DELETED = "uploads_seen", "uploads_lost", "uploads_deleted"


@dataclass(frozen=True)
class Still:
    """What the viewer may still see.

    `uploads` and `lost` are digests: of the viewer's uploads, and of those that are gone since the last page.
    """

    uploads: frozenset[str]
    lost: frozenset[str]

    @cached_property
    def runs(self) -> frozenset[str]:
        """Ids of the runs, read when they are asked for: most sessions keep nothing of a run."""
        return visible_runs()


Drop = Callable[[Still], None]
_drops: dict[str, Drop] = {}


def visible_runs() -> frozenset[str]:
    """Ids of all runs that the viewer may see now, also of those that are trained and not audited yet."""
    from core.jobs.trained import trained_runs

    workspace = owner.workspace()
    trained = {run.id for run in trained_runs(workspace)}  # first: a run that ends meanwhile is found below
    return frozenset(trained | {run.id for run in workspace.runs()})


def drops(function: Drop) -> Drop:
    """A decorator: `function` takes out of the session's state what was made from anything that is gone."""
    _drops[f"{function.__module__}.{function.__qualname__}"] = function
    return function


def drop() -> None:
    """Drop what the session keeps of anything that the viewer may not see any more. Every page begins with it."""
    from core.runs.uploads.records import uploads

    there = frozenset(one.digest for one in uploads(owner.workspace().root, owner.owner()))
    still = Still(there, frozenset(st.session_state.get(_SEEN, ())) - there)
    st.session_state[_SEEN] = there
    elsewhere = still.lost - st.session_state.get(_DELETED, frozenset())
    st.session_state[_LOST] = (st.session_state.get(_LOST, frozenset()) | elsewhere) - there
    for function in _drops.values():
        function(still)


def deleted_here(digest: str) -> None:
    """Note that this session deletes an upload, which needs no message about a deletion elsewhere."""
    st.session_state[_DELETED] = st.session_state.get(_DELETED, frozenset()) | {digest}


def lost() -> frozenset[str]:
    """Digests of uploads that this session had, and that were deleted elsewhere."""
    return st.session_state.get(_LOST, frozenset())


def forget_lost() -> None:
    """Say no more that uploads were deleted elsewhere."""
    st.session_state[_LOST] = frozenset()
