"""Bring your own notes: a file, its columns, what was seen in it, and the cohort to train on."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import streamlit as st

from core.corpus.importing.files import BadNotes, head, short
from core.corpus.importing.memory import free_memory, memory_needed
from core.corpus.importing.note_tables import COLUMNS, guess_columns
from core.runs.integrity.disk import error_sentence
from core.runs.uploads.deletion import keep
from core.runs.uploads.deletion_codes import Attempts, new_code
from core.runs.uploads.records import HOURS_ALONE, Upload, hours_kept, uploads, with_code
from pages.parts.common.phi_text import literal
from pages.parts.session import cleanup, owner, resources
from pages.parts.uploads import check, findings
from pages.parts.uploads import files as own_files

MOST_BYTES = 2**30  # expanded; a larger file comes by the command line, in pieces and with a terminal to wait in
NOBODY_ELSE = (
    "The notes stay on this computer and are sent nowhere. Only {who} can see them and the models trained on them. All "
    "of it is deleted when you say so, {alone}and {hours:g} hours after the upload at the latest."
)
CODES = "own_codes"  # of this session's uploads, by digest; nothing but their hashes is stored
WRITE_DOWN = (
    "Write this code down. It deletes these notes and their models from any browser, also when this session is gone. "
    "Only its hash is stored: nobody can show it to you again."
)
_NEW_CODE = "own_new_code"  # the upload whose code was not shown yet
ATTEMPTS_OF_ONE, ATTEMPTS_OF_ALL = Attempts(5, 60.0), Attempts(100, 60.0)  # wrong deletion codes in a minute
ROLES = {
    "note": "Text of the note",
    "patient": "Patient",
    "admission": "Admission",
    "date": "Date",
    "type": "Kind of note",
    "note_id": "Note's own id",
    "split": "Split (member, heldout, population)",
}
NEEDED = ("note", "patient")


def bring() -> None:
    """From a file to a cohort, a step after the other; what is wrong is said and nothing of it is kept."""
    signed_in = owner.signed_in()
    whom = "you, signed in," if signed_in else "this browser session (reloading the page ends it)"
    alone = "" if signed_in else f"{_hours(HOURS_ALONE)} after this browser session has ended, "
    st.markdown(NOBODY_ELSE.format(who=whom, alone=alone, hours=hours_kept()))
    left, right = st.columns(2)
    with left:
        files = own_files.notes()
    with right:
        table = own_files.identifiers()
    try:
        if files:
            identifiers = None if table is None else own_files.on_disk("identifiers", [table])
            _steps(own_files.on_disk("notes", files), identifiers)
        elif (asked := check.current()) is not None:  # a page that is left forgets what was put into its boxes
            _outcome(asked)
        else:
            own_files.forget()
            _room()
    except (BadNotes, ValueError, OSError) as error:
        _nothing_kept(error_sentence(error))


def _room() -> None:
    room = max(0, free_memory() - memory_needed(0, 0, 0)) / (memory_needed(1, 1_000, 1) - memory_needed(0, 0, 0))
    st.caption(
        "Larger files and folders: `python -m core corpus --from PATH --out DIR`. This computer has memory for about "
        f"{float(f'{room:.2g}'):,.0f} notes of 1,000 characters now; a file that will not fit is refused while it is "
        "read."
    )


def _nothing_kept(why: str) -> None:
    st.error(f"{literal(why, 600)} Nothing was kept.", icon=":material/error:")


def _steps(path: Path, identifiers: Path | None) -> None:
    st.subheader("1 · Which column is what?")
    columns = {} if path.is_dir() else _mapped(path)
    if path.is_dir():
        st.caption("Tables of MIMIC-III: their columns are known, and placeholders are filled with made-up identities.")
    options = {"columns": columns, "identifiers": None if identifiers is None else str(identifiers), **_settings()}
    missing = [] if path.is_dir() else [ROLES[role].lower() for role in NEEDED if role not in columns]
    if missing:
        st.info(f"Choose the column of: {', '.join(missing)}.", icon=":material/view_column:")
        return
    st.subheader("2 · What is in it?")
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
    """How far the check is, or what it found."""
    if asked.check.active:
        check.watch(asked)
    elif asked.check.state == "done":
        assert asked.check.seen is not None  # what makes it done
        findings.show(asked.check.seen)
        _use(asked)
    elif asked.check.state == "failed":
        _nothing_kept(asked.check.message)
    else:
        st.caption("The check was ended, and nothing is stored.")


def _use(asked: check.Asked) -> None:
    st.subheader("3 · Use it")
    name = st.text_input("Name", value=asked.name, max_chars=60, key="own_name", help="Only you see it.")
    with st.container(horizontal=True):
        used = st.button("Use these notes for training", icon=":material/check:", type="primary", key="own_use")
        if st.button("Discard", icon=":material/delete:", key="own_discard"):
            check.forget()
            own_files.forget()
            st.rerun()
    if used:
        workspace = resources.every_workspace()
        code = new_code()
        upload = keep(workspace, asked.check.cohort, owner=owner.owner(), name=name.strip() or asked.name, code=code)
        st.session_state.setdefault(CODES, {})[upload.digest] = code
        st.session_state[_NEW_CODE] = upload.digest
        check.forget()
        own_files.forget()
        st.session_state["own_cohort"] = upload.digest
        st.rerun()


def _short(cell: str) -> str:
    return cell if len(cell) <= 300 else f"{cell[:300]} …"


def _mapped(path: Path) -> dict[str, str]:
    """The first rows, and a select box a role filled with the usual names; roles left empty are not in the answer."""
    first = head(path)
    st.dataframe(first.map(_short), hide_index=True, alt="The first rows of the file")
    names = list(first.columns)
    guessed = guess_columns(names)
    chosen: dict[str, str] = {}
    with st.grid(4, min_column_width=190):
        for role in COLUMNS:
            there = guessed.get(role)
            picked = st.selectbox(
                ROLES[role],
                names,
                index=names.index(there) if there else None,
                placeholder="none",
                key=f"own_column_{role}",
                format_func=short,
            )
            if picked is not None:
                chosen[role] = picked
    return chosen


def _settings() -> dict[str, Any]:
    with st.expander("How to split it, and what to plant"), st.grid(4, min_column_width=190):
        population = st.slider(
            "Patients kept apart",
            0,
            50,
            0,
            5,
            format="%d %%",
            key="own_population",
            help="For thresholds and for an attacker's reference models. The others: 70 % members, 30 % held out.",
        )
        copies = st.selectbox(
            "Copies",
            ["no", "exact", "near"],
            key="own_copies",
            format_func={
                "no": "keep them",
                "exact": "leave out copies",
                "near": "leave out near copies too",
            }.__getitem__,
            help="Left out, copies are memorised less. Which of two stays depends on other people's notes, so the ε of "
            "a model then speaks of the notes that were left.",
        )
        planted = st.number_input(
            "Canary sentences",
            0,
            600,
            None,
            6,
            key="own_canaries",
            placeholder="as many as fit",
            help="Made-up secrets, each planted by a coin, that measure memorising. Left empty: their copies are at "
            "most 5 % of the training notes.",
        )
        seed = st.number_input("Seed", 0, 1_000_000, 0, 1, key="own_seed")
    return {"population": population / 100, "deduplicate": copies, "canaries": planted, "seed": seed}


def mine() -> list[Upload]:
    """The cohorts this viewer has brought, oldest first."""
    return uploads(owner.workspace().root, owner.owner())


def choose() -> Upload | None:
    """One of one's own cohorts; None when there is none."""
    kept = {upload.digest: upload for upload in mine()}
    if not kept:
        return None
    newest = next(reversed(kept))
    if st.session_state.get("own_cohort") not in kept:
        st.session_state["own_cohort"] = newest
    if len(kept) == 1:
        return kept[newest]
    chosen = st.selectbox("Your notes", list(kept), format_func=lambda digest: kept[digest].name, key="own_cohort")
    return kept[chosen]


