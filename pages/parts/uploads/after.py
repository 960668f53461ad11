"""What Cohort says after uploaded notes were deleted here, and of notes that a session which has ended uploaded.

State of a browser session: `own_deleted`, the upload that it deleted last, until another page is opened or notes are
used. In the link: `uploaded=1` while the page shows notes that its viewer uploaded, so that a new session knows of
them.
"""

from __future__ import annotations

import streamlit as st

from core.runs.uploads.records import HOURS_ALONE, hours_kept, record_file, uploads
from pages.parts.access import gate
from pages.parts.common.together import UPLOADED as MARK
from pages.parts.session import gone, owner, resources

DELETED = "The notes and all runs made from them were deleted."
STILL_IN_USE = (
    "These notes are no longer shown. A job on them is still running and was asked to stop; what it uses is deleted "
    "when it has stopped, usually within a minute. This message then says so."
)
SESSION_ENDED = (
    "The uploaded notes that this page showed belong to another browser session, which may have ended: the server was "
    "restarted, the connection was lost or the page was reloaded. They cannot be opened here. You can delete them and "
    "their models with their deletion code below. Otherwise they are deleted {alone} after that session has ended, and "
    "at the latest {hours:g} hours after the upload."
)
NOT_HERE = "The uploaded notes that this page showed are no longer here: they were deleted or had expired."
LOOK_SECONDS = 2.0  # between two looks at whether a deletion is complete
_DELETED = "own_deleted"


def deleted(digest: str) -> None:
    """Note that this session deleted an upload. Call it before the deletion: afterwards nothing is known of it."""
    gone.deleted_here(digest)
    st.session_state[_DELETED] = digest


def used() -> None:
    """Say no more that an upload was deleted: the page shows new notes."""
    st.session_state.pop(_DELETED, None)


def mark(there: bool) -> None:
    """Note in the link whether the page shows notes that its viewer uploaded."""
    if there:
        st.query_params[MARK] = "1"
    else:
        st.query_params.pop(MARK, None)


def session_ended() -> bool:
    """Whether the page showed uploaded notes in another session, and this one neither has any nor deleted any."""
    if MARK not in st.query_params or _DELETED in st.session_state or gone.lost():
        return False
    return not uploads(resources.data(), owner.owner())


def say(same_page: bool) -> None:
    """The message that lasts: of the last deletion while its page is open, or of notes of a session that has ended."""
    digest = st.session_state.get(_DELETED)
    if digest is not None and (not same_page or _is_back(digest)):
        used()
    elif digest is not None and _is_complete(digest):
        st.success(DELETED, icon=":material/delete:")
    elif digest is not None:
        gate.fragment(_waiting, run_every=LOOK_SECONDS)(digest)
    elif session_ended():
        alone = "an hour" if HOURS_ALONE == 1 else f"{HOURS_ALONE:g} hours"
        ended = SESSION_ENDED.format(alone=alone, hours=hours_kept())
        st.warning(NOT_HERE if owner.signed_in() else ended, icon=":material/link_off:")


def _waiting(digest: str) -> None:
    if _is_complete(digest):
        st.rerun()
    st.info(STILL_IN_USE, icon=":material/hourglass_top:")


def _is_back(digest: str) -> bool:
    """Whether the viewer has uploaded the deleted notes again, in this or another browser."""
    return any(one.digest == digest for one in uploads(resources.data(), owner.owner()))


def _is_complete(digest: str) -> bool:
    """Whether a deleted upload's record is gone: it stays until everything made from the upload is."""
    return not record_file(resources.data(), digest).exists()
