"""Several patients at once: what the full audit's attack `unlearning` found on this run, beside DP as trained."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from core.evaluation.memorisation.unlearning import ARMS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.wording import percent, perplexity_name, perplexity_text
from core.pipeline.forgetting import PRIVATE, Comparison
from core.runs.run import Run
from pages.parts.common.data_table import csv_button
from pages.parts.forget.tables import with_interval
from pages.parts.session import owner

ATTACK = "unlearning"
TITLE = "Several patients, one at a time"


def figures(found: Comparison) -> pd.DataFrame:
    """The audit's table `unlearned` of this run, with the private run's as arm `private`; empty without the attack."""
    own = _stored(found.run)
    if own.empty or found.private is None:
        return own
    return pd.concat([own, _stored(found.private).assign(arm=PRIVATE)], ignore_index=True)


def _stored(run: Run) -> pd.DataFrame:
    return owner.workspace().audit(run.id).table("unlearned")


def show(found: Comparison, named: dict[str, str]) -> None:
    """A fold with the figures of each model, or with the command that computes them."""
    table = figures(found)
    with st.expander(TITLE):
        if table.empty:
            st.markdown(missing(found.run))
            return
        st.markdown(sentence(table, named))
        rows = shown(table, named, found.run.spec.model.kind)
        st.dataframe(rows, hide_index=True, alt="Places of several patients in each model")
        st.caption(
            "Expected of held-out patients: about 5 % above 95 %, 5 % below 5 %, and 50 % between 25 and 75 % "
            "(slightly more with few of them, because a place is a rank). In the middle, an interval "
            "wholly above 50 % is a sign of unlearning. A mean of 50 % does not show that patients are "
            "forgotten: an average can hide failure (Hayes et al. 2024). Nor is an interval beside 50 % a test: the "
            "mean of as many held-out patients varies, too. The reference is a model trained again without the "
            "patient."
        )
        csv_button(table, name=f"unlearning-{found.run.id}")


def missing(run: Run) -> str:
    """The command that computes the figures."""
    return (
        "Forgetting several patients was not measured for this run: "
        f'`python -m core audit {run.id} --suite full --attack "{ATTACK}"`.'
    )


def sentence(table: pd.DataFrame, named: dict[str, str]) -> str:
    """How many patients stand out at the top, and how many in the middle, in each model."""
    counts = table.assign(count=(table["value"] * table["patients"]).round())
    wide = counts.pivot(index="arm", columns="figure", values="count")
    size = int(table["patients"].iloc[0])

    def each(figure: str) -> str:
        return ", ".join(
            f"{named[arm]} **{wide.loc[arm, figure]:.0f}**" for arm in (*ARMS, PRIVATE) if arm in wide.index
        )

    return (
        f"The audit drew {size} members and removed each from a copy of this model. Number placed above 95 % of the "
        f"held-out patients: {each('above')}. Number placed in the middle half, where {size / 2:g} are expected of "
        f"held-out patients: {each('middle')}. Unlearning that moves nearly all patients there can be recognised."
    )


def shown(table: pd.DataFrame, named: dict[str, str], kind: str) -> pd.DataFrame:
    """A row for each model, every figure with its interval. `kind` says what their perplexity is called."""
    wide = {key: row for key, row in table.set_index(["arm", "figure"]).iterrows()}
    rows = []
    for arm in (*ARMS, PRIVATE):
        if (arm, "place") not in wide:
            continue
        of = {figure: wide[one, figure] for one, figure in wide if one == arm}
        rows.append(
            {
                "model": named[arm],
                "patients": int(of["place"]["patients"]),
                "mean place": _text(of["place"]),
                "above 95 %": _text(of["above"]),
                "below 5 %": _text(of["below"]),
                "25 to 75 %": _text(of["middle"]),
                perplexity_name(kind): _text(of["perplexity"], perplexity_text),
            }
        )
    return pd.DataFrame(rows)


def _text(row: pd.Series, number: Callable[[float], str] = percent) -> str:
    return with_interval(Interval(row["value"], row["low"], row["high"]), number)
