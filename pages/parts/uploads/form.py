"""Upload your own notes: a file, its columns, what was found in it, and the cohort to train on."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.common.refusals import out_of_range
from core.corpus.importing.files import BadNotes, short
from core.corpus.importing.memory import TAGGER, free_memory, memory_needed
from core.corpus.importing.note_tables import COLUMNS, guess_columns
from core.jobs.imports import first_rows
from core.jobs.limits import Limits
from core.runs.integrity.disk import error_sentence
from core.runs.uploads.deletion import keep
from core.runs.uploads.deletion_codes import Attempts, matches, new_code
from core.runs.uploads.records import HOURS_ALONE, Upload, hours_kept, uploads, with_code
from pages.parts.access import gate, viewer
from pages.parts.common.phi_text import literal
from pages.parts.session import cleanup, gone, owner, resources
from pages.parts.uploads import after, check, findings
from pages.parts.uploads import files as own_files

MOST_BYTES = 2**30  # uncompressed; larger files are imported from the command line, in parts
NOBODY_ELSE = (
    "The notes stay on the computers that run this app and train its models. On its pages, only {who} can see them and "
    "the models trained on them. All of it is deleted when you ask for it, {alone}and at the latest {hours:g} hours "
    "after the upload."
)
CODES = "own_codes"  # deletion codes of this session's uploads, by digest; only their hashes are stored
WRITE_DOWN = (
    "Write this code down. With it you can delete these notes and their models from any browser, even after this "
    "session has ended. *Deletion code* on this page shows it until you reload or close the page. Then it cannot be "
    "shown again, because only its hash is stored."
)
UNENCRYPTED = "This class is served without encryption: upload no notes of real people."
_CLEAR = "own_code_used"  # the box for a deletion code is emptied when it is drawn next
_NEW_CODE = "own_new_code"  # the upload whose code was not shown yet
_COLUMNS_OF = "own_columns_of"  # the file that the columns in the session were chosen for
_CHOSEN = "own_chosen"  # the upload that was chosen or made last: the box's own state ends with its page
# Wrong deletion codes per minute and session. All sessions together have no limit: they could lock everybody out, and
# 100 random bits cannot be guessed.
ATTEMPTS = Attempts(5, 60.0)
ROLES = {
    "note": "Text of the note",
    "patient": "Patient",
    "admission": "Admission",
    "date": "Date",
    "type": "Type of note",
    "note_id": "Note ID",
    "split": "Split (member, heldout, population)",
}
NEEDED = ("note", "patient")


def upload_form() -> None:
    """From a file to a cohort, step by step; an unusable file is reported and not kept."""
    if not viewer.may("upload"):
        st.info(viewer.needs("upload"), icon=":material/lock:")
        return
    signed_in = owner.signed_in()
    whom = "you, when signed in," if signed_in else "this browser session (reloading the page ends it)"
    alone = "" if signed_in else f"{_hours(HOURS_ALONE)} after this browser session has ended, "
    st.markdown(NOBODY_ELSE.format(who=whom, alone=alone, hours=hours_kept()))
    if _unencrypted_class():
        st.warning(UNENCRYPTED, icon=":material/lock_open:")
    left, right = st.columns(2)
    with left:
        files = own_files.notes()
    with right:
        table = own_files.identifiers()
    try:
        if files:
            identifiers = None if table is None else own_files.on_disk("identifiers", [table])
            _steps(own_files.on_disk("notes", files), identifiers)
        elif (asked := check.current()) is not None:  # upload boxes lose their files when the user leaves the page
            _outcome(asked)
        else:
            own_files.forget()
            _room()
    except (BadNotes, ValueError, OSError) as error:
        _nothing_kept(error_sentence(error))


def _unencrypted_class() -> bool:
    """Whether this is a class that the browser did not open by https: `make class` serves plain http."""
    return Limits.of().in_class and not (st.context.url or "").startswith("https:")


def _room() -> None:
    free = free_memory() - TAGGER - memory_needed(0, 0, 0)
    room = max(0, free) / (memory_needed(1, 1_000, 1) - memory_needed(0, 0, 0))
    st.caption(
        "For larger files and folders, use `python -m core corpus --from PATH --out DIR`. This server currently has "
        f"memory for about {float(f'{room:.2g}'):,.0f} notes of 1,000 characters; a file that does not fit is rejected "
        "while it is read."
    )


def _nothing_kept(why: str) -> None:
    st.error(f"{literal(why, 600)} Nothing was kept.", icon=":material/error:")


def _steps(path: Path, identifiers: Path | None) -> None:
    st.header("1 · Assign the columns")
    columns = {} if path.is_dir() else _mapped(path)
    if path.is_dir():
        st.caption("Tables of MIMIC-III: the columns are known, and placeholders are filled with made-up identities.")
    settings = _settings()
    if settings is None:
        return
    options = {"columns": columns, "identifiers": None if identifiers is None else str(identifiers), **settings}
    missing = [] if path.is_dir() else [ROLES[role].lower() for role in NEEDED if not columns[role]]
    if missing:
        st.info(f"Choose the column for: {', '.join(missing)}.", icon=":material/view_column:")
        return
    st.header("2 · Check the notes")
    asked = check.current(path, options)
    askable = asked is None or asked.check.state in ("failed", "ended")
    if askable and st.button("Check these notes", icon=":material/fact_check:", type="primary", key="own_check"):
        options |= {"owner": owner.owner(), "most_bytes": MOST_BYTES}
        check.start(path, options, "MIMIC-III" if path.is_dir() else path.name)
        st.rerun()
    if asked is None:
        st.caption("Nothing is stored yet.")
    else:
        _outcome(asked)


def _outcome(asked: check.Asked) -> None:
    """The check's progress, or what it found."""
    if asked.check.active:
        check.watch(asked)
    elif asked.check.state == "done":
        assert asked.check.seen is not None  # what makes it done
        findings.show(asked.check.seen)
        _use(asked)
    elif asked.check.state == "failed":
        _nothing_kept(asked.check.message)
    else:
        st.caption("The check was cancelled, and nothing is stored.")


