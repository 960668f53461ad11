"""Whose notes are these? Uploaded cohorts belong to the browser session, or the signed-in user, that brought them."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.store import Workspace

LOOK_SECONDS = 60.0  # between two looks at what is past its time
THOROUGH_EVERY = 10  # looks; the others leave the rest of the store alone
AGAIN_SECONDS = 30.0
HOLDERS = {  # the parts whose `st.cache_resource` may hold something of a cohort: models, scores, tables, a figure
    "job_monitor": ("_strips",),
    "membership_data": ("_scores",),
    "patient_data": ("_tables", "_with_profiles", "_wordings"),
    "patient_heat": ("_model",),
    "probe_try": ("_model",),
    "report_views": ("_report",),
}
OWN_BOXES = ("own_file", "own_identifiers")  # those that take notes and identifiers (`box`)
OWN_CHECK = "own_asked"  # the session's check of notes
EMPTIED = "own_files_emptied"  # how often its boxes were emptied
_SESSION = "owner_of_this_session"
_lives: dict[str, Callable[[], bool]] = {}  # sessions that were here, and whether each is still connected
_uploads_seen: dict[Path, set[str]] = {}  # digests at the last look, by data folder

log = logging.getLogger(__name__)


@dataclass
class _ClearAgain:
    """How often the caches are still to be emptied after a deletion.

    A page that was being drawn then may put what it had read into a cache afterwards.
    """

    rounds: int = 0
    wake: threading.Event = field(default_factory=threading.Event)


_clear_again = _ClearAgain()


def owner() -> str:
    """Who looks at this page, as a name that nobody can guess: of the signed-in user, else of the browser session."""
    if getattr(st.user, "is_logged_in", False):
        who = "/".join(str(st.user.get(name) or "") for name in ("iss", "sub", "email"))
        return "user-" + hashlib.sha256(who.encode()).hexdigest()
    if _SESSION not in st.session_state:
        from core.runs.uploads import OF_SESSION

        st.session_state[_SESSION] = OF_SESSION + secrets.token_hex(16)
    _lives[st.session_state[_SESSION]] = session_lives()
    return st.session_state[_SESSION]


def looks_at_own_file() -> bool:
    """Whether this session has a file of its own in a box for uploads, or a check of one."""
    return any(st.session_state.get(key) for key in (OWN_CHECK, *map(box, OWN_BOXES)))


def box(name: str) -> str:
    """The key of a box for files. Only a new one makes it empty: what it holds would be written to disk again."""
    emptied = st.session_state.get(EMPTIED, 0)
    return f"{name}-{emptied}" if emptied else name


def signed_in() -> bool:
    """True when uploads outlive this browser session."""
    return owner().startswith("user-")


def session_lives() -> Callable[[], bool]:
    """Tells, from any thread, whether this browser session is still connected."""
    context = get_script_run_ctx()
    if context is None or not runtime.exists():  # pages without a server, as tests run them
        return lambda: True
    return lambda: runtime.exists() and runtime.get_instance().is_active_session(context.session_id)


def remove(workspace: Workspace, digest: str) -> None:
    """Delete an uploaded cohort with everything made from it; jobs on it are cancelled. `workspace` has no viewer."""
    from core.jobs.engine import Engine
    from core.runs.uploads import delete, made_from
    from pages.parts import side_by_side

    with _logged(f"cancelling the jobs on the upload {digest}"):  # what is asked to stop is deleted all the same
        engine = Engine.connect(workspace=workspace)
        for job in engine.jobs():
            if job.spec.corpus.digest() == digest:
                engine.cancel(job.id)
    trained = made_from(workspace, digest)
    delete(workspace, digest)
    for run_id in trained:  # afterwards: no request can load one again
        side_by_side.server(workspace).forget(run_id)
    _let_go()
    _clear_again.rounds = 2
    _clear_again.wake.set()


def _let_go() -> None:
    """Empty every cache of this process that may hold something of a cohort."""
    from pages.parts import run_picker, side_by_side

    side_by_side.phi_index.clear()
    side_by_side.patients.clear()
    run_picker.forget_metrics()
    for part, caches in HOLDERS.items():
        loaded = sys.modules.get(f"pages.parts.{part}")  # a part that nobody opened holds nothing, and may need torch
        for cache in caches if loaded is not None else ():
            getattr(loaded, cache).clear()
    st.cache_data.clear()


def clear_out(workspace: Workspace, *, thorough: bool = True) -> None:
    """Delete uploads past their time, and what a killed server left. What fails is logged, and the rest is done.

    Without `thorough` the store is not walked through.
    """
    from core.runs.scratch import sweep
    from core.runs.upkeep import sweep_store, tighten_store
    from core.runs.uploads import delete_orphans, due, put_aside_damaged

    if thorough and _clear_again.rounds:
        _clear_again.rounds -= 1
        _let_go()
    workspace.forget_imported(gone=True)
    with _logged("putting records aside that cannot be read"):
        put_aside_damaged(workspace.root)
    with _logged("looking which browsers are still there"):
        _note_who_is_here(workspace.root)
    overdue: list[str] = []
    with _logged("looking for uploads past their time"):
        overdue = due(workspace.root)
    for digest in overdue:
        with _logged(f"deleting the upload {digest}"):
            remove(workspace, digest)
    with _logged("letting go of what a command deleted"):
        _let_go_of_deleted(workspace)
    if thorough:
        with _logged("deleting what nobody can be asked about"):
            delete_orphans(workspace)
        with _logged("clearing out what a server left"):
            sweep(workspace.root)
            sweep_store(workspace.root)
            tighten_store(workspace.root)


def _note_who_is_here(root: Path) -> None:
    """Their uploads stay; of sessions that are gone and left none nothing is remembered."""
    from core.runs.uploads import still_here, uploads

    owners = {one.owner for one in uploads(root)}
    for who, lives in list(_lives.items()):
        if lives():
            if who in owners:
                still_here(root, who)
        elif who not in owners:
            _lives.pop(who, None)


def _let_go_of_deleted(workspace: Workspace) -> None:
    """Empty the caches when an upload is gone since the last look, and unload models whose runs are gone.

    A command that deletes one (`python -m core delete-upload`) cannot reach into this process.
    """
    from core.runs.uploads import uploads

    there = {one.digest for one in uploads(workspace.root)}
    if _uploads_seen.get(workspace.root, set()) - there:
        from pages.parts import side_by_side

        server = side_by_side.server(workspace)
        for run_id in set(server.loaded()) - {run.id for run in workspace.runs()}:
            server.forget(run_id)
        _let_go()
    _uploads_seen[workspace.root] = there


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # the thread that promises to delete must outlive any one failure
        log.exception("%s failed; it is tried again in %g s", what, LOOK_SECONDS)


@st.cache_resource(show_spinner=False)
def keep_time(root: str, _workspace: Workspace) -> threading.Thread:
    """Start, once a data folder, the thread that deletes uploads past their time, and what a killed server left."""

    def look() -> None:
        looks = 0
        while True:
            clear_out(_workspace, thorough=looks % THOROUGH_EVERY == 0)
            looks += 1
            if _clear_again.wake.wait(LOOK_SECONDS):
                _clear_again.wake.clear()
                time.sleep(AGAIN_SECONDS)
                looks = 0

    thread = threading.Thread(target=look, name="uploads", daemon=True)
    thread.start()
    return thread
