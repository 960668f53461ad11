"""The tables of a report as HTML. Cells are made by `escaped`; nothing else gets in but the markup written here."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from core.common.formatting import REPRODUCIBLE, delta_text, epochs_text, promised_text, proved_text
from core.evaluation import registry
from core.evaluation.figures.limited import UTILITY
from core.evaluation.guarantee.audit_guarantee import further, headline
from core.evaluation.registry import explain, figure_text, measure_name, measure_text
from core.evaluation.sweep.recommendation import attack_text, epsilon_name
from core.evaluation.wording import at_most_text, epsilon_text
from core.runs.facts import neighbours

Names = Mapping[str, str]  # run id → its short name in this report
EXCEEDS = "exceeds its control"
NOT_MEASURED = "<p>Not measured.</p>"


def escaped(text: object) -> str:
    """Text as HTML shows it."""
    return html.escape(str(text), quote=True)


@dataclass(frozen=True)
class Wide:
    """A cell (HTML) over several columns."""

    cell: str
    columns: int


def table(heads: Sequence[str], rows: Sequence[Sequence[str | Wide]], caption: str = "") -> str:
    """A table; heads and the caption are text, cells are HTML already (`escaped`). A single cell spans its row."""
    top = "".join(f"<th>{escaped(head)}</th>" for head in heads)
    body = ""
    for row in rows:
        body += f"<tr>{''.join(_cell(cell, len(heads) if len(row) == 1 else 1) for cell in row)}</tr>\n"
    said = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{said}<thead><tr>{top}</tr></thead>\n<tbody>{body}</tbody></table></div>'


def _cell(cell: str | Wide, columns: int) -> str:
    if isinstance(cell, Wide):
        cell, columns = cell.cell, cell.columns
    return f'<td colspan="{columns}">{cell}</td>' if columns > 1 else f"<td>{cell}</td>"


def interval(metric: str, row: Any, prefix: str = "") -> str:
    """`38 % (33 % to 44 %)` from a row's value, low and high (`prefix` before each name)."""
    value, low, high = (float(row[f"{prefix}{end}"]) for end in ("value", "low", "high"))
    if math.isnan(value):
        return "–"
    ends = "" if math.isnan(low) else f" ({figure_text(metric, low)} to {figure_text(metric, high)})"
    return f'<span class="value">{escaped(figure_text(metric, value))}</span><span class="ends">{escaped(ends)}</span>'


def models(frame: pd.DataFrame, names: Names) -> str:
    """Each model with its guarantee and all that it depends on."""
    rows = []
    for row in frame.to_dict("records"):
        promise = "public base model: it read no notes" if row["epsilon"] == 0 else "none"
        how = ""
        if row["unit"]:
            promise = f"ε = {epsilon_text(row['epsilon'])}, δ = {delta_text(row['delta'])} for one {row['unit']}"
            promise += f" (neighbours: {neighbours(row)})"
            promise += "" if row["noise_source"] == "secret" else f"; {REPRODUCIBLE}"
            how = (
                f"σ = {row['sigma']:.4g}, q = {row['sample_rate']:.4g}, {row['steps']:.0f} steps, clipping norm "
                f"{row['clipping_norm']:g}; counted by {row['accountant'].upper()}"
            )
        about = f"{row['model']} {row['size']}, {epochs_text(row['epochs'])}, seed {row['seed']}; {row['run']}"
        guesses = [at_most_text(row[f"right_guesses_{which}"]) for which in ("promised", "counted")]
        rows.append([escaped(cell) for cell in (names[row["run"]], about, promise, how, *guesses)])
    caption = (
        "Right guesses: the largest chance that anybody rightly guesses whether one unit was in the data, if in and "
        "out were equally likely beforehand; a coin has 50 %. By (ε, δ): (e^ε + δ)/(1 + e^ε). Counted: (1 + total "
        "variation)/2 of the very mechanism. δ is the chance at which the promise may fail; σ the noise for each "
        "clipping norm; q the share of units that a step reads."
    )
    return table(["model", "", "guarantee", "mechanism", "right guesses by (ε, δ)", "counted"], rows, caption)


