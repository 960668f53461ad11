"""Every figure of the comparison as a table, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.evaluation.forgetting import shares
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.wording import percent, perplexity_name, perplexity_text
from pages.parts.common.data_table import csv_button


def show(table: pd.DataFrame, named: dict[str, str], patient: str, kind: str) -> None:
    """A row for each model: the patient's place, their texts, other patients' leaks, and perplexity.

    `kind`: of the models, which says what their perplexity is called.
    """
    rows = []
    for row in table.to_dict("records"):
        found = shares(row)
        rows.append(
            {
                "model": named[row["arm"]],
                "place": with_interval(Interval(row["percentile"], row["low"], row["high"])),
                "texts with a detail of theirs": with_interval(found["patient"]),
                "held-out patients in any text": with_interval(found["never_seen"]),
                "other members leaked": with_interval(found["others"]),
                perplexity_name(kind): with_interval(
                    Interval(row["perplexity"], row["perplexity_low"], row["perplexity_high"]), perplexity_text
                ),
                "seconds": None if pd.isna(row["seconds"]) else round(float(row["seconds"]), 1),
                "steps": None if pd.isna(row["steps"]) else int(row["steps"]),
            }
        )
    st.dataframe(pd.DataFrame(rows), hide_index=True, alt="Every figure of each model")
    csv_button(table, name=f"forgetting-{patient}")


def with_interval(found: Interval, number: Callable[[float], str] = percent) -> str:
    """`59 % (50 % to 67 %)`; `12.2 (no interval)` of a single held-out patient; a dash if no patient can be counted."""
    if math.isnan(found.value):
        return "–"
    ends = "no interval" if math.isnan(found.low) else f"{number(found.low)} to {number(found.high)}"
    return f"{number(found.value)} ({ends})"