def manage(upload: Upload) -> None:
    """Until when the notes are kept, the button that deletes them at once, and the code that does so elsewhere."""
    until = time.strftime("%d %b %H:%M", time.localtime(upload.expires))
    alone = "" if owner.signed_in() else f", but only {_hours(HOURS_ALONE)} after this browser session has ended"
    st.caption(f"**{literal(upload.name)}**: yours alone, with every model trained on it. Kept until {until}{alone}.")
    code = st.session_state.get(CODES, {}).get(upload.digest)
    with st.container(horizontal=True):
        if st.button(
            "Delete these notes and their models now", icon=":material/delete:", key=f"delete-{upload.digest}"
        ):
            _delete(upload)
        with st.popover("Deletion code", icon=":material/key:"):
            if code is not None:
                st.code(code, language=None)
                st.markdown(WRITE_DOWN)
            _ask_for_code("Delete other notes by their code")
    if code is not None and st.session_state.pop(_NEW_CODE, None) == upload.digest:
        _show_code(code)


def delete_by_code() -> None:
    """A box for the deletion code of an upload whose browser is gone."""
    with st.expander("Delete notes by their deletion code", icon=":material/key:"):
        _ask_for_code("Deletion code")


@st.dialog("Your deletion code", icon=":material/key:")
def _show_code(code: str) -> None:
    st.code(code, language=None)
    st.markdown(WRITE_DOWN)
    if st.button("I have written it down", type="primary", key="own_code_seen"):
        st.rerun()


def _ask_for_code(label: str) -> None:
    with st.form("own_by_code", border=False), st.container(horizontal=True, vertical_alignment="bottom"):
        code = st.text_input(
            label,
            key="own_code",
            max_chars=60,
            placeholder="ABCD-EFGH-JKMN-PQRS-TVWX",
            autocomplete="off",
            help="It was shown after the upload. Whoever has it can delete the notes, and see nothing of them.",
        )
        asked = st.form_submit_button("Delete", icon=":material/delete:")
    if asked and code.strip():
        _delete_by(code)


def _delete_by(code: str) -> None:
    who = owner.owner()
    wait = max(ATTEMPTS_OF_ONE.wait(who), ATTEMPTS_OF_ALL.wait(""))
    if wait > 0:
        st.error(f"Too many wrong codes. Try again in {math.ceil(wait)} seconds.", icon=":material/timer:")
        return
    found = with_code(resources.every_workspace().root, code)
    if not found:
        ATTEMPTS_OF_ONE.failed(who)
        ATTEMPTS_OF_ALL.failed("")
        st.error(
            "No upload has this code. Check each letter; if the notes are deleted already, their code is gone too.",
            icon=":material/error:",
        )
    for upload in found:
        _delete(upload)


def _delete(upload: Upload) -> None:
    """Delete an upload, and begin the page again."""
    cleanup.remove(resources.every_workspace(), upload.digest)
    st.session_state.pop("own_cohort", None)
    st.session_state.get(CODES, {}).pop(upload.digest, None)
    st.toast("Deleted: the notes, and every run made from them.", icon=":material/delete:")
    st.rerun()


def _hours(hours: float) -> str:
    return "an hour" if hours == 1 else f"{hours:g} hours"
