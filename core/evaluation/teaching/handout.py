"""The handout of a lesson: two printed pages with terms, tasks and the figures of the class's runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from core.common.formatting import delta_text
from core.evaluation import wording
from core.evaluation.teaching.exercises import HANDOUT, Figure
from core.spec import Unit

WIDTH, LEFT = 640, 215  # of the chart, and where its axis begins
ROOMY, DENSE = 26, 15  # height of its rows
MANY = 6  # more trainings than these are printed densely, so that two pages suffice


@dataclass(frozen=True)
class Training:
    """A row of the table: what was measured on a model. None where it was not.

    `right` is how many of 100 guesses about one unit may be right, by the promise; empty for models without one. `arm`
    is run, private or control.
    """

    name: str
    arm: str
    names: Figure | None
    auc: Figure | None
    perplexity: Figure | None
    right: str = ""


@dataclass(frozen=True)
class Handout:
    """What is printed. Shares are of patients; `openings` is how many prompts `texts` continuations began with."""

    model: str
    patients: int
    held_out: int
    texts: int
    openings: tuple[str, ...]
    unit: Unit
    delta: float
    perplexity_name: str
    trainings: tuple[Training, ...]
    control: Figure | None  # names of held-out patients
    coincidence: tuple[str, Figure, Figure]  # a field that is often hit by chance, of members and of held-out patients
    public_noise: bool
    differences: str
    runs: tuple[str, ...]


def render(handout: Handout) -> str:
    """One HTML document without scripts or requests, laid out for two pages of A4."""
    dense = len(handout.trainings) > MANY
    row = DENSE if dense else ROOMY
    chart = {"width": WIDTH, "left": LEFT, "row": row}
    found = {"sheet": handout, "dense": dense, "chart": chart, "bars": _bars(handout, row), "step": HANDOUT}
    return _templates.get_template("handout.html.j2").render(found)


def _bars(handout: Handout, row: int) -> list[dict[str, object]]:
    """Shares of patients with their intervals, in pixels of the chart; the control last."""
    rows = [(one.name, one.arm, one.names) for one in handout.trainings if one.names is not None]
    if handout.control is not None:
        rows.append(("held-out patients (control)", "control", handout.control))
    most = max((figure.high for _, _, figure in rows), default=0.0) or 1.0
    scale = (WIDTH - LEFT - 60) / most
    return [
        {
            "name": name,
            "arm": arm,
            "y": row * (number + 0.5),
            **{end: LEFT + scale * getattr(figure, end) for end in ("value", "low", "high")},
            "text": wording.percent(figure.value),
        }
        for number, (name, arm, figure) in enumerate(rows)
    ]


def _with_ends(figure: Figure | None, text: Callable[[float], str]) -> tuple[str, str]:
    """A figure and its interval as text; a dash for one that was not measured."""
    return ("–", "") if figure is None else (text(figure.value), f"{text(figure.low)} to {text(figure.high)}")


_templates = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.globals |= {
    "number": lambda value: f"{value:g}".replace("-", "−"),
    "delta_text": delta_text,
    "share": lambda figure: _with_ends(figure, wording.percent),
    "auc": lambda figure: _with_ends(figure, "{:.2f}".format),
    "perplexity": lambda figure: _with_ends(figure, wording.perplexity_text),
}
