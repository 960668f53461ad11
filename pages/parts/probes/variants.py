"""The same training on the three variants of the notes (Lehman et al. 2021, §5.1), probe by probe."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from core.evaluation.probes.comparison import compared
from core.evaluation.probes.tables import OWN_MINUS_OTHER
from core.evaluation.wording import decimal_text
from core.runs.run import Run
from core.spec import RunSpec
from pages.parts.common.data_table import data_table
from pages.parts.probes import cards

CHANCE = "random guessing"
NAMES = {"regular": "regular notes", "name-insertion": "name insertion", "template-only": "template only"}


def siblings(run: Run, runs: Sequence[Run]) -> dict[str, Run]:
    """`run` and the runs that differ from it only in the variant of the notes, by variant."""

    def without(spec: RunSpec) -> RunSpec:
        return spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"variant": "regular"})})

    found = {one.spec.corpus.variant: one for one in runs if without(one.spec) == without(run.spec)}
    return {variant: found[variant] for variant in NAMES if variant in found}


def section(run: Run, runs: Sequence[Run]) -> None:
    """The decisive figure of every probe for each variant that was probed; nothing if there is only one."""
    figures = {
        NAMES[variant]: table for variant, one in siblings(run, runs).items() if not (table := cards.figures(one)).empty
    }
    if len(figures) < 2:
        return
    st.header("The same training on other variants of the notes", anchor=False)
    st.markdown(
        "In *name insertion*, every note names its patient. In *template only*, a note is just “Mr. First Last is a 63 "
        "yo patient with …”, which links names to diseases as closely as possible."
    )
    table = compared(figures)
    st.dataframe(wide(table), hide_index=True, alt="Verdict and decisive figure of every probe by variant of the notes")
    data_table(table, name="probes-by-variant")


def wide(table: pd.DataFrame) -> pd.DataFrame:
    """`compared` with one row per probe and one column per variant: `leak: 0.150 (0.100 to 0.200)`.

    “random guessing” is 0 for a difference and 0.5 for an AUC; `–` for names, compared with held-out patients'.
    """
    differ = table["method"] == OWN_MINUS_OTHER
    cells = table.assign(
        measure=table["measure"].where(~differ, table["measure"] + ", " + table["method"]),
        said=[
            f"{row.verdict}: {decimal_text(row.value, '.3f')} "
            f"({decimal_text(row.low, '.3f')} to {decimal_text(row.high, '.3f')})"
            if row.value == row.value
            else row.verdict
            for row in table.itertuples()
        ],
    )
    order, key = list(dict.fromkeys(cells["of"])), ["row", "probe", "measure"]
    found = cells.pivot(index=key, columns="of", values="said")[order]
    found.insert(0, CHANCE, cells.groupby(key)["blind"].agg(_guessed))
    return found.reindex(list(dict.fromkeys(zip(*(cells[name] for name in key), strict=True)))).reset_index()


def _guessed(blind: pd.Series) -> str:
    """What random guessing gets in one row; `0.7 / 0.65` where variants differ."""
    return " / ".join(f"{one:.2g}" for one in blind.dropna().unique()) or "–"