def controls(frame: pd.DataFrame, names: Names) -> str:
    """The quick audit's figures, each beside both controls, with the verdict against the held-out one."""
    if frame.empty:
        return NOT_MEASURED
    rows = []
    for metric, same in frame.groupby("metric", sort=False):
        rows.append([f"<b>{escaped(_title(metric))}</b> <span class=soft>{escaped(explain(metric))}</span>"])
        for row in same.to_dict("records"):
            cells = [_counted(metric, row, prefix) for prefix in ("", "heldout_", "base_")]
            rows.append([escaped(names[row["run"]]), *cells, marks(row), _verdict(metric, row)])
    return table(["model", "measured", "held out", "base", "", "verdict"], rows)


def _counted(metric: str, row: Mapping[str, Any], prefix: str) -> str:
    """A figure with its interval and of how many it is."""
    if math.isnan(row[f"{prefix}value"]):
        return "–"
    return f"{interval(metric, row, prefix)}<br><span class=soft>n = {row[f'{prefix}n']:,}</span>"


def _title(metric: str) -> str:
    figure = registry.figure(metric)
    return figure.written(figure.title, metric)


def _verdict(metric: str, row: Mapping[str, Any]) -> str:
    """By the intervals, with the control it is held against; how well a model reads is no leak and gets none."""
    if not registry.figure(metric).leak or not row["verdict"]:
        return ""
    said = row["verdict"].replace("its control", {"held out": "held out", "base": "the base"}[row["against"]])
    return f'<span class="bad">{escaped(said)}</span>' if row["verdict"] == EXCEEDS else escaped(said)


def marks(row: Mapping[str, Any]) -> str:
    """Value and interval of run, held-out and base, one under another on one scale, as a small picture."""
    found = []
    for prefix, colour in (("", "var(--risk)"), ("heldout_", "var(--soft)"), ("base_", "var(--soft)")):
        ends = [float(row[f"{prefix}{end}"]) for end in ("value", "low", "high")]
        if not any(map(math.isnan, ends)):
            found.append((ends, colour))
    if not found:
        return ""
    lowest, highest = min(ends[1] for ends, _ in found), max(ends[2] for ends, _ in found)
    width = (highest - lowest) or 1.0
    drawn = ""
    for y, (ends, colour) in zip((7, 19, 31), found, strict=False):
        value, low, high = (6 + 98 * (end - lowest) / width for end in ends)
        drawn += f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        drawn += f'<circle cx="{value:.1f}" cy="{y}" r="4" fill="{colour}"/>'
    label = "measured, held out and base with their intervals, on one scale"
    return f'<svg width="110" height="38" viewBox="0 0 110 38" role="img" aria-label="{label}">{drawn}</svg>'


def attacks(frame: pd.DataFrame, names: Names) -> str:
    """Membership by every attack of the full audit: one row an attack, the models side by side."""
    if frame.empty:
        return ""
    runs, levels = list(dict.fromkeys(frame["run"])), list(dict.fromkeys(frame["level"]))
    at = {(row["run"], row["attack"], row["level"]): row for row in frame.to_dict("records")}
    rows = []
    for attack in dict.fromkeys(frame["attack"]):
        keys = [(run, attack, level) for run in runs for level in levels]
        rows.append([escaped(attack), *(interval("auc_loss", at[key]) if key in at else "–" for key in keys)])
    heads = ["attack", *(f"{names[run]}, a {level}" for run in runs for level in levels)]
    return table(heads, rows, "AUC of every membership attack of the full audit. A blind guess gets 0.5.")


def risk(frame: pd.DataFrame, names: Names) -> str:
    """Row P5's weighted risk, the models side by side."""
    if frame.empty:
        return ""
    runs = list(dict.fromkeys(frame["run"]))
    at = {(row["run"], row["part"]): row for row in frame.to_dict("records")}
    rows = []
    for part in dict.fromkeys(frame["part"]):
        found = [at.get((run, part)) for run in runs]
        weight = next(f"{row['weight']:.2f}" for row in found if row is not None)
        rows.append([escaped(part), weight, *("–" if row is None else interval("share", row) for row in found)])
    return table(["part", "weight", *(names[run] for run in runs)], rows, "Weighted risk, each part less its control.")


