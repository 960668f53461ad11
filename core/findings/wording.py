"""Figures, rules and verdicts of claims in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.evaluation.sweep.sizes import rounded
from core.evaluation.wording import NO_NUMBER, decimal_text
from core.findings.claim import Claim, Figure, Unit
from core.findings.judging import Finding
from core.spec import ABSTRACTS, CLINICAL

MINUS = "−"
_HAS_READ = {ABSTRACTS: "abstracts", CLINICAL: "abstracts and clinical text"}  # the public models


def number_text(value: float, unit: Unit) -> str:
    """`+12.3` points, `12.3 %`, `0.37×` or `0.12`, with a real minus sign."""
    if math.isnan(value):
        return "not measured"
    if unit == "points":
        return decimal_text(100 * value, "+.1f") if abs(100 * value) >= NO_NUMBER else "0"
    if unit == "share":
        text = f"{100 * value:.1f} %"
    elif unit == "ratio":
        text = f"{value:,.0f}×" if value >= 100 else f"{value:.1f}×" if value >= 10 else f"{value:.3f}×"
    else:
        text = f"{value:.3f}" if abs(value) < 1 and value else f"{value:.2f}".removesuffix(".00")
    return text.replace("-", MINUS)


def figure_text(figure: Figure, unit: Unit) -> str:
    """The value with its interval; an exact figure has none."""
    value = number_text(figure.value, unit)
    if not figure.has_interval:
        return value if math.isnan(figure.value) else f"{value} (no interval)"
    if figure.low == figure.high:
        return f"{value} (exact)"
    return f"{value} ({number_text(figure.low, unit)} to {number_text(figure.high, unit)})"


def range_text(figures: Sequence[Figure], unit: Unit) -> str:
    """One figure; of several the range of the values, and the outermost ends of their intervals.

    `+19.1 to +20.6 (+15.2 to +24.0), 3 figures`.
    """
    if len(figures) == 1:
        return figure_text(figures[0], unit)
    known = [one.value for one in figures if not math.isnan(one.value)]
    if not known:
        return "not measured"
    ends = " to ".join(dict.fromkeys(number_text(end, unit) for end in (min(known), max(known))))
    lows, highs = ([end for one in figures if not math.isnan(end := getattr(one, side))] for side in ("low", "high"))
    if lows and highs:
        ends += f" ({number_text(min(lows), unit)} to {number_text(max(highs), unit)})"
    return f"{ends}, {len(known)} figures"


def rule_text(finding: Finding) -> str:
    """The claim's rule as a sentence, in the claim's unit."""
    claim = finding.claim
    unit = " points" if claim.unit == "points" else ""
    return claim.rule.sentence(lambda value: number_text(value, claim.unit) + (unit if value else ""))


def bases_text(claim: Claim) -> str:
    """What the public models have read that a claim's runs start from, as a sentence; empty without runs.

    Where the runs start from several, each has the sizes of the hospitals that it is trained on: a claim that compares
    hospitals then compares public models as well.
    """
    notes: dict[str, set[int]] = {}
    for need in claim.needs:
        notes.setdefault(need.spec.model.base, set()).add(need.spec.corpus.training_notes)
    read = [(_HAS_READ.get(base, base), sorted(sizes)) for base, sizes in notes.items()]
    if not read:
        return ""
    if len(read) == 1:
        return f"The public model that training starts from has read {read[0][0]}."
    of = [f"{what} ({' and '.join(f'about {rounded(size)}' for size in sizes)} notes)" for what, sizes in read]
    return f"Training starts from public models that have read {', or '.join(of)}."


def together(figures: Sequence[Figure]) -> str:
    """How the intervals are to be read."""
    if all(one.low == one.high for one in figures):
        return "Computed exactly."
    if len(figures) == 1:
        return "95 % interval."
    return f"The {len(figures)} intervals hold together in 95 % of cases (Bonferroni), so each is wider than its own."
