"""The Report page's answer: a sentence a model, and one picture of what each wrote about its patients."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import pandas as pd
import plotly.graph_objects as go

from core.common.formatting import promised_text
from core.evaluation.wording import percent
from pages.parts.common import chart_style
from pages.parts.common.phi_text import literal

if TYPE_CHECKING:
    from core.evaluation.report.facts import Report

LEAK = "direct_patients"  # the leak that the report's verdict is about
ALT = "Share of patients for whom each model wrote a direct identifier, with its control and 95\u00a0% intervals"
FOUND = {
    "exceeds its control": "It memorised patients",
    "cannot be told from its control": "What it wrote cannot be distinguished from chance",
    "below its control": "What it wrote shows no sign of memorising",
}
BELOW = 0.3  # of a row: how far below its model a control is drawn
ROW = 76  # pixels


def answers(made: Report) -> list[str]:
    """A sentence about the guarantee of each model, and one about what it wrote, beside its control.

    The report is a first page or more: whether an attack contradicts a guarantee is among its tables.
    """
    from core.evaluation.report.glance import alarmed  # imports scipy

    names, found = made.facts["names"], leaks(made).set_index("run")
    lines = []
    for model in made.tables["models"].to_dict("records"):
        line = f"**{literal(names[model['run']])}** {_guarantee(model, alarmed(made.tables, model['run']))}."
        if model["run"] in found.index and model["epsilon"] > 0:
            one = found.loc[model["run"]]
            line += (
                f" {FOUND[one['verdict']]}: it wrote a direct identifier of {percent(one['value'])} of its patients, "
                f"and of {percent(one['heldout_value'])} of patients it never saw."
            )
        lines.append(line)
    return lines


def name_in_bold(name: str) -> str:
    """`**B (ε = 8 per note).**` of the report's name `B: ε = 8 per note`: a sentence with a colon may follow."""
    letter, colon, settings = name.partition(": ")
    return f"**{literal(f'{letter} ({settings})' if colon else name, 200)}.**"


def _guarantee(model: dict[Hashable, Any], refuted: bool) -> str:
    """The guarantee of a row of the report's table `models`, as the end of a sentence.

    `refuted`: an attack proves more than it allows.
    """
    if not model["unit"]:
        return "gives no guarantee" if model["epsilon"] else "was trained on none of these notes"
    held = f"ε = {promised_text(model['epsilon'])} for each {model['unit']}"
    if refuted:
        return f"guarantees nothing: an attack proves more than {held} allows"
    text = f"guarantee {held}"
    secret = model["noise_source"] == "secret"
    return text.replace("guarantee", "guarantees", 1) if secret else f"would {text} if its noise were secret"


def leaks(made: Report) -> pd.DataFrame:
    """The report's controls for `LEAK`, a row a model, with `name`; without the models that have no such figure."""
    table = made.tables["controls"]
    rows = table[(table["metric"] == LEAK) & (table["against"] == "held out")]
    return rows.assign(name=rows["run"].map(made.facts["names"]), private=rows["run"].map(_private(made)))


def _private(made: Report) -> dict[str, bool]:
    models = made.tables["models"]
    return dict(zip(models["run"], models["unit"] != "", strict=True))


def dots(rows: pd.DataFrame) -> go.Figure:
    """The leaks of each model above its control, each with its 95 % interval, the first model on top."""
    figure = go.Figure()
    places = pd.Series(range(len(rows), 0, -1), index=rows.index, dtype=float)
    private = rows["private"].astype(bool)
    for name, colour, symbol, part, prefix, shift in (
        ("without privacy", chart_style.RISK, "circle", rows[~private], "", 0.0),
        ("with differential privacy", chart_style.PRIVATE, "diamond", rows[private], "", 0.0),
        ("held-out patients (control)", chart_style.CONTROL, "square", rows, "heldout_", BELOW),
    ):
        if part.empty:
            continue
        value, low, high = (part[f"{prefix}{end}"] for end in ("value", "low", "high"))
        figure.add_scatter(
            x=value,
            y=places[part.index] - shift,
            name=name,
            mode="markers",
            cliponaxis=False,
            marker={"color": colour, "symbol": symbol, "size": 13},
            error_x={"array": high - value, "arrayminus": value - low, "thickness": 2},
            customdata=chart_style.hover_columns(pd.DataFrame({"value": value, "low": low, "high": high})).assign(
                name=part["name"]
            ),
            hovertemplate="%{customdata[3]}: %{customdata[0]}<br>95 % interval %{customdata[1]} to %{customdata[2]}"
            f"<extra>{name}</extra>",
        )
    figure.update_yaxes(
        tickvals=places,
        ticktext=[chart_style.wrapped(name.replace("ε = ", "ε\u00a0=\u00a0"), 18) for name in rows["name"]],
        range=[0.4, len(rows) + 0.4],
        automargin=True,
    )
    figure.update_xaxes(
        title=chart_style.wrapped("patients for whom it wrote a direct identifier", 28),
        range=chart_style.roomy(rows[["low", "high", "heldout_low", "heldout_high"]], zero=True),
        zeroline=False,
        tickformat="~%",
    )
    figure.update_layout(
        height=150 + ROW * len(rows), margin={"l": 0, "r": 20, "t": 10, "b": 0}, legend=chart_style.LEGEND
    )
    return figure
