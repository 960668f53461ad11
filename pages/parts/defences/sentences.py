"""The sentences of the Defences page: the table, the result of each defence, and how it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from core.evaluation import registry, wording
from core.evaluation.defences.side_by_side import FILTERED_RISKS
from core.phi.detector.engine import SHAPES, Detector
from pages.parts.tradeoff.drawn import Drawn

NAMES, AUC = "full_name_patients", "auc_loss"
BLIND = 0.5  # AUC of guessing
SUBJECTS = {  # a risk of text → how its result begins, before the share
    NAMES: "Training patients whose full name the model wrote:",
    "direct_patients": "Training patients with an identifier in the texts:",
    "attempts_with_leak": "Texts with a value of a patient:",
}
MISSING = "not trained yet"
NO_TEXTS = "texts not stored"
QUESTION = "Which of these keeps patients' names out of what the model writes, at the least cost in usefulness?"
ANSWERS = ("Deduplication", "Scrubbing", "Differential privacy", "Output filter")
HOW = """
**Same patients, same attacks.** Every row is evaluated on the original cohort: its held-out notes, its index of all
patients' values, its 14 prompts. Only the training notes, the training or the filtering of the output differ. Values
are means over seeds; intervals are 95 % over seeds, never narrower than the average of the runs' own. *Control*: the
same figure for held-out patients, whom no model was trained on (for canaries: those never planted). The AUC is that of
the loss attack by note, also where DP is per patient. A filter is tried on the seeds with stored texts, which may be
fewer.

**Deduplication** drops notes whose five-word shingles agree at 80 % or more with an earlier note's (Jaccard; Lee et al.
2022), then lines of five words or more that an earlier note contains. A canary planted eight times then occurs once.
It is not combined with DP: whether a note is kept would depend on other people's notes, and ε would no longer hold.

**Scrubbing** replaces direct identifiers by `[NAME]`, `[DATE]`, `[MRN]` … At a recall of 95 %, each *value* of a
patient is found with probability 95 %, with all its mentions and spellings at once: a search that does not know a name
misses it every time. Health details and planted canaries stay, since they are not identifiers.

**DP** is DP-SGD (Abadi et al. 2016) at the chosen ε, δ and unit. **The output filter** blacks out what a detector
takes for an identifier and values of any patient's record, word for word; it also reads the prompt. The detector is
that of the import for uploaded notes, and the shapes of PHI for a synthetic cohort. Membership and canaries are
measured on probabilities, which a text filter does not change: their figures are those of the unfiltered model. What a
filter blacks out because it is in a record shows that this person has one, so ε does not cover the answers of a
private model behind such a filter.

**Perplexity** is measured on held-out patients' notes as they are written, with identifiers: a model trained only on
`[NAME]` predicts names badly, so scrubbing costs perplexity here even if the model learned the clinical text equally
well. For DistilBERT and BERT it is a pseudo-perplexity (hidden tokens between the others), which is not comparable with
GPT-2's.
"""


def searched(detector: Detector) -> str:
    """Which detector the output filter of uploaded notes used, and why not the better one; empty for the shapes."""
    if detector.name == SHAPES:
        return ""
    return (
        f"The output filter searches with the detector “{detector.name}”, and known values. {detector.lacks}".rstrip()
    )


def shown(rows: pd.DataFrame, risk: Drawn, kind: str) -> pd.DataFrame:
    """The table of one risk on screen for this kind of model: a row per defence, figures with intervals as text."""
    number = wording.percent if risk.share else "{:.2f}".format
    return pd.DataFrame(
        {
            "Defence": rows["name"],
            "Seeds": [str(row.seeds) if row.seeds else _why_none(row.training_seconds) for row in rows.itertuples()],
            f"Risk: {risk.label}": [_with_interval(row.value, row.low, row.high, number) for row in rows.itertuples()],
            "Control": [
                _with_interval(row.control, row.control_low, row.control_high, number) for row in rows.itertuples()
            ],
            "Public model": [
                _with_interval(row.base, row.base_low, row.base_high, number) for row in rows.itertuples()
            ],
            wording.perplexity_name(kind).capitalize(): [
                _with_interval(row.perplexity, row.perplexity_low, row.perplexity_high, wording.perplexity_text)
                for row in rows.itertuples()
            ],
            "Known words": ["" if math.isnan(share) else wording.percent(share) for share in rows["known_words"]],
            "Training": [_time(seconds) for seconds in rows["training_seconds"]],
        }
    )


def _why_none(training_seconds: float) -> str:
    return MISSING if math.isnan(training_seconds) else NO_TEXTS


def _with_interval(value: float, low: float, high: float, number: Callable[[float], str]) -> str:
    if math.isnan(value):
        return ""
    return f"{number(value)}" if math.isnan(low) else f"{number(value)} ({number(low)} to {number(high)})"


def _time(seconds: float) -> str:
    if math.isnan(seconds):
        return ""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def found(row: pd.Series, metric: str) -> str:
    """One defence's result in a sentence, or that it was not trained."""
    if not row["seeds"]:
        return f"*{_why_none(row['training_seconds'])}.*"
    if row["defence"].endswith("filter") and metric not in FILTERED_RISKS:
        return "Unchanged by the filter: this attack reads probabilities, not text."
    if metric == AUC:
        number = registry.number_format(metric).text
        ends = wording.interval_text(row["low"], row["high"], number)
        return f"{wording.auc_sentence(row['value'])} AUC {number(row['value'])}, {ends}."
    if metric.startswith("exposure"):
        beside = "" if math.isnan(row["control"]) else f", never planted ones {row['control']:.1f}"
        ends = wording.interval_text(row["low"], row["high"], "{:.1f}".format)
        return f"Planted canaries have {row['value']:.1f} bits of exposure ({ends}){beside}."
    if math.isnan(row["value"]) or math.isnan(row["control"]):
        return "Not measured: no values of training patients, or of held-out ones, are known to search for."
    figures = [row[name] for name in ("value", "low", "high", "control", "control_low", "control_high")]
    leak = _past_the_filter(*figures) if row["defence"].endswith("filter") else wording.leak_sentence(*figures)
    return f"{SUBJECTS[metric]} {leak}"