def bounds(frame: pd.DataFrame, names: Names) -> str:
    """What attacks prove about ε: the audit fixed beforehand, and the highest of the others."""
    if frame.empty:
        return "<p>Not measured: no canaries were planted and no patient was scored.</p>"
    rows = []
    for run, own in frame.groupby("run", sort=False):
        fixed, others = headline(own), further(own).nlargest(1, "epsilon")
        for row in [*([] if fixed is None else [fixed.to_dict()]), *others.to_dict("records")]:
            alarm = '<span class="bad">above the promise</span>' if row["alarm"] else "no"
            counts = f"{row['correct']} of {row['trials']}"
            ends = [proved_text(row["epsilon"]), epsilon_text(row["ceiling"]), _limit(row["promised"])]
            rows.append([escaped(names[run]), escaped(row["audit"]), counts, *map(escaped, ends), alarm])
    heads = ["model", "audit", "right guesses", "ε is at least", "could prove at most", "promised", "alarm"]
    return table(heads, rows, "With 95 % confidence: the audit fixed beforehand, then the highest of all others.")


def _limit(promised: float) -> str:
    return epsilon_text(promised) if math.isinf(promised) else promised_text(promised)


def hipaa(frame: pd.DataFrame, names: Names) -> str:
    """HIPAA's 18 identifiers, the models side by side."""
    runs = list(dict.fromkeys(frame["run"]))
    rows = []
    for _, same in frame.groupby("number", sort=True):
        at = {row["run"]: row for row in same.to_dict("records")}
        first = at[runs[0]]
        cells = [_found(at[run]) for run in runs]
        told = [escaped(first[name]) for name in ("number", "identifier", "tested")]
        if any(cells):
            rows.append([*told, *cells, escaped(first["note"])])
        else:
            rows.append([*told, Wide(escaped(first["note"]), len(runs) + 1)])
    return table(["", "identifier", "tested", *(names[run] for run in runs), "what was looked for"], rows)


def _found(row: Mapping[str, Any]) -> str:
    if pd.isna(row["value"]):
        return ""
    held = "" if pd.isna(row["control"]) else interval("share", {**row, "control_value": row["control"]}, "control_")
    return f"{interval('share', row)}<br><span class=soft>held out {held}</span>"


def limits(frame: pd.DataFrame) -> str:
    """Every ε against the reader's limits, a column a measure."""
    if frame.empty:
        return ""
    measures = list(dict.fromkeys(frame["measure"]))
    heads = ["ε"]
    for name in measures:
        limit = frame.loc[frame["measure"] == name, "limit"].iloc[0]
        heads.append(
            f"{measure_name(name)}, {'at least' if name == UTILITY else 'at most'} {measure_text(name, limit)}"
        )
    rows = []
    for (unit, epsilon), same in frame.groupby(["unit", "epsilon"], sort=False):
        at = {row["measure"]: row for row in same.to_dict("records")}
        rows.append([escaped(epsilon_name(unit, epsilon)), *(_against(at.get(name), name) for name in measures)])
    risks = registry.limits()
    explained = "; ".join(f"{risks[name].label}: {risks[name].explanation}" for name in measures if name in risks)
    caption = f"Met when the worse end of the 95 % interval meets the limit. {explained}."
    return table(heads, rows, caption)


def _against(row: Mapping[str, Any] | None, name: str) -> str:
    if row is None:
        return "–"
    value, low, high = (measure_text(name, row[end]) for end in ("value", "low", "high"))
    met = '<span class="ok">met</span>' if row["met"] else '<span class="bad">not met</span>'
    by = f"<br><span class=soft>{escaped(attack_text(row))}</span>" if row["attack"] else ""
    return f"{escaped(value)} <span class=ends>({escaped(low)} to {escaped(high)})</span><br>{met}{by}"


def ledger(frame: pd.DataFrame) -> str:
    """What was released, an entry a row."""
    rows = []
    for row in frame.to_dict("records"):
        promise = f"{epsilon_text(row['epsilon'])}{' per ' + row['unit'] if row['unit'] else ''}"
        cells = (row["number"], row["time"], row["kind"], row["name"], promise, row["reason"])
        rows.append([escaped(cell) for cell in cells])
    return table(["", "when", "what", "name", "ε", "reason"], rows) if rows else ""


def costs(frame: pd.DataFrame, names: Names) -> str:
    """What each training took."""
    if frame.empty:
        return "<p>Not recorded.</p>"
    rows = []
    for row in frame.to_dict("records"):
        cells = (names[row["run_id"]], f"{row['steps']:,}", f"{row['tokens']:,}", f"{row['seconds']:,.0f} s")
        rows.append([escaped(cell) for cell in cells])
    return table(["model", "steps", "tokens read", "training time, where it was trained"], rows)
