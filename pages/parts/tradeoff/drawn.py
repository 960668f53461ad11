"""The figures that can be drawn over ε: risks, and what a model is good for, each by the record of its figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from core.evaluation import registry
from core.evaluation.figures.record import Chart, Figure, Shows
from core.evaluation.wording import perplexity_name

PERPLEXITY = "perplexity_heldout"
FEWEST = 2  # measured ε from which usefulness can be drawn over ε


@dataclass(frozen=True)
class Drawn:
    """A figure with a chart: its name, its axis, and its record (`core.evaluation.registry`)."""

    label: str
    axis: str
    figure: Figure
    chart: Chart

    @property
    def share(self) -> bool:
        """Whether it is drawn in percent."""
        return self.figure.number.share

    @property
    def floor(self) -> float:
        """Highest value at which its axis may begin."""
        return self.chart.floor


def risks(metrics: Iterable[str]) -> dict[str, Drawn]:
    """The risks for which figures exist, the simplest first."""
    return _drawn(metrics, "risk")


def useful(curves: pd.DataFrame) -> dict[str, Drawn]:
    """What the models of a curve are good for, perplexity first: figures that at least FEWEST of its ε have.

    Perplexity is always among them; masked models have a pseudo-perplexity.

    Args:
        curves: from `core.evaluation.sweep.tradeoff.points`, not empty.
    """
    measured = curves[curves["arm"] == "run"].groupby("metric")["epsilon"].nunique()
    found = _drawn([PERPLEXITY, *measured.index[measured >= FEWEST]], "usefulness")
    name = perplexity_name(str(curves["kind"].iloc[0]))
    axis = name.replace("-", "- ")  # a chart wraps it at the space
    return found | {PERPLEXITY: replace(found[PERPLEXITY], label=name, axis=axis)}


def lacking(curves: pd.DataFrame, metric: str) -> tuple[int, int]:
    """(how many ε of the curve lack the metric, how many ε there are)."""
    ran = curves[curves["arm"] == "run"]
    epsilons = ran["epsilon"].nunique()
    return epsilons - ran.loc[ran["metric"] == metric, "epsilon"].nunique(), epsilons


def _drawn(metrics: Iterable[str], shows: Shows) -> dict[str, Drawn]:
    return {
        name: Drawn(figure.label, figure.written(figure.chart.axis, name), figure, figure.chart)
        for name, figure in registry.charted(metrics, shows).items()
        if figure.chart is not None
    }
