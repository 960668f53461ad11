"""What a check found in uploaded notes: counts, warnings, and how reliably identifiers are found."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.corpus.importing.importer import Seen, fitting_canaries
from core.phi.fields import FIELD
from pages.parts.common.data_table import data_table
from pages.parts.common.phi_text import literal


def show(seen: Seen) -> None:
    """Rows, patients, copies, and identifiers in the notes."""
    shown = (
        ("Notes", f"{seen.notes:,}", f"of {seen.rows:,} rows"),
        ("Patients", f"{seen.patients:,}", f"{seen.heldout:,} held out"),
        ("Copies", f"{seen.copies:,}", f"near copies: {seen.near_copies:,}"),
        ("Notes with PHI", f"{seen.notes_with_phi:,}", f"{seen.notes_with_phi / seen.notes:.0%} of notes"),
        ("Canaries", f"{seen.canaries:,}", f"{seen.planted:,} planted"),
    )
    with st.grid(5, min_column_width=150):
        for label, value, below in shown:
            st.metric(label, value, below, delta_color="off", delta_arrow="off", border=True)
    for warning in _warnings(seen):
        st.warning(warning, icon=":material/warning:")
    st.markdown(_whose_details(seen))
    _phi_table(seen.found)


def _warnings(seen: Seen) -> list[str]:
    found = []
    repeated = seen.near_copies
    if repeated and not seen.removed:
        found.append(
            f"{repeated:,} of {seen.rows:,} notes repeat an earlier note, {seen.copies:,} of them word for word. A "
            "model memorises repeated text more, so leakage figures will be higher than for a note that occurs once. "
            "You can remove copies with “Copies” above, but then ε covers only the remaining notes."
        )
    if seen.removed:
        found.append(
            f"{seen.removed:,} notes that repeat an earlier note were removed. Which of two copies stays depends on "
            "other people's notes, so a model's ε covers only the remaining notes. For a guarantee about all notes, "
            "keep the copies."
        )
    if seen.blank:
        found.append(f"{seen.blank:,} rows have no text and were left out.")
    if seen.marked_wrong:
        found.append(f"{seen.marked_wrong:,} notes are marked as errors and were left out.")
    if seen.unknown_placeholders:
        found.append(f"{seen.unknown_placeholders:,} placeholders of unknown kinds were replaced by ___.")
    if seen.without_identifier:
        no_row = f" ({seen.without_record:,} have no row in the table)" if seen.without_record else ""
        found.append(
            f"{seen.without_identifier:,} of {seen.patients:,} patients have no identifier that could be found in a "
            f"text{no_row}. For them, no leak can be counted."
        )
    found.extend(literal(remark, 400) for remark in seen.remarks)
    if not fitting_canaries(seen.training_notes):
        found.append("The cohort is too small to plant canaries without changing it. Exposure will not be measured.")
    return found


def _whose_details(seen: Seen) -> str:
    if seen.records == "table":
        return (
            "The table of identifiers shows which patient each of its values belongs to. Other details are found by "
            "their shape."
        )
    if seen.records == "surrogates":
        return (
            "The placeholders of MIMIC-III were filled with made-up identities, one per patient, so it is known which "
            "patient each of these belongs to. Other details are found by their shape."
        )
    return (
        "There is no table of identifiers. So a patient's details are all texts that have the **shape** of an "
        "identifier and occur only in that patient's notes. No attack here can count identifiers that shapes miss as "
        "leaked, so extraction figures are a lower bound."
    )


def _phi_table(found: dict[str, int]) -> None:
    """How often each kind of PHI was found, and the finder's recall and precision on labelled texts."""
    from core.evaluation.phi_detection import ALL, on_hospital, on_labelled_set
    from core.spec import CORPUS_PRESETS

    hand, hospital = on_labelled_set().set_index("field"), on_hospital(CORPUS_PRESETS["smoke"]).set_index("field")
    fields = [ALL, *sorted({*found, *hand.index} - {ALL})]
    table = pd.DataFrame(
        {
            "kind of PHI": ["all" if name == ALL else FIELD[name].label if name in FIELD else name for name in fields],
            "found in your notes": [sum(found.values()) if name == ALL else found.get(name, 0) for name in fields],
            "recall, hand-labelled": hand["recall"].reindex(fields).to_numpy(),
            "precision, hand-labelled": hand["precision"].reindex(fields).to_numpy(),
            "recall, synthetic hospital": hospital["recall"].reindex(fields).to_numpy(),
            "precision, synthetic hospital": hospital["precision"].reindex(fields).to_numpy(),
        }
    )
    whole = hand.loc[ALL]
    st.markdown(
        f"In made-up lines labelled by hand, shapes find {whole['recall']:.0%} of {whole['labelled']:.0f} identifiers "
        f"(95 % interval {whole['recall_low']:.0%} to {whole['recall_high']:.0%}). They mostly miss names that are on "
        "no list and have no title. Your notes may be worded differently: once you use them, read a few on this page "
        "before you rely on these figures."
    )
    data_table(table, name="own-phi", label="What was found in your notes, and how reliable it is")
