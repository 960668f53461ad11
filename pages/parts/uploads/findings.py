"""What a check found in uploaded notes: counts, warnings, and how reliably identifiers are found."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.corpus.importing.importer import Seen, fitting_canaries
from core.evaluation.rarity.profiles import LEAST
from core.evaluation.wording import interval_text, percent
from core.phi.fields import FIELD
from pages.parts.common.data_table import data_table
from pages.parts.common.phi_text import literal


def show(seen: Seen) -> None:
    """Rows, patients, copies, and identifiers in the notes."""
    shown = (
        ("Notes", f"{seen.notes:,}", f"of {seen.rows:,} rows"),
        ("Patients", f"{seen.patients:,}", f"{seen.heldout:,} held out"),
        ("Copies", f"{seen.copies:,}", f"near copies: {seen.near_copies:,}"),
        ("Notes with PHI", f"{seen.notes_with_phi:,}", f"{percent(seen.notes_with_phi / seen.notes)} of notes"),
        ("Canaries", f"{seen.canaries:,}", f"{seen.planted:,} planted"),
    )
    with st.grid(5, min_column_width=150):
        for label, value, below in shown:
            st.metric(label, value, below, delta_color="off", delta_arrow="off", border=True)
    for warning in warnings(seen):
        st.warning(warning, icon=":material/warning:")
    st.markdown(_whose_details(seen))
    st.caption(f"Searched by the detector “{seen.detector}”. {seen.detector_lacks}".rstrip())
    _phi_table(seen.found, seen.detector)


def warnings(seen: Seen) -> list[str]:
    """What deserves attention before training, one sentence or more for each point, as Markdown."""
    found = []
    repeated = seen.near_copies
    if repeated and not seen.removed:
        found.append(
            f"{repeated:,} of {seen.rows - seen.blank:,} notes repeat{'s' * (repeated == 1)} an earlier note, "
            f"{seen.copies:,} of them word for word. A model memorises repeated text more, so leakage figures will be "
            "higher than for a note that occurs once. You can remove copies with “Copies” above, but then ε covers "
            "only the remaining notes."
        )
    if seen.removed:
        found.append(
            f"{_were(seen.removed, 'note', 'repeating an earlier note')} removed. Which of two copies stays depends on "
            "other people's notes, so a model's ε covers only the remaining notes. For a guarantee about all notes, "
            "keep the copies."
        )
    if seen.blank:
        found.append(f"{_were(seen.blank, 'row', 'without text')} left out.")
    if seen.marked_wrong:
        found.append(f"{_were(seen.marked_wrong, 'note', 'marked as an error')} left out.")
    if seen.unknown_placeholders:
        found.append(f"{_were(seen.unknown_placeholders, 'placeholder', 'of an unknown kind')} replaced by ___.")
    if seen.without_identifier:
        no_row = f" ({seen.without_record:,} without a row in the table)" if seen.without_record else ""
        found.append(
            f"{seen.without_identifier:,} of {seen.patients:,} patients {_have(seen.without_identifier)} no identifier "
            f"that could be found in a text{no_row}. For them, no leak can be counted.{_shared(seen)}"
        )
    if min(seen.members, seen.heldout) < LEAST:
        found.append(
            f"With {seen.members:,} members and {seen.heldout:,} held-out patients, leaks can be seen, but "
            f"attack success can hardly be measured: its intervals stay wide below {LEAST} of each."
        )
    found.extend(literal(remark, 400) for remark in seen.remarks)
    fitting = fitting_canaries(seen.training_notes)
    if not seen.canaries and not fitting:
        found.append("The cohort is too small to plant canaries without changing it. Exposure will not be measured.")
    elif seen.canaries > fitting:
        found.append(
            f"You asked for {seen.canaries:,} canary sentences, and {fitting or 'none'} would fit: the copies of those "
            "that are planted may be more than 5 % of the training notes, and change what a model learns from the rest."
        )
    return found


def _were(count: int, what: str, which: str) -> str:
    """“1 row without text was”, “2 rows without text were”."""
    return f"{count:,} {what}{'s' * (count != 1)} {which} {'was' if count == 1 else 'were'}"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def _shared(seen: Seen) -> str:
    """How notes can hold identifiers although their patients have none."""
    if seen.records != "notes" or not seen.notes_with_phi:
        return ""
    return " An identifier that is in the notes of several patients is not counted for any of them."


def _whose_details(seen: Seen) -> str:
    if seen.records == "table":
        return (
            "The table of identifiers shows which patient each of its values belongs to. Other details are found by "
            "the detector."
        )
    if seen.records == "surrogates":
        return (
            "The placeholders of MIMIC-III were filled with made-up identities, one per patient, so it is known which "
            "patient each of these belongs to. Other details are found by the detector."
        )
    return (
        "There is no table of identifiers. So a patient's details are what the **detector** takes for an identifier, "
        "if it occurs in this patient's notes and in no other patient's: of several names, the one in the most notes. "
        "It may be a relative's. Identifiers that the detector misses cannot be counted as leaked, so extraction "
        "figures may be too low."
    )


def _phi_table(found: dict[str, int], detector: str) -> None:
    """How often each kind of PHI was found, and the detector's recall and precision on labelled texts."""
    from core.evaluation.detection.detector_figures import ALL, CLINICAL, GENERAL, figures

    clinical, general = (figures(detector, corpus, "recall") for corpus in (CLINICAL, GENERAL))
    precise = figures(detector, CLINICAL, "precision").set_index("type")
    fields = [ALL, *sorted(found)]
    table = pd.DataFrame(
        {
            "kind of PHI": ["all" if name == ALL else FIELD[name].label if name in FIELD else name for name in fields],
            "found in your notes": [sum(found.values()) if name == ALL else found.get(name, 0) for name in fields],
            "precision on unseen clinical queries": precise["value"].reindex(fields).to_numpy(),
            "low": precise["low"].reindex(fields).to_numpy(),
            "high": precise["high"].reindex(fields).to_numpy(),
        }
    )
    if not clinical.empty and not general.empty:
        st.markdown(
            "In texts that were not used to develop it, this detector finds, of "
            f"{clinical['n'].iloc[0]:,} identifiers of clinical queries, {_share(clinical)}; of "
            f"{general['n'].iloc[0]:,} in general text, {_share(general)}. Both sets of texts are invented, and your "
            "notes may be worded differently. Once you use the notes, label 20 of them on this page "
            "to get its recall on yours."
        )
    data_table(table, name="own-phi", label="What was found in your notes")
    recall = pd.concat([clinical.assign(text="clinical queries"), general.assign(text="general text")])
    recall["type"] = recall["type"].str.replace("_", " ").str.lower()
    recall = recall.rename(columns={"value": "recall"})[["text", "type", "n", "recall", "low", "high"]]
    data_table(recall, name="own-recall", label="What the detector finds, by kind of identifier (95 % intervals)")


def _share(recall: pd.DataFrame) -> str:
    """Recall of all types with its interval."""
    whole = recall.iloc[0]
    return f"{percent(whole['value'])} ({interval_text(whole['low'], whole['high'])})"