def _past_the_filter(*figures: float) -> str:
    """What gets past a filter, in a sentence: this says nothing about what the model memorised."""
    value, low, high, control, control_low, control_high = figures
    found = wording.verdict(low, high, control_low, control_high)
    if found == "exceeds its control":
        past = "more than chance gets past it with these prompts"
    elif found == "below its control":
        past = "no more than chance gets past it with these prompts"
    else:
        past = "what gets past it with these prompts cannot be distinguished from chance"
    return (
        f"{wording.percent(value)} ({wording.interval_text(low, high)}) against {wording.percent(control)} "
        f"({wording.interval_text(control_low, control_high)}) for held-out patients: {past}. A "
        "filter does not change the model."
    )


def answer(rows: pd.DataFrame, kind: str) -> str:
    """The answer from the measured rows: the most useful defence whose names stay within their control.

    If names stay within it without a defence too, that comes first: there is nothing that a defence is seen to add.
    The filter alone leaves the model as it is, so it is named second if anything else keeps names out. Names are not
    all that leaks: where the loss attack beats guessing on the training notes of the best, that is said too.
    """
    every = rows[(rows["metric"] == NAMES) & (rows["seeds"] > 0)]
    bare, known = every[every["defence"] == "nothing"], every[every["defence"] != "nothing"]
    if len(known) and known[["value", "control"]].isna().all().any():
        return "Not measured: no names of these patients are known to search for."
    needless = bare[bare["low"] <= bare["control_high"]]
    first = _needless(needless.iloc[0], kind) if len(needless) else ""
    attacked = rows[(rows["metric"] == AUC) & (rows["seeds"] > 0)].set_index("defence")
    return f"{first}{_best(known, kind, attacked)}"


def _needless(row: pd.Series, kind: str) -> str:
    """That no defence can be seen to help with names, as the start of an answer."""
    perplexity = wording.perplexity_text(row["perplexity"])
    return (
        f"Without a defence there is no clear excess of full names over the control either: "
        f"{wording.percent(row['value'])} of patients ({wording.interval_text(row['low'], row['high'])}), held-out "
        f"patients {wording.percent(row['control'])}, at {wording.perplexity_name(kind)} {perplexity}. For names, this "
        "comparison does not show that a defence is worth its cost. "
    )


def _best(known: pd.DataFrame, kind: str, attacked: pd.DataFrame) -> str:
    """The most useful of these measured defences that keep names within their control.

    Args:
        known: The measured defences with their figures of names.
        kind: The kind of model.
        attacked: Their AUC of the loss attack, by defence.
    """
    safe = known[known["low"] <= known["control_high"]].sort_values("perplexity", kind="stable")
    if safe.empty:
        return "None of those measured so far: each still writes more members' names than its control."
    filtered = safe["defence"] == "filter"
    others, alone = safe[~filtered], safe[filtered]
    if others.empty:
        only = "Of the defences measured so far, only one has no clear excess of full names over its control"
        return f"{only}: {_cost(alone.iloc[0], kind)}. {_EVADED}"
    best = others.iloc[0]
    sentence = (
        "Of the measured defences with no clear excess of full names over the control, the most useful is "
        f"{_cost(best, kind)}.{_recognised(others, kind, attacked)}"
    )
    if len(alone) and alone.iloc[0]["perplexity"] < best["perplexity"]:
        sentence += f" A filter costs less: {_cost(alone.iloc[0], kind)}. {_EVADED}"
    return sentence


