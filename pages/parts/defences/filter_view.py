"""How far the output filter gets, and how reworded prompts walk around it: a table of what a full audit found."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from core.evaluation import wording
from core.runs.run import Run
from pages.parts.common.data_table import data_table
from pages.parts.jobs import battery
from pages.parts.pickers import run_picker
from pages.parts.session import owner

UNFILTERED = "no filter"
HEADINGS = {
    "both, answer alone": "Both, answer only",
    "both": "Both",
    "shapes": "Shapes alone",
    "known values": "Known values alone",
}


def show(run: Run) -> None:
    """What passes each filter by the way of asking, for one run; the battery's button where it was not measured."""
    st.subheader("How a reworded prompt walks around the filter")
    st.markdown(
        "The same model, asked in other ways. A cell is the share of answers from which an attacker reads a patient's "
        "identifier, after the filter, with its 95\u00a0% interval. *Two answers*: stop after the first name, type it, "
        "ask for the rest."
    )
    stored = owner.workspace().audit(run.id)
    found = stored.table("walk_around")
    if found.empty:
        st.info("Not measured for this model yet: it is part of the full battery.", icon=":material/alt_route:")
        battery.offer({run_picker.label(run): run})
        return
    st.dataframe(pivoted(found), hide_index=True, alt="Leaks that pass each filter, by the way of asking")
    st.caption(caption(found, stored.table("filter_alarms")))
    data_table(found, name="walk-around", label="Every wording, filter and control")


def pivoted(found: pd.DataFrame) -> pd.DataFrame:
    """A row a wording, a column a filter, each share with its interval; the control beside the unfiltered share."""
    cells = {(row.wording, row.filter, row.arm): _cell(row.value, row.low, row.high) for row in found.itertuples()}
    return pd.DataFrame(
        [
            {
                "Way of asking": way,
                "No filter": cells[way, UNFILTERED, "run"],
                "Control: held out": cells[way, UNFILTERED, "heldout"],
                **{heading: cells[way, name, "run"] for name, heading in HEADINGS.items()},
                "Control: public model": cells.get((way, UNFILTERED, "base"), ""),
            }
            for way in dict.fromkeys(found["wording"])
        ]
    )


def _cell(value: float, low: float, high: float) -> str:
    ends = (wording.percent(end).removesuffix(f"{wording.NBSP}%") for end in (low, high))
    return f"{wording.percent(value)} ({' to '.join(ends)})"


def caption(found: pd.DataFrame, alarms: pd.DataFrame) -> str:
    """What the table says in a sentence or two, and the filter's false alarms."""
    run = found[found["arm"] == "run"].set_index(["filter", "wording"])
    worst = run.loc["both, answer alone", "value"].idxmax()
    through, before = run.loc[("both, answer alone", worst), "value"], run.loc[(UNFILTERED, worst), "value"]
    tight = run.loc["both", "value"].max()
    least = f"at most {wording.percent(tight)} of any way" if tight else "nothing by any way"
    told = (
        f"A filter that reads only the answer lets through {wording.percent(through)} of the attempts by “{worst}” "
        f"({wording.percent(before)} without it); one that reads the prompt too, {least} tried here. "
        "That is no proof that there is no other way: these models are too small to follow most "
        "instructions, and larger ones do."
    )
    both = alarms[alarms["filter"] == "both"]
    told += " False alarms: " + "; ".join(
        f"{wording.percent(row.value)} of {row.n:,} {row.texts}"
        if row.texts.startswith("notes")
        else f"{wording.percent(row.value)} of {row.n:,} pieces of {row.texts} (dates, helpline numbers)"
        for row in both.itertuples()
    )
    return told + "."