def _use(asked: check.Asked) -> None:
    st.header("3 · Use the notes")
    name = st.text_input("Name", value=asked.name, max_chars=60, key="own_name", help="Only you see it.")
    with st.container(horizontal=True):
        used = st.button("Use these notes for training", icon=":material/check:", type="primary", key="own_use")
        if st.button("Discard", icon=":material/delete:", key="own_discard"):
            check.forget()
            own_files.forget()
            st.rerun()
    if used:
        viewer.require("upload")
        workspace = resources.every_workspace()
        code = new_code()
        upload = keep(workspace, asked.check.cohort, owner=owner.owner(), name=name.strip() or asked.name, code=code)
        if matches(code, upload.code_hash):  # otherwise the code shown at an earlier upload of these notes is valid
            st.session_state.setdefault(CODES, {})[upload.digest] = code
            st.session_state[_NEW_CODE] = upload.digest
        check.forget()
        own_files.forget()
        after.used()
        st.session_state[_CHOSEN] = upload.digest
        st.rerun()


def _first_rows(path: Path) -> pd.DataFrame:
    """The file's first rows, read once a file."""
    known: tuple[Path, pd.DataFrame] | None = st.session_state.get(own_files.FIRST_ROWS)
    if known is None or known[0] != path:
        with st.spinner("Reading the first rows …"):
            known = st.session_state[own_files.FIRST_ROWS] = path, first_rows(path)
    return known[1]


