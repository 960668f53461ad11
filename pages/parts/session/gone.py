"""Drops what a session keeps of runs and uploads that are gone, in whatever way they were deleted.

Modules register what they keep; `drop` calls them before a page is drawn. State of a browser session: `uploads_seen`,
the digests of the viewer's uploads at the last page; `uploads_unread`, of those among them that cannot be read at this
moment; `uploads_lost`, of those that were deleted elsewhere; and `uploads_deleted`, of those that this session deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import streamlit as st

from pages.parts.session import owner, resources

_SEEN, _UNREAD, _LOST, _DELETED = "uploads_seen", "uploads_unread", "uploads_lost", "uploads_deleted"


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
    """Ids of all runs that the viewer may see now, also of those that are trained and not audited yet.

    Runs on an upload that cannot be read at this moment are among them: they are not gone.
    """
    from core.jobs.trained import trained_runs

    workspace = owner.workspace()
    trained = {run.id for run in trained_runs(workspace)}  # first: a run that ends meanwhile is found below
    found = trained | {run.id for run in workspace.runs()}
    if unread := st.session_state.get(_UNREAD):
        imported = [run for run in resources.every_workspace().runs() if run.spec.corpus.imported is not None]
        found |= {run.id for run in imported if run.spec.corpus.digest() in unread}
    return frozenset(found)


def drops(function: Drop) -> Drop:
    """A decorator: `function` takes out of the session's state what was made from anything that is gone."""
    _drops[f"{function.__module__}.{function.__qualname__}"] = function
    return function


def drop() -> None:
    """Drop what the session keeps of anything that the viewer may not see any more. Every page begins with it."""
    from core.runs.uploads.records import uploads

    root = owner.workspace().root
    there = frozenset(one.digest for one in uploads(root, owner.owner()))
    missed = frozenset(st.session_state.get(_SEEN, ())) - there
    unread = frozenset(digest for digest in missed if _may_be_there(root, digest))
    still = Still(there | unread, missed - unread)
    st.session_state[_SEEN], st.session_state[_UNREAD] = still.uploads, unread
    deleted = st.session_state[_DELETED] = st.session_state.get(_DELETED, frozenset()) - there  # uploaded again
    st.session_state[_LOST] = (st.session_state.get(_LOST, frozenset()) | (still.lost - deleted)) - there
    for function in tuple(_drops.values()):  # another session may import a module that registers one
        function(still)


def _may_be_there(root: Path, digest: str) -> bool:
    """Whether an upload that was not found may be there, since its record could not be read at that moment."""
    from core.runs.uploads.records import RecordBroken, RecordUnread, read_record, record_file

    try:
        upload = read_record(record_file(root, digest))
    except RecordUnread:
        return True
    except RecordBroken:
        return False
    return upload is not None and upload.owner == owner.owner() and not upload.leaving


def deleted_here(digest: str) -> None:
    """Note that this session deletes an upload, which needs no message about a deletion elsewhere."""
    st.session_state[_DELETED] = st.session_state.get(_DELETED, frozenset()) | {digest}


def lost() -> frozenset[str]:
    """Digests of uploads that this session had, and that were deleted elsewhere."""
    return st.session_state.get(_LOST, frozenset())


def forget_lost() -> None:
    """Say no more that uploads were deleted elsewhere."""
    st.session_state[_LOST] = frozenset()
