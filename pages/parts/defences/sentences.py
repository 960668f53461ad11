"""The words of the Defences page: the table, what was found of each defence, and how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from core.evaluation import wording
from core.evaluation.defences.side_by_side import FILTERED_RISKS
from pages.parts.tradeoff.charts import Risk

MISSING = "not trained yet"
QUESTION = "Which of these leaves no patient's name in what the model writes, and costs the least usefulness?"
ANSWERS = ("Deduplication", "Scrubbing", "Differential privacy", "Output filter")
HOW = """
**Same patients, same attacks.** Every row is judged on the original cohort: its held-out notes, its index of all
patients' values, its 14 prompts. Only what the model read, how it was trained, or what is let out of it differs.
Values are means over seeds; intervals are 95 % over seeds, never narrower than one run's own. *Control*: the same
figure for held-out patients, whom no model was trained on (canaries: never planted).

**Deduplication** drops notes whose five-word shingles agree with an earlier note's in at least 80 % (Jaccard; Lee et
al. 2022), then lines of five words or more that stood in an earlier note. A canary planted eight times is read once.
It is not combined with DP: whether a note is kept would depend on other people's notes, and ε would no longer hold.

**Scrubbing** puts `[NAME]`, `[DATE]`, `[MRN]` … in place of direct identifiers. At a recall of 95 %, each *value* of
a patient is found with chance 95 %, all its mentions and spellings together: a search that does not know a name
misses it every time. Health details and planted canaries stay; they are no identifiers.

**DP** is DP-SGD (Abadi et al. 2016) at the chosen ε, δ and unit. **The filter** blacks out text with the shape of PHI
and values of any patient's record, word for word, reading the prompt along. Membership and canaries are measured on
probabilities, which no filter of text touches: their figures stay those of the model behind it.

**Perplexity** is that of held-out patients' notes as they are written, identifiers included: a model that only ever
read `[NAME]` is surprised by names, so scrubbing costs perplexity here even where the clinical text is learned as
well. Of DistilBERT and BERT it is a pseudo-perplexity (hidden tokens between the others), which does not compare with
GPT-2's.
"""


def shown(rows: pd.DataFrame, risk: Risk) -> pd.DataFrame:
    """The table of one risk as a reader sees it: figures with their intervals in words, a row a defence."""
    number = wording.percent if risk.share else "{:.2f}".format
    return pd.DataFrame(
        {
            "": rows["number"],
            "Defence": rows["name"],
            "Seeds": [str(seeds) if seeds else MISSING for seeds in rows["seeds"]],
            f"Risk: {risk.label}": [_with_interval(row.value, row.low, row.high, number) for row in rows.itertuples()],
            "Control": [
                _with_interval(row.control, row.control_low, row.control_high, number) for row in rows.itertuples()
            ],
            "Public model": [
                _with_interval(row.base, row.base_low, row.base_high, number) for row in rows.itertuples()
            ],
            "Perplexity": [
                _with_interval(row.perplexity, row.perplexity_low, row.perplexity_high, wording.perplexity_text)
                for row in rows.itertuples()
            ],
            "Known words": ["" if math.isnan(share) else wording.percent(share) for share in rows["known_words"]],
            "Training": [_time(seconds) for seconds in rows["training_seconds"]],
        }
    )


def _with_interval(value: float, low: float, high: float, number: Callable[[float], str]) -> str:
    if math.isnan(value):
        return ""
    return f"{number(value)}" if math.isnan(low) else f"{number(value)} ({number(low)} to {number(high)})"


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def found(row: pd.Series, metric: str) -> str:
    """What was measured of one defence, in a sentence; that it was not trained, where it was not."""
    if not row["seeds"]:
        return f"*{MISSING}.*"
    if row["defence"].endswith("filter") and metric not in FILTERED_RISKS:
        return "Unchanged by the filter: this attack reads probabilities, not text."
    if metric == "auc_loss":
        return f"{wording.auc_sentence(row['value'])}"
    if metric.startswith("exposure"):
        return (
            f"Planted canaries stand {row['value']:.1f} bits up the ranking, never planted ones {row['control']:.1f}."
        )
    figures = [row[name] for name in ("value", "low", "high", "control", "control_low", "control_high")]
    return _past_the_filter(*figures) if row["defence"].endswith("filter") else wording.leak_sentence(*figures)


def _past_the_filter(*figures: float) -> str:
    """What gets past a filter says nothing about what the model memorised."""
    value, low, high, control, *_ = figures
    more = "more" if wording.verdict(low, high, *figures[4:]) == "exceeds its control" else "no more"
    return (
        f"{wording.percent(value)} ({wording.interval_text(low, high)}) against {wording.percent(control)} for "
        f"held-out patients: {more} than chance gets past it with these prompts. It changes no weight."
    )


def answer(rows: pd.DataFrame) -> str:
    """What the measured rows say to the question: of those whose names stay within their control, the most useful."""
    known = rows[(rows["metric"] == "full_name_patients") & (rows["seeds"] > 0) & (rows["defence"] != "nothing")]
    safe = known[known["low"] <= known["control_high"]].sort_values("perplexity", kind="stable")
    if safe.empty:
        return "None of those measured so far: each still writes more members' names than its control."
    best = safe.iloc[0]
    told = (
        f"Of those measured so far, **{best['name']}**: full names of {wording.percent(best['value'])} of patients at "
        f"perplexity {wording.perplexity_text(best['perplexity'])}."
    )
    if best["defence"] == "filter":
        told += " But the model behind it still knows them all: see below how other prompts walk around it."
    return told
