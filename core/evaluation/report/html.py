"""A report as one HTML file, without scripts or network requests, that prints well.

The templates in `templates/` hold all markup and most sentences. Autoescaping is always on and no template marks
anything as safe, so text from runs, ledgers and readers is never read as markup.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.common import formatting
from core.evaluation import registry, wording
from core.evaluation.figures.limited import UTILITY
from core.evaluation.guarantee.audit_guarantee import by_curve, further, headline
from core.evaluation.memorisation.discoverable import EASIEST
from core.evaluation.probes.cards import CAUTION
from core.evaluation.rarity.profiles import LEAST
from core.evaluation.report import label
from core.evaluation.report.commands import parts_of_sentence
from core.evaluation.report.crosswalk.cells import anchor
from core.evaluation.report.decision import ACCESS, in_short
from core.evaluation.report.facts import Report
from core.evaluation.report.what_follows import exact_limit, first_limits, limits_sentence
from core.evaluation.sweep import recommendation
from core.evaluation.wording import signed
from core.phi.fields import FIELD
from core.runs.facts import neighbours

Row = Mapping[str, Any]


def render(report: Report) -> str:
    """Render the whole document."""
    tables = {name: frame.to_dict("records") for name, frame in report.tables.items()}
    return _templates.get_template("report.html.j2").render(facts=report.facts, tables=tables)


def _figure_name(metric: str) -> str:
    figure = registry.figure(metric)
    return figure.written(figure.title, metric)


def _rows_by(rows: Iterable[Row], *columns: str) -> dict[Any, list[Row]]:
    """Group rows by their values in `columns` (a value for one column, else a tuple), in order of appearance."""
    found: dict[Any, list[Row]] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        found.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    return found


def _row_at(rows: Iterable[Row], **values: object) -> Row | None:
    """The last row with these values; None if there is none."""
    found = [row for row in rows if all(row[name] == value for name, value in values.items())]
    return found[-1] if found else None


def _marks(row: Row) -> list[dict[str, Any]]:
    """Measured values and intervals of run, held-out and base, in pixels on a common scale of 98."""
    found = []
    for prefix, colour in (("", "var(--risk)"), ("heldout_", "var(--soft)"), ("base_", "var(--soft)")):
        ends = {end: float(row[f"{prefix}{end}"]) for end in ("value", "low", "high")}
        if not any(map(math.isnan, ends.values())):
            found.append((colour, ends))
    lowest = min((ends["low"] for _, ends in found), default=0.0)
    width = max((ends["high"] for _, ends in found), default=0.0) - lowest or 1.0
    return [
        {"y": y, "colour": colour, **{end: 6 + 98 * (at - lowest) / width for end, at in ends.items()}}
        for y, (colour, ends) in zip((7, 19, 31), found, strict=False)
    ]


def _verdict(metric: str, row: Row) -> str:
    """The verdict with the name of its control; figures of usefulness are no leaks and have none."""
    if not registry.figure(metric).leak or not row["verdict"]:
        return ""
    return row["verdict"].replace("its control", {"held out": "held out", "base": "the public model"}[row["against"]])


def _main_bounds(rows: Iterable[Row]) -> list[Row]:
    """For each run both bounds of the audit that was fixed beforehand, and the highest of the others."""
    found: list[Row] = []
    for own in map(pd.DataFrame, _rows_by(rows, "run").values()):
        fixed, curve, others = headline(own), by_curve(own), further(own).nlargest(1, "epsilon")
        found += [row.to_dict() for row in (fixed, curve) if row is not None]
        found += others.to_dict("records")
    return found


def _field_name(field: str) -> str:
    """An identifier as readers know it; of `EASIEST`, what it stands for."""
    return "the easiest of each patient" if field == EASIEST else FIELD[field].label


def _counted_tries(row: Row | None) -> str:
    """A median number of tries with its interval, in words, since it has two digits at most."""
    if row is None or math.isnan(row["value"]):
        return "–"
    if math.isinf(row["value"]):
        return "ruled out, for half or more"
    low, high = ("ruled out" if math.isinf(row[end]) else wording.count_text(row[end]) for end in ("low", "high"))
    return f"{wording.count_text(row['value'])} ({low} to {high})"


def _shared_bases(buckets: Iterable[Row]) -> list[list[str]]:
    """Groups of runs with the same figures of the public base model; none if the base has a column itself."""
    kept = _rows_by(sorted((row for row in buckets if row["kept"]), key=lambda row: row["bucket"]), "run")
    shown = {tuple(row["auc"] for row in rows) for rows in kept.values()}
    found: dict[tuple, list[str]] = {}
    for run, rows in kept.items():
        values = tuple(row["base_auc"] for row in rows)
        if values not in shown and not all(map(math.isnan, values)):
            found.setdefault(values, []).append(run)
    return list(found.values())


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.tests["missing"] = pd.isna
_templates.globals |= {
    one.__name__.removeprefix("_"): one
    for one in (
        *(formatting.delta_text, formatting.epochs_text, formatting.promised_text, formatting.proved_text),
        formatting.time_text,
        *(wording.at_most_text, wording.guaranteed_text, wording.p_value_text),
        *(wording.percent, wording.percent_up),
        *(registry.explain, registry.figure_text, registry.measure_name, registry.measure_text),
        *(recommendation.attack_text, recommendation.epsilon_name, neighbours, signed, _figure_name, anchor),
        *(exact_limit, first_limits, limits_sentence, in_short),
        *(
            _rows_by,
            _row_at,
            _marks,
            _verdict,
            _main_bounds,
            _shared_bases,
            _field_name,
            _counted_tries,
            parts_of_sentence,
        ),
    )
} | {
    "access": ACCESS,
    "label_rows": label.rows,
    "label_essentials": label.essentials,
    "trained_text": label.trained_text,
    "inf": math.inf,
    "reproducible": formatting.REPRODUCIBLE,
    "caution": CAUTION,
    "least": LEAST,
    "utility": UTILITY,
    "known_limits": registry.limits,
}
