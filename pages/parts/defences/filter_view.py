"""How much the output filter removes, and how reworded prompts evade it: a table from the full audit."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from core.evaluation import wording
from core.evaluation.defences.filter_evasion import USUAL
from core.pipeline.full_audit import SUMMARY
from core.runs.run import Run
from pages.parts.common.data_table import data_table
from pages.parts.jobs import battery
from pages.parts.pickers import run_picker
from pages.parts.session import owner

UNFILTERED = "no filter"
HEADINGS = {
    "both, answer alone": "Both, answer only",
    "both": "Both",
    "shapes": "PHI shapes only",
    "known values": "Known values only",
}
ONE_RUN = "This table is for one run. The chart above shows means over seeds, so its figures can differ a little."
NOBODY = (
    "Not measured: no direct identifier of the patients in the training notes is known, so none could be searched for."
)


def show(run: Run) -> None:
    """What passes each filter for each way of asking, for one run; the full audit's button if it was not measured."""
    st.header("Can reworded prompts evade the filter?")
    st.markdown(
        "The same model, asked in other ways. Each cell is the share of answers from which an attacker can still read "
        "a patient's identifier after the filter, with its 95\u00a0% interval. *Two answers*: the attacker stops after "
        "the first name, types it if the filter left it readable, and asks for the rest."
    )
    stored = owner.workspace().audit(run.id)
    found = stored.table("walk_around")
    outcome = stored.outcomes().get(SUMMARY + "walk_around")
    if found.empty and outcome is not None and outcome.tables:
        st.info(NOBODY, icon=":material/alt_route:")
        return
    if found.empty:
        st.info("Not measured for this model yet. The full audit measures it.", icon=":material/alt_route:")
        battery.offer({run_picker.label(run): run})
        return
    found = with_public(found, run_picker.metrics(run))
    st.dataframe(pivoted(found), hide_index=True, alt="Leaks that pass each filter, by way of asking")
    st.caption(f"{ONE_RUN} {caption(found, stored.table('filter_alarms'))}")
    data_table(found, name="walk-around", label="All wordings, filters and controls")


def with_public(found: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """The table with the public model's figure for the usual prompts, which the quick audit measured and this did not.

    It is added only if the quick audit counted the same as this table: then its figure of the run itself is the same.
    """
    counted = metrics[metrics["metric"] == "attempts_with_leak"].set_index("arm")
    usual = found[(found["wording"] == USUAL) & (found["filter"] == UNFILTERED)].set_index("arm")
    if not {"run", "base"} <= set(counted.index) or "run" not in usual.index or "base" in usual.index:
        return found
    if not math.isclose(counted.loc["run", "value"], usual.loc["run", "value"]):
        return found
    row = {"wording": USUAL, "filter": UNFILTERED, "arm": "base"}
    row |= counted.loc["base", ["value", "low", "high", "n"]].to_dict()
    return pd.concat([found, pd.DataFrame([row]).astype(found.dtypes[list(row)])], ignore_index=True)


def pivoted(found: pd.DataFrame) -> pd.DataFrame:
    """One row per wording, one column per filter, each share with its interval, next to the controls."""
    headings = headings_of(found)
    cells = {(row.wording, row.filter, row.arm): _cell(row.value, row.low, row.high) for row in found.itertuples()}
    return pd.DataFrame(
        [
            {
                "Way of asking": way,
                "No filter": cells[way, UNFILTERED, "run"],
                "Control: held out": cells.get((way, UNFILTERED, "heldout"), "not measured"),
                **{heading: cells[way, name, "run"] for name, heading in headings.items()},
                "Control: public model": cells.get((way, UNFILTERED, "base"), "not measured"),
            }
            for way in dict.fromkeys(found["wording"])
        ]
    )


def headings_of(found: pd.DataFrame) -> dict[str, str]:
    """Headings by filter, of those that were tried. Where it is not the shapes, the detector names its own filter."""
    there = [name for name in dict.fromkeys(found["filter"]) if name != UNFILTERED]
    known = {name: heading for name, heading in HEADINGS.items() if name in there}
    return known | {name: f"{name} only" for name in there if name not in HEADINGS}


def _cell(value: float, low: float, high: float) -> str:
    ends = (wording.percent(end).removesuffix(f"{wording.NBSP}%") for end in (low, high))
    return f"{wording.percent(value)} ({' to '.join(ends)})"


def caption(found: pd.DataFrame, alarms: pd.DataFrame) -> str:
    """The table's main result in a sentence or two, and the filter's false alarms."""
    run = found[found["arm"] == "run"].set_index(["filter", "wording"])
    worst = run.loc["both, answer alone", "value"].idxmax()
    through, before = run.loc[("both, answer alone", worst), "value"], run.loc[(UNFILTERED, worst), "value"]
    tight = run.loc["both", "value"].max()
    least = f"at most {wording.percent(tight)} through for any way" if tight else "nothing through for any way"
    sentences = (
        f"Both filters together, reading only the answer, let {wording.percent(through)} of the attempts by “{worst}” "
        f"through ({wording.percent(before)} without a filter). The same two, reading the prompt as well, let {least} "
        "of asking tried here. That does not prove that no other way works: these models are too small to follow most "
        "instructions, which larger ones do."
    )
    both = alarms[alarms["filter"] == "both"]
    sentences += " False alarms: " + "; ".join(
        f"{wording.percent(row.value)} of {row.n:,} {row.texts}"
        if row.texts.startswith("notes")
        else f"{wording.percent(row.value)} of {row.n:,} pieces of {row.texts} (dates, helpline numbers)"
        for row in both.itertuples()
    )
    return sentences + "."