def _mapped(path: Path) -> dict[str, str]:
    """The first rows, and one select box per role with a guessed column. Returns each role's column, "" for none."""
    first = _first_rows(path)
    st.dataframe(first, hide_index=True, alt="The first rows of the file")
    names = [name for name in first.columns if name]
    keys = {role: f"own_column_{role}" for role in COLUMNS}
    if st.session_state.get(_COLUMNS_OF) != path or any(key not in st.session_state for key in keys.values()):
        guessed = guess_columns(names)
        st.session_state.update({keys[role]: guessed.get(role) for role in COLUMNS})
        st.session_state[_COLUMNS_OF] = path
    with st.grid(4, min_column_width=190):
        # The guess is a state and no default: only a box without a default can be emptied.
        picked = {
            role: st.selectbox(
                ROLES[role],
                names,
                index=None,
                placeholder="none",
                key=keys[role],
                format_func=short,
                persist_state="session",  # else a browser that gets two reruns before it draws empties the box
            )
            for role in COLUMNS
        }
    return {role: name or "" for role, name in picked.items()}


def _settings() -> dict[str, Any] | None:
    """What was chosen beside the columns; None after a sentence if a number is out of its range."""
    with st.expander("Split, copies and canaries"), st.grid(4, min_column_width=190):
        population = st.slider(
            "Population patients",
            0,
            50,
            0,
            5,
            format="%d %%",
            key="own_population",
            help="Set aside for thresholds and for an attacker's reference models. Of the others, 70 % are members and "
            "30 % held out.",
        )
        copies = st.selectbox(
            "Copies",
            ["no", "exact", "near"],
            key="own_copies",
            format_func={"no": "keep", "exact": "remove exact copies", "near": "remove near copies too"}.__getitem__,
            help="Models memorise repeated text more. But which of two copies stays depends on other "
            "people's notes, so a model's ε then covers only the remaining notes.",
        )
        planted = st.number_input(
            "Canary sentences",
            value=None,
            step=6,
            key="own_canaries",
            placeholder="as many as fit",
            help="Made-up secrets that measure memorisation; a coin decides for each whether it is planted. If you "
            "leave this empty, their copies are on average at most 5 % of the training notes.",
        )
        seed = st.number_input("Seed", value=0, step=1, key="own_seed")
    # Their boxes have no ranges: the browser would keep a number outside back, and the one before would be used.
    wrong = out_of_range("Canary sentences", planted or 0, 0, 600) or out_of_range("Seed", seed, 0, 1_000_000)
    if wrong:
        st.error(f"{wrong}.", icon=":material/error:")
        return None
    return {"population": population / 100, "deduplicate": copies, "canaries": planted, "seed": seed}


def mine() -> list[Upload]:
    """The cohorts that this viewer has uploaded, oldest first."""
    return uploads(owner.workspace().root, owner.owner())


def choose() -> Upload | None:
    """A select box over the viewer's own cohorts; None if there is none."""
    kept = {upload.digest: upload for upload in mine()}
    if not kept:
        return None
    newest = next(reversed(kept))
    chosen = st.session_state.get(_CHOSEN)
    st.session_state[_CHOSEN] = chosen = chosen if chosen in kept else newest
    if len(kept) == 1:
        return kept[newest]
    st.session_state["own_cohort"] = chosen
    names = _distinct(kept)
    chosen = st.selectbox(
        "Your notes", list(kept), format_func=names.__getitem__, key="own_cohort", on_change=_keep_choice
    )
    return kept[chosen]


def _distinct(kept: Mapping[str, Upload]) -> dict[str, str]:
    """The name of each upload by digest. Equal names get a part of it: a browser sends the label that was picked."""
    times = Counter(upload.name for upload in kept.values())
    return {
        digest: upload.name if times[upload.name] == 1 else f"{upload.name} ({digest[:6]})"
        for digest, upload in kept.items()
    }


def _keep_choice() -> None:
    st.session_state[_CHOSEN] = st.session_state["own_cohort"]


