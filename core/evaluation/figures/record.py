"""The form of a record in `core.evaluation.registry`: all information about one figure, and number formats."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from core.evaluation.wording import interval_text, leak_sentence, percent, perplexity_text

Direction = Literal["lower", "higher"]
Basis = Literal["strongest", "loss", "text"]
Shows = Literal["risk", "usefulness"]


class Measured(Protocol):
    """Any object with a value and its 95 % interval."""

    @property
    def value(self) -> float:
        """The figure."""

    @property
    def low(self) -> float:
        """Lower end; NaN without an interval."""

    @property
    def high(self) -> float:
        """Upper end; NaN without an interval."""


@dataclass(frozen=True)
class NumberFormat:
    """Format of a number: `text` in sentences, limits and hovers of charts, `exact` in a report, `tick` on an axis."""

    text: Callable[[float], str]
    exact: Callable[[float], str]
    tick: str | None = None  # d3-format of the axis; None lets the chart choose
    share: bool = False


SHARE = NumberFormat(percent, percent, "~%", share=True)
AUC = NumberFormat("{:.2f}".format, "{:.3f}".format)
BITS = NumberFormat("{:.1f}".format, "{:.1f}".format)
BITS_PER_CHARACTER = NumberFormat("{:.2f}".format, "{:.2f}".format)
TOKENS = NumberFormat("{:.1f}".format, "{:.1f}".format)
PERPLEXITY = NumberFormat(perplexity_text, perplexity_text)


def against_control(now: Measured, control: Measured | None, number: Callable[[float], str] = percent) -> str:
    """A leak rate with its interval, its held-out control and the verdict: a sentence without its beginning."""
    if control is None or any(map(math.isnan, (now.low, now.high, control.low, control.high))):
        return f"{number(now.value)} ({interval_text(now.low, now.high, number)}), without a control."
    ends = (now.value, now.low, now.high, control.value, control.low, control.high)
    return leak_sentence(*ends, number=number)


@dataclass(frozen=True)
class Chart:
    """How a figure is drawn on the ε trade-off, and a risk also on Defences.

    `axis` is the label of the axis; a family has `{}` in place of its member. The axis covers at least the range from
    `floor` to `ceiling`; a logarithmic axis (`log`) has no such range. `blind_label` labels a horizontal line at the
    value that a blind attacker reaches; if it is empty, there is no line. `chance` is the key of the figure that says
    what chance reaches, which usefulness is compared with. `sentence` describes a risk and its held-out control;
    without it, `axis` and `against_control` do.
    """

    place: int  # the simplest first, among the risks or among what a model is good for
    axis: str
    floor: float = 0.0
    ceiling: float = 0.05
    blind_label: str = ""
    sentence: Callable[[Measured, Measured | None], str] | None = None
    shows: Shows = "risk"
    log: bool = False
    chance: str = ""


@dataclass(frozen=True)
class Limit:
    """How a reader limits a figure in “Which ε?”.

    `basis` says how it is measured: by the strongest attack on patients, the loss attack on notes, or generated text.
    `start` is the slider's initial value; `chosen` figures are limited from the start.
    """

    label: str
    explanation: str
    basis: Basis
    start: float = 0.05
    chosen: bool = False


@dataclass(frozen=True)
class Figure:
    """All information about one figure, wherever it appears.

    A family (`exposure`) has members (`exposure:8`), which share its record. `member` returns the text of one
    (`8 copies`), which replaces `{}` in `title` and in the chart's axis.

    `rows` computes the figure: a function of `core.evaluation.summary.RunTables`, or its location as `module:function`,
    which is imported only when figures are computed. One function may compute several figures. Figures without `rows`
    are computed elsewhere: those of a run's own vocabulary (`core.evaluation.memorisation.vocabulary`), and those that
    compare attacks or runs (`core.evaluation.sweep.limit_measures`), for example the excess of `excess_of` over its
    control.
    """

    key: str
    label: str  # in controls and legends: two or three words
    explanation: str  # one or two sentences
    unit: str
    number: NumberFormat
    range: tuple[float, float]  # of possible values; intervals stay within it
    better: Direction  # the better direction for patients (risks) or users (usefulness)
    interval: str  # how its 95 % interval is computed
    formula: str
    source: str  # author, year, section or equation; empty for figures of this project
    section: str  # heading in the documentation of methods
    blind: float | None = None  # what a blind guess, or a model that never saw the secret, reaches
    controls: tuple[str, ...] = ()  # what it is compared with
    control_label: str = "held-out patients"  # what the arm `heldout` consists of
    rows: Callable[..., Any] | str | None = None
    member: Callable[[str], str] | None = None
    excess_of: str = ""
    title: str = ""  # of its rows in a report's table of attacks; empty if it has none
    leak: bool = True  # whether a report compares it with its control
    card: bool = False  # on the model card
    chart: Chart | None = None
    limit: Limit | None = None
    since: int = 1  # first version of the metrics table with the figure computed like this
    since_imported: int = 0  # the same for runs on imported notes, where a later change concerned these alone

    def function(self) -> Callable[..., Any] | None:
        """The function that computes its rows; None for a figure that `summarise` does not compute."""
        if isinstance(self.rows, str):
            module, _, name = self.rows.partition(":")
            return getattr(importlib.import_module(module), name)
        return self.rows

    def written(self, template: str, key: str) -> str:
        """`template` for this figure's `key`; a family's member replaces `{}`."""
        return template if self.member is None else template.replace("{}", self.member(key.partition(":")[2]))

    def places(self) -> tuple[str, ...]:
        """Names of the places where it appears."""
        shown = {
            "ε trade-off": self.chart is not None,
            "Which ε?": self.limit is not None,
            "report": bool(self.title) or self.limit is not None,
            "model card": self.card,
        }
        return (*(place for place, there in shown.items() if there), "exports")
