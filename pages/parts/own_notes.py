"""Bring your own notes: a file, its columns, what was seen in it, and the cohort to train on."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from core.corpus.import_files import BadNotes, head, short
from core.corpus.import_memory import PER_CHARACTER, free_memory
from core.corpus.import_table import COLUMNS, guess_columns
from core.corpus.importers import Imported, fitting_canaries, import_notes
from core.phi.fields import FIELD
from core.runs.store import DiskFull
from core.runs.uploads import Upload, hours_kept, keep, uploads
from pages.parts import own_files, owner, shell
from pages.parts.numbers import numbers
from pages.parts.phi_text import literal

MOST_BYTES = 2**30  # expanded; a larger file comes by the command line, in pieces and with a terminal to wait in
NOBODY_ELSE = (
    "The notes stay on this computer and are sent nowhere. Only {who} can see them and the models trained on them; all "
    "of it is deleted when you say so, and {hours:g} hours after the upload at the latest."
)
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
_CHECKED = "own_checked"


def bring() -> None:
    """From a file to a cohort, a step after the other; what is wrong is said and nothing of it is kept."""
    whom = "you, signed in," if owner.signed_in() else "this browser session (reloading the page ends it)"
    st.markdown(NOBODY_ELSE.format(who=whom, hours=hours_kept()))
    left, right = st.columns(2)
    with left:
        files = own_files.notes()
    with right:
        table = own_files.identifiers()
    if not files:
        room = free_memory() / PER_CHARACTER / 2**20
        st.caption(
            "Larger files and folders: `python -m core corpus --from PATH --out DIR`. Checking takes "
            f"about {PER_CHARACTER} times the memory of the text: this computer has room for about {room:,.0f} MB of "
            "notes now, and a file that will not fit is refused at its first rows."
        )
        return
    try:
        _steps(own_files.on_disk(files), None if table is None else own_files.on_disk([table]))
    except (BadNotes, ValueError, DiskFull) as error:
        st.error(f"{literal(str(error), 600)} Nothing was kept.", icon=":material/error:")


def _steps(path: Path, identifiers: Path | None) -> None:
    st.subheader("1 · Which column is what?")
    columns = {} if path.is_dir() else _mapped(path)
    if path.is_dir():
        st.caption("Tables of MIMIC-III: their columns are known, and placeholders are filled with made-up identities.")
    options = {"columns": columns, "identifiers": identifiers, **_settings()}
    missing = [] if path.is_dir() else [ROLES[role].lower() for role in NEEDED if role not in columns]
    if missing:
        st.info(f"Choose the column of: {', '.join(missing)}.", icon=":material/view_column:")
        return
    st.subheader("2 · What is in it?")
    asked = st.button("Check these notes", icon=":material/fact_check:", type="primary", key="own_check")
    wanted = (str(path), str(options))
    if asked:
        st.session_state[_CHECKED] = (wanted, _checked(path, options))
    known, imported = st.session_state.get(_CHECKED, (None, None))
    if known != wanted:
        st.caption("Nothing is stored yet.")
        return
    _show(imported)
    st.subheader("3 · Use it")
    usual = "MIMIC-III" if path.is_dir() else path.name
    name = st.text_input("Name", value=usual, max_chars=60, key="own_name", help="Only you see it.")
    if st.button("Use these notes for training", icon=":material/check:", type="primary", key="own_use"):
        upload = keep(shell.every_workspace(), imported.corpus, owner=owner.owner(), name=name.strip() or usual)
        st.session_state.pop(_CHECKED, None)
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
                ROLES[role], names, index=names.index(there) if there else None, placeholder="none",
                key=f"own_column_{role}", format_func=short,
            )  # fmt: skip
            if picked is not None:
                chosen[role] = picked
    return chosen


def _settings() -> dict[str, Any]:
    with st.expander("How to split it, and what to plant"), st.grid(4, min_column_width=190):
        population = st.slider(
            "Patients kept apart", 0, 50, 0, 5, format="%d %%", key="own_population",
            help="For thresholds and for an attacker's reference models. The others: 70 % members, 30 % held out.",
        )  # fmt: skip
        copies = st.selectbox(
            "Copies", ["no", "exact", "near"], key="own_copies",
            format_func={"no": "keep them", "exact": "leave out copies", "near": "leave out near copies too"}.get,
        )  # fmt: skip
        planted = st.number_input(
            "Canary sentences", 0, 600, None, 6, key="own_canaries", placeholder="as many as fit",
            help="Made-up secrets, each planted by a coin, that measure memorising. Left empty: their copies are at "
            "most 5 % of the training notes.",
        )  # fmt: skip
        seed = st.number_input("Seed", 0, 1_000_000, 0, 1, key="own_seed")
    return {"population": population / 100, "deduplicate": copies, "canaries": planted, "seed": seed}


def _checked(path: Path, options: dict[str, Any]) -> Imported:
    bar = st.progress(0.0, text="Reading the file")
    said = 0.0

    def tell(what: str, done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said > 0.2:
            said = time.monotonic()
            bar.progress(min(1.0, done / max(1, total)), text=f"{what.capitalize()}: {done:,} of {total:,}")

    try:
        return import_notes(path, **options, owner=owner.owner(), most_bytes=MOST_BYTES, on_progress=tell)
    finally:
        bar.empty()


def _show(imported: Imported) -> None:
    """Rows, patients, copies, and what identifies people in the notes."""
    corpus = imported.corpus
    notes = corpus.notes[corpus.notes["split"] != "canary"]
    with_phi = int(notes["phi_spans"].map(len).gt(0).sum())
    counts = corpus.patients["split"].value_counts()
    shown = (
        ("Notes", f"{len(notes):,}", f"{imported.rows:,} rows in the file"),
        ("Patients", f"{len(corpus.patients):,}", f"{counts['member']} trained on, {counts['heldout']} held out"),
        ("Copies", f"{imported.copies.exact:,}", f"{imported.copies.near:,} with near copies"),
        ("Notes that identify", f"{with_phi:,}", f"{with_phi / len(notes):.0%} of the notes"),
        ("Canaries", f"{len(corpus.canaries):,}", f"{int(corpus.canaries['inserted'].sum())} planted"),
    )
    with st.grid(5, min_column_width=150):
        for label, value, below in shown:
            st.metric(label, value, below, delta_color="off", delta_arrow="off", border=True)
    for warning in _warnings(imported, len(notes)):
        st.warning(warning, icon=":material/warning:")
    st.markdown(_whose_details(imported))
    _phi_table(notes)


def _warnings(imported: Imported, notes: int) -> list[str]:
    found = []
    repeated = imported.copies.near
    if repeated and not imported.removed:
        found.append(
            f"{repeated:,} of {imported.rows:,} notes repeat an earlier one, {imported.copies.exact:,} of them word "
            "for word. A model memorises what it reads often, so figures of leakage will be higher than one note's "
            "worth. “Copies” above can leave them out."
        )
    if imported.removed:
        found.append(f"{imported.removed:,} notes that repeat an earlier one were left out.")
    if imported.blank:
        found.append(f"{imported.blank:,} rows have no text and were left out.")
    if imported.marked_wrong:
        found.append(f"{imported.marked_wrong:,} notes are marked as errors and were left out.")
    if imported.unknown_placeholders:
        found.append(f"{imported.unknown_placeholders:,} placeholders of a kind that nothing stands for became ___.")
    if imported.without_record:
        found.append(f"{imported.without_record:,} patients have no row in the table of identifiers.")
    if not fitting_canaries(notes):
        found.append("The cohort is too small to plant canaries without changing it: exposure will not be measured.")
    return found


def _whose_details(imported: Imported) -> str:
    if imported.records == "table":
        return "Whose details stand where is known from the table of identifiers; anything else is found by its shape."
    if imported.records == "surrogates":
        return (
            "The placeholders of MIMIC-III were filled with made-up identities, one a patient, so whose details stand "
            "where is known; anything else is found by its shape."
        )
    return (
        "There is no table of identifiers, so a patient's details are what has the **shape** of an identifier and "
        "stands in the notes of that patient alone. What shapes miss, no attack here can count as leaked: figures of "
        "extraction are then a lower bound."
    )


def _phi_table(notes: pd.DataFrame) -> None:
    """How often each kind of PHI was found here, and how well the finder does where the truth is known."""
    from core.evaluation.shaped_figures import ALL, on_hospital, on_labelled_set
    from core.spec import CORPUS_PRESETS

    spans = notes["phi_spans"].explode().dropna()
    here = spans.map(lambda span: span["field"]).value_counts() if len(spans) else pd.Series(dtype=int)
    hand, hospital = on_labelled_set().set_index("field"), on_hospital(CORPUS_PRESETS["smoke"]).set_index("field")
    fields = [ALL, *sorted({*here.index, *hand.index} - {ALL})]
    table = pd.DataFrame(
        {
            "kind of PHI": ["all" if name == ALL else FIELD[name].label if name in FIELD else name for name in fields],
            "found in your notes": [int(len(spans) if name == ALL else here.get(name, 0)) for name in fields],
            "recall, hand-labelled": hand["recall"].reindex(fields).to_numpy(),
            "precision, hand-labelled": hand["precision"].reindex(fields).to_numpy(),
            "recall, synthetic hospital": hospital["recall"].reindex(fields).to_numpy(),
            "precision, synthetic hospital": hospital["precision"].reindex(fields).to_numpy(),
        }
    )
    whole = hand.loc[ALL]
    st.markdown(
        f"Of {whole['labelled']} identifiers in made-up lines labelled by hand, the shapes find {whole['recall']:.0%} "
        f"(95 % interval {whole['recall_low']:.0%} to {whole['recall_high']:.0%}); names on no list and without a "
        "title are what they miss most. Your notes may be worded otherwise: look at a few below before you rely on it."
    )
    numbers(table, name="own-phi", label="What was found in your notes, and how far to trust it")


def mine() -> list[Upload]:
    """The cohorts this viewer has brought, oldest first."""
    return uploads(shell.workspace().root, owner.owner())


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
    """Until when the notes are kept, and the button that deletes them at once."""
    until = time.strftime("%d %b %H:%M", time.localtime(upload.expires))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"**{literal(upload.name)}**: yours alone, kept until {until}, with every model trained on it.")
        if st.button(
            "Delete these notes and their models now", icon=":material/delete:", key=f"delete-{upload.digest}"
        ):
            owner.remove(shell.every_workspace(), upload.digest)
            st.session_state.pop("own_cohort", None)
            st.toast("Deleted: the notes, and every run made from them.", icon=":material/delete:")
            st.rerun()
