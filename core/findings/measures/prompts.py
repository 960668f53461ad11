"""Leaks by the style of the prompt and by its place in notes, and how much texts of one prompt are alike."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import difference
from core.evaluation.summary import SPLIT_OF_ARM, attempts_with_leak
from core.findings.measures.tables import confidence_of_each, share_of
from core.findings.stored_runs import StoredRuns
from core.phi.fields import DIRECT
from core.spec import RunSpec

Style = Literal["structured", "open"]
_STYLES: tuple[Style, ...] = ("structured", "open")


def style_of(prompt: str) -> Style:
    """`structured`: the label of a field, which ends with a colon (`Patient:`). `open`: words to be continued."""
    return "structured" if prompt.rstrip().endswith(":") else "open"


def excess_by_style(
    runs: StoredRuns, spec: RunSpec, prompts: Collection[int] | None = None, *, figures: int = 1
) -> dict[Style, Interval]:
    """Share of texts with a member's direct identifier − the held-out control at equal pools, for each style.

    Only the numbers in `prompts` count; None: all. The prompts are fixed and texts are drawn. Wilson's intervals of the
    two arms are combined as independent ones; `figures` is how many a claim has, which hold together.
    """
    generations = runs.run(spec).table("generations")
    asked = generations["prompt_id"].isin(generations["prompt_id"] if prompts is None else prompts)
    style = generations["prompt"].map(style_of)
    return {one: _excess(runs, spec, asked & (style == one), figures) for one in _STYLES}


def excess_by_opening(
    runs: StoredRuns, spec: RunSpec, prompts: Collection[int], *, figures: int = 1
) -> dict[bool, Interval]:
    """The same share for prompts with which some member's note begins (True), and for the others among `prompts`."""
    generations = runs.run(spec).table("generations")
    notes = runs.workspace.corpus(spec.corpus, store=False).notes_of("member")["text"]
    opening = {prompt for prompt in generations["prompt"].unique() if notes.str.startswith(prompt).any()}
    asked, opens = generations["prompt_id"].isin(prompts), generations["prompt"].isin(opening)
    return {side: _excess(runs, spec, asked & (opens == side), figures) for side in (True, False)}


def _excess(runs: StoredRuns, spec: RunSpec, chosen: pd.Series, figures: int) -> Interval:
    """The share of these generations with a member's direct identifier − the held-out control at equal pools."""
    generations, hits = _texts(runs, spec)
    patients = runs.workspace.corpus(spec.corpus, store=False).patients
    pool = {arm: int((patients["split"] == split).sum()) for arm, split in SPLIT_OF_ARM.items()}
    texts = generations.loc[chosen, "generation_id"]
    rows = attempts_with_leak(hits[hits["generation_id"].isin(texts)], len(texts), pool)
    counted = {(row.metric, row.arm): row.value for row in rows}
    member = share_of(counted["attempts_with_leak", "run"], len(texts), figures)
    raw, ratio = counted["attempts_with_leak_uncorrected", "heldout"], pool["run"] / pool["heldout"]
    return difference(member, share_of(raw, len(texts), figures, ratio))


def design_effect(runs: StoredRuns, spec: RunSpec, *, figures: int = 1) -> Interval:
    """How many times as large as for independent texts the variance of the leak rate is, prompts being drawn as well.

    The design effect (Kish 1965) of k clusters of m texts: m · var(p_j) / (p (1 − p)), with var over the prompts'
    rates and k − 1 degrees of freedom. Its expectation is 1 for independent texts. The interval is that of a normal
    sample's variance (χ²), so it is approximate; var(p_j) cannot exceed p (1 − p) k / (k − 1). It is one of `figures`
    that hold together.
    """
    generations, hits = _texts(runs, spec)
    leaked = generations["generation_id"].isin(hits.loc[hits["split"] == "member", "generation_id"])
    return clustered(leaked.groupby(generations["prompt_id"]).mean().to_numpy(), len(leaked), figures)


def clustered(rates: np.ndarray, texts: int, figures: int = 1) -> Interval:
    """The design effect of `rates` (prompts,), each of equally many of the `texts`; NaN if none or all hit."""
    rate, degrees = float(rates.mean()), len(rates) - 1
    if rate in (0.0, 1.0) or degrees < 1:
        return Interval(np.nan, np.nan, np.nan)
    value = texts / len(rates) * float(rates.var(ddof=1)) / (rate * (1 - rate))
    tail = (1 - confidence_of_each(figures)) / 2
    low, high = (value * degrees / stats.chi2.ppf(at, degrees) for at in (1 - tail, tail))
    return Interval(value, float(low), float(high))


def _texts(runs: StoredRuns, spec: RunSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The generated texts, and the hits on direct identifiers by value."""
    run = runs.run(spec)
    hits = run.table("hits")
    return run.table("generations"), hits[(hits["rule"] == "value") & hits["field"].isin(DIRECT)]