def manage(upload: Upload) -> None:
    """When the notes expire, a way to delete them now, and the code that deletes them from elsewhere."""
    until = time.strftime("%d %b %H:%M", time.localtime(upload.expires))
    alone = "" if owner.signed_in() else f", but at most {_hours(HOURS_ALONE)} after this browser session has ended"
    name = _distinct({one.digest: one for one in mine()}).get(upload.digest, upload.name)
    st.caption(
        f"**{literal(name)}**: only you see these notes and the models trained on them. Kept until {until}{alone}."
    )
    code = st.session_state.get(CODES, {}).get(upload.digest)
    with st.container(horizontal=True):
        with st.popover("Delete these notes and their models", icon=":material/delete:"):
            _ask_once_more(upload)
        with st.popover("Deletion code", icon=":material/key:"):
            if code is not None:
                st.code(code, language=None)
                st.markdown(WRITE_DOWN)
            _ask_for_code("Delete other notes by code")
    if code is not None and st.session_state.pop(_NEW_CODE, None) == upload.digest:
        _show_code(code)


def _ask_once_more(upload: Upload) -> None:
    """The button that deletes, and what is lost by it: a model may have taken hours."""
    trained = sum(run.spec.corpus.digest() == upload.digest for run in owner.workspace().runs() if not run.spec.is_base)
    models = (
        "" if not trained else ", the model trained on them" if trained == 1 else f", {trained} models trained on them"
    )
    st.markdown(f"Deletes the notes{models} and all results. This cannot be undone.")
    if st.button(
        "Delete now", icon=":material/delete:", type="primary", key=f"delete-{upload.digest}", **viewer.locked("delete")
    ):
        _delete(upload)


def delete_by_code() -> None:
    """A form for the deletion code of an upload from another browser session; open if one of these is missed here."""
    with st.expander("Delete notes by deletion code", icon=":material/key:", expanded=after.session_ended()):
        _ask_for_code("Deletion code")


@st.dialog("Your deletion code", icon=":material/key:")
@gate.drawn_for_admitted
def _show_code(code: str) -> None:
    st.code(code, language=None)
    st.markdown(WRITE_DOWN)
    if st.button("I have written it down", type="primary", key="own_code_seen"):
        st.rerun()


def _ask_for_code(label: str) -> None:
    if st.session_state.pop(_CLEAR, False):
        st.session_state["own_code"] = ""
    with st.form("own_by_code", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        code = st.text_input(
            label,
            key="own_code",  # without a limit: the browser would drop a longer paste whole
            placeholder="ABCD-EFGH-JKMN-PQRS-TVWX",
            autocomplete="off",
            help="It was shown after the upload. Anyone who has it can delete the notes but cannot see them.",
        )
        asked = st.form_submit_button("Delete", icon=":material/delete:", **viewer.locked("delete"))
    if asked and code.strip():
        _delete_by(code)


def _delete_by(code: str) -> None:
    if viewer.refused("delete"):
        return
    who = owner.owner()
    if (wait := ATTEMPTS.wait(who)) > 0:
        st.error(f"Too many wrong codes. Try again in {math.ceil(wait)} seconds.", icon=":material/timer:")
        return
    found = with_code(resources.every_workspace().root, code)
    if not found:
        ATTEMPTS.failed(who)
        st.error(
            "No upload has this code. Check each letter. If the notes were already deleted, their code is gone too.",
            icon=":material/error:",
        )
    for upload in found:
        _delete(upload)


def _delete(upload: Upload) -> None:
    """Delete an upload, and rerun the page, which says so (`after.say`)."""
    if viewer.refused("delete"):
        return
    after.deleted(upload.digest)
    with st.spinner("Deleting the notes and their models …"):
        cleanup.remove(resources.every_workspace(), upload.digest)
    st.session_state[_CLEAR] = True
    st.rerun()


@gone.drops
def _drop_gone(still: gone.Still) -> None:
    """Drop the deletion codes and labels of uploads that are gone, and the choice of one."""
    if st.session_state.get(_CHOSEN) in still.lost:
        st.session_state.pop(_CHOSEN)
    for digest in still.lost:
        st.session_state.pop(f"{own_files.LABELS_OF}{digest}", None)
        st.session_state.get(CODES, {}).pop(digest, None)


def _hours(hours: float) -> str:
    return "an hour" if hours == 1 else f"{hours:g} hours"
