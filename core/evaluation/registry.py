"""Registry of all figures: a record by its key, which figures are shown where, and the documentation's table.

It holds the records of the package `core.evaluation.figures`, and selects the figures for a chart, a report, a model
card or a limit. It imports neither scipy nor torch, so that pages open quickly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from core.evaluation.figures.audit import AUDIT_FIGURES
from core.evaluation.figures.limited import LIMITED_FIGURES, UTILITY
from core.evaluation.figures.record import AUC, SHARE, Basis, Figure, Limit, NumberFormat, Shows
from core.evaluation.figures.utility import UTILITY_FIGURES

BASES: tuple[Basis, ...] = ("strongest", "text", "loss")  # order of limits
ANYTHING = (-math.inf, math.inf)
NUMBERS: dict[str, NumberFormat] = {"share": SHARE, "auc": AUC}  # for numbers of other tables with the same format
BEGIN, END = "<!-- figures: written from core/evaluation/figures/ -->", "<!-- end of figures -->"


def by_key(records: Iterable[Figure]) -> dict[str, Figure]:
    """The records by their keys.

    Raises:
        ValueError: two have the same key, or a key could be a member of a family.
    """
    found: dict[str, Figure] = {}
    for one in records:
        if one.key in found:
            raise ValueError(f"two figures have the key “{one.key}”")
        if ":" in one.key:
            raise ValueError(f"“{one.key}”: a key has no colon, which separates a family from its member")
        found[one.key] = one
    return found


_figures = by_key((*AUDIT_FIGURES, *UTILITY_FIGURES, *LIMITED_FIGURES))


def figures() -> tuple[Figure, ...]:
    """Every figure, in the order of tables."""
    return tuple(_figures.values())


def find(key: str) -> Figure | None:
    """The record of a figure; for `exposure:8` that of its family; None for an unknown name."""
    family, colon, _ = key.partition(":")
    found = _figures.get(family)
    return found if found is not None and bool(colon) <= (found.member is not None) else None


def figure(key: str) -> Figure:
    """As `find`, for a known key.

    Raises:
        KeyError: there is no such figure; the text lists those that exist.
    """
    found = find(key)
    if found is None:
        raise KeyError(f"there is no figure “{key}”; there are {', '.join(_figures)}")
    return found


def version(imported: bool = False) -> int:
    """Version of a metrics table computed now: the highest `since` of the figures.

    Runs on imported notes have their own, so that a change of their figures alone leaves other runs current.
    """
    return max(max(one.since, one.since_imported if imported else 0) for one in _figures.values())


def functions() -> tuple[Callable[..., Any], ...]:
    """The functions that compute the rows of a run's metrics table, each once, in the order of the figures."""
    return tuple(dict.fromkeys(made for one in figures() if (made := one.function()) is not None))


def possible(key: str) -> tuple[float, float]:
    """Range of a figure's possible values; unbounded for one without a record (of a newer version)."""
    found = find(key)
    return ANYTHING if found is None else found.range


def explain(key: str) -> str:
    """A short explanation of a figure; for `exposure:4` that of `exposure`. Raises KeyError for unknown keys."""
    return figure(key).explanation


def number_format(key: str) -> NumberFormat:
    """Number format of a figure, or of a name in NUMBERS. Raises KeyError for unknown keys."""
    return NUMBERS[key] if key in NUMBERS else figure(key).number


def figure_text(key: str, value: float) -> str:
    """A figure in the format of reports: shares in percent, an AUC with three digits; `–` for NaN."""
    return "–" if math.isnan(value) else number_format(key).exact(value)


def measure_text(key: str, value: float) -> str:
    """A figure in the format of sentences and limits: an AUC with two digits; `?` for NaN."""
    return "?" if math.isnan(value) else number_format(key).text(value)


# What is shown where -------------------------------------------------------------------------------------------------


def charted(keys: Iterable[str], shows: Shows = "risk") -> dict[str, Figure]:
    """The measured risks that have a chart, or what a model is good for, the simplest first.

    Of a family this is the highest member.
    """
    drawn = [one for one in figures() if one.chart is not None and one.chart.shows == shows]
    return _measured(sorted(drawn, key=lambda one: one.chart.place if one.chart else 0), keys)


def reported(keys: Iterable[str]) -> dict[str, Figure]:
    """The measured figures that a report's table of attacks lists, in order; of a family the highest member."""
    return _measured([one for one in figures() if one.title], keys)


def on_card() -> tuple[str, ...]:
    """Keys of the figures on a model card."""
    return tuple(one.key for one in figures() if one.card)


def _measured(chosen: Iterable[Figure], keys: Iterable[str]) -> dict[str, Figure]:
    there, found = set(keys), {}
    for one in chosen:
        if one.member is not None:
            members = [key for key in there if key.partition(":")[0] == one.key]
            if members:
                found[max(members, key=lambda key: int(key.partition(":")[2]))] = one
        elif one.key in there:
            found[one.key] = one
    return found


def limits(*bases: Basis) -> dict[str, Limit]:
    """Risks that a reader can limit, by key; `bases` selects some. Usefulness is not a risk, so it is left out."""
    wanted = bases or BASES
    limited = [(one.key, one.limit) for one in figures() if one.limit is not None and one.key != UTILITY]
    kept = [(key, limit) for key, limit in limited if limit.basis in wanted]
    return dict(sorted(kept, key=lambda pair: BASES.index(pair[1].basis)))


def limit_range(key: str) -> tuple[float, float]:
    """Lowest and highest sensible limit for a figure: its possible range, but not below 0."""
    low, high = figure(key).range
    return max(0.0, low), high


def measure_name(key: str) -> str:
    """The label of a figure that can be limited. Raises KeyError for a figure without a limit."""
    limit = figure(key).limit
    if limit is None:
        raise KeyError(f"the figure “{key}” cannot be limited")
    return limit.label


# Documentation -------------------------------------------------------------------------------------------------------


def markdown_table() -> str:
    """Every figure as a row of a Markdown table: label, unit, range, interval, formula, controls and source."""
    heads = (
        "figure",
        "what",
        "unit, range, better",
        "95 % interval",
        "formula",
        "blind",
        "controls",
        "source",
        "where",
    )
    rows = [heads, tuple("---" for _ in heads), *(_cells(one) for one in figures())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(one: Figure) -> tuple[str, ...]:
    low, high = ("−∞" if end == -math.inf else "∞" if end == math.inf else f"{end:g}" for end in one.range)
    name = one.key if one.member is None else f"{one.key}:…"
    blind = "" if one.blind is None else f"{one.blind:g}"
    about = f"{one.unit}; {low.replace('-', '−')} to {high}; {one.better}"
    cited = "; ".join(part for part in (one.source, f"“{one.section}”") if part)
    places = ", ".join(one.places())
    cells = (one.label, about, one.interval, one.formula, blind, "; ".join(one.controls), cited, places)
    return (f"`{name}`", *(cell.replace("|", "\\|") for cell in cells))


def write_table(path: Path) -> bool:
    """Write the table between the two marks of a document.

    Returns:
        Whether that changed the document.

    Raises:
        ValueError: the document lacks the marks.
    """
    text = path.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{path} needs the lines “{BEGIN}” and “{END}”")
    before, rest = text.split(BEGIN)
    made = f"{before}{BEGIN}\n\n{markdown_table()}\n\n{END}{rest.split(END)[1]}"
    if made != text:
        path.write_text(made, encoding="utf-8")
    return made != text
