"""How many tries it takes to extract a patient's values, beside held-out patients' values, and how to compute it."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from core.attacks.memorisation.own_values import own_rows
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.memorisation.discoverable import EASIEST, EVEN, NEARLY_SURE, average_tries, tries, values
from core.evaluation.wording import count_text
from core.phi.fields import DIRECT, FIELD
from core.runs.run import Run
from pages.parts.common.phi_text import literal
from pages.parts.patients import data
from pages.parts.session import owner, resources

ATTACK = "tries to extract"
NAME = "full_name"
NAMED, FIRST = 3, 10  # of the easiest members: those who are named, and those of whom the notes are counted
HELP = (
    "A try is one text after a prompt that asks for this field, such as “Patient:”, drawn as in prompt extraction. It "
    "counts if the text begins with the value."
)
CONTROL = (
    "The control is the same kind of identifier of all held-out patients whose tries were computed. The "
    "sentence above the list counts any identifier of the listed patients."
)


@resources.cached_data(max_entries=16, show_spinner=False)
def _values(file: str, stamp: int) -> pd.DataFrame:
    return values(pd.read_parquet(file))


def tries_table(run: Run, patient_id: str) -> pd.DataFrame:
    """A row for each direct identifier of a patient: the tries it takes, and those of held-out patients' values.

    Columns: field, one_in (tries on average), even and sure (tries for a chance of 50 and 95 %), others (held-out
    patients, without this one), others_one_in (their median), others_least, others_easier (share of them whose value
    takes at most as many tries; NaN if the value is never written). Values that several patients have are no control.
    Empty without the attack, or for other patients.
    """
    file = data.tries_file(run)
    if file is None:
        return pd.DataFrame()
    found = _values(str(file), file.stat().st_mtime_ns)
    own = found[found["patient_id"] == patient_id].set_index("field")
    others = found[(found["split"] == "heldout") & (found["patient_id"] != patient_id)]
    others = own_rows(others, resources.shared_values(run.spec.corpus, owner.workspace()))
    rows = []
    for field in (one for one in DIRECT if one in own.index):
        chance, rest = float(own["chance"][field]), others[others["field"] == field]
        one_in = map(average_tries, (chance, rest["chance"].median(), rest["chance"].max()))
        easier = float((rest["log_chance"] >= own["log_chance"][field]).mean()) if chance else math.nan
        rows.append((field, next(one_in), tries(chance, EVEN), tries(chance, NEARLY_SURE), len(rest), *one_in, easier))
    columns = ["field", "one_in", "even", "sure", "others", "others_one_in", "others_least", "others_easier"]
    return pd.DataFrame(rows, columns=columns)


def show_tries(run: Run, patient_id: str) -> None:
    """The sentence about the patient's name and easiest value, with its control, and the table of all fields."""
    found = tries_table(run, patient_id)
    if found.empty:
        st.markdown(missing_tries(run))
        return
    name = found[found["field"] == NAME]
    sentences = [_sentence(row) for row in name.itertuples()]
    easiest = found.loc[found["one_in"].idxmin()]
    if easiest["field"] != NAME and math.isfinite(easiest["one_in"]):
        sentences.append(_easiest(easiest))
    st.markdown(" ".join(sentences), help=f"{HELP} {CONTROL}")
    with st.expander("How many tries does each of this patient's values take?"):
        st.dataframe(shown(found), hide_index=True, alt="Tries for each identifier")
        st.caption(
            "Computed from token probabilities, not counted in samples. “Never”: the sampler's cuts (top-k, top-p) "
            "rule the value out. Held-out patients are the control: the model never saw them."
        )


def _sentence(row: tuple) -> str:
    """`One in 440 tries writes this name`, with the control."""
    one_in, others, least = row.one_in, row.others, row.others_least  # type: ignore[attr-defined]
    said = (
        f"**One in {count_text(one_in)} tries writes this name.**"
        if math.isfinite(one_in)
        else "**With this sampler, no try writes this name.**"
    )
    if not others:
        return said
    if math.isinf(least):
        return f"{said} Control, names alone: none of {others} held-out patients' names can be written."
    least_tries = f"{count_text(least)} tries"
    return f"{said} Control, names alone: the easiest of {others} held-out patients' names takes {least_tries}."


def _easiest(row: pd.Series) -> str:
    """`Easiest: phone number, one in 900 tries`, with the control."""
    least, others = float(row["others_least"]), int(row["others"])
    said = f"Easiest: {FIELD[row['field']].label}, one in {count_text(row['one_in'])} tries"
    if not others:
        return f"{said}."
    control = f"takes {count_text(least)}" if math.isfinite(least) else "is never written"
    return f"{said}; the easiest of {others} held-out patients' {control}."


def shown(found: pd.DataFrame) -> pd.DataFrame:
    """The table as the card has it: counts in words, so that none suggests more digits than it has."""

    def text(column: str) -> pd.Series:
        return found[column].map(lambda count: count_text(count) if math.isfinite(count) else "never")

    return pd.DataFrame(
        {
            "identifier": found["field"].map(lambda field: FIELD[field].label),
            "one in … tries": text("one_in"),
            "tries for 50 %": text("even"),
            "tries for 95 %": text("sure"),
            "held out: median": text("others_one_in"),
            "held out: easiest": text("others_least"),
            "held out: as easy": [
                "–" if math.isnan(share) else f"{round(share * count)} of {count}"
                for share, count in zip(found["others_easier"], found["others"], strict=True)
            ],
        }
    )


def easiest_sentence(found: pd.DataFrame) -> str:
    """Which members of a list take fewest tries, beside the easiest held-out patient, and how many notes they have.

    Args:
        found: The rows of `data.easiest_first`.
    """
    members, others = (found[found["split"] == split] for split in JUDGED_SPLITS)
    written = members[members["one_in"].notna()]
    if written.empty:
        return ""
    first = ", ".join(
        f"{literal(row.patient_id)} ({easiest_label(row.easiest)}, one in {count_text(row.one_in)} tries)"
        for row in written.head(NAMED).itertuples()
    )
    said = f"Easiest members: {first}."
    least = others["one_in"].min()
    if not math.isnan(least):
        easiest = easiest_label(others.loc[others["one_in"] == least, "easiest"].iloc[0])
        said += (
            f" Control, any identifier: the easiest of the {len(others):,} held-out patients in this list takes "
            f"{count_text(least)} tries ({easiest})."
        )
        if written["one_in"].min() >= least:
            said += " No member is easier than that, so these tries are no sign of a leak."
    if len(written) < FIRST or len(members) < 2 * FIRST:
        return said
    notes = written["notes"].head(FIRST).median()
    return (
        f"{said} The {FIRST} easiest members have {notes:g} notes (median), all members {members['notes'].median():g}."
    )


def missing_tries(run: Run) -> str:
    """Why there is no figure, and the command that computes it."""
    if run.spec.model.kind != "gpt2":
        return "Tries to extract a value are computed for GPT-2 only: under a masked model a text has no probability."
    return (
        "How many tries it takes to extract a patient's values was not computed for this run: "
        f'`python -m core audit {run.id} --suite full --attack "{ATTACK}"`.'
    )


def easiest_label(field: object) -> str:
    """The label of a patient's easiest field; empty if the sampler writes none."""
    return FIELD[field].label if isinstance(field, str) and field != EASIEST else ""