def _recognised(safe: pd.DataFrame, kind: str, attacked: pd.DataFrame) -> str:
    """That the loss attack beats guessing on the notes of the first of these, and the first at which it hardly does.

    With a space before it; empty if the interval of the first one's AUC is not above ½, or nothing was measured.
    """
    best = safe.iloc[0]["defence"]
    if best not in attacked.index or not attacked.loc[best, "low"] > BLIND:
        return ""
    sentence = f" But the loss attack beats guessing on its training notes: AUC {_auc(attacked.loc[best])}"
    public = attacked.loc[best].reindex(["base", "base_low", "base_high"]).set_axis(["value", "low", "high"])
    if attacked.loc[best, "low"] <= public["high"]:  # as of a small upload: members' and held-out notes differ anyway
        return (
            f"{sentence}. That cannot be distinguished from the public model's, which read none of these notes: "
            f"{_auc(public)}."
        )
    beside = next((row for _, row in safe.iterrows() if _reaches_blind(row["defence"], attacked)), None)
    if beside is None:
        return f"{sentence}."
    return (
        f"{sentence}; not clearly with **{beside['name']}** ({wording.perplexity_name(kind)} "
        f"{wording.perplexity_text(beside['perplexity'])}): {_auc(attacked.loc[beside['defence']])}."
    )


def _reaches_blind(defence: str, attacked: pd.DataFrame) -> bool:
    """Whether the interval of the loss attack's AUC under this defence reaches that of guessing."""
    return defence in attacked.index and bool(attacked.loc[defence, "low"] <= BLIND)


def _auc(row: pd.Series) -> str:
    """`0.612 (0.601 to 0.624)`: with three digits, so that 0.503 does not look like guessing."""
    return f"{row['value']:.3f} ({row['low']:.3f} to {row['high']:.3f})"


def lowest(rows: pd.DataFrame, risk: Drawn) -> str:
    """Which defences are lowest by another risk than names, beside no defence; empty if there is nothing to compare.

    Those that share the lowest figure, as it is written, are all named. A filter that does not change this risk is left
    out.
    """
    measured = rows[(rows["seeds"] > 0) & rows["value"].notna()]
    if rows["metric"].iloc[0] not in FILTERED_RISKS:
        measured = measured[~measured["defence"].str.endswith("filter")]
    bare, others = (measured[(measured["defence"] == "nothing") == none] for none in (True, False))
    if bare.empty or others.empty:
        return ""
    metric = str(rows["metric"].iloc[0])
    number, unit = registry.number_format(metric).text, " bits" if metric.startswith("exposure") else ""

    def figure(row: pd.Series) -> str:
        return f"{number(row['value'])}{unit} ({wording.interval_text(row['low'], row['high'], number)})"

    tied = others["value"].map(number) == number(others["value"].min())
    best, rest = others[tied], others[~tied].sort_values("value", kind="stable")
    without = f"without a defence {figure(bare.iloc[0])}."
    overlap = _overlap(best, rest.iloc[0], figure) if len(rest) else ""
    if len(best) == 1:
        return f"By {risk.label}, **{best['name'].iloc[0]}** is lowest: {figure(best.iloc[0])}; {without}{overlap}"
    *most, last = (f"**{name}**" for name in best["name"])
    widest = best.loc[(best["high"] - best["low"]).idxmax()]
    return (
        f"By {risk.label}, {', '.join(most)} and {last} are lowest, {'both' if len(best) == 2 else 'all'} "
        f"{number(widest['value'])}{unit} (widest {wording.interval_text(widest['low'], widest['high'], number)}); "
        f"{without}{overlap}"
    )


def _overlap(best: pd.DataFrame, following: pd.Series, figure: Callable[[pd.Series], str]) -> str:
    """That the interval of the lowest reaches that of the next, with a space before it; empty if it does not."""
    reach = best[best["high"] >= following["low"]]
    if reach.empty:
        return ""
    whose = "Its interval overlaps" if len(best) == 1 else "Their intervals overlap"
    return f" {whose} that of the next, **{following['name']}**: {figure(following)}."


_EVADED = "But the model stays as it is, and a filter that does not read the prompt as well can be evaded."


def _cost(row: pd.Series, kind: str) -> str:
    """`**DP**, full names of 0 % of patients (95 % interval 0 % to 0.3 %) at perplexity 6.2`."""
    perplexity = f"{wording.perplexity_name(kind)} {wording.perplexity_text(row['perplexity'])}"
    share = f"{wording.percent(row['value'])} of patients ({wording.interval_text(row['low'], row['high'])})"
    return f"**{row['name']}**, full names of {share} at {perplexity}"
