"""The most useful private model that was measured: of which size of hospital, at which ε, and how much it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.sizes import gain_kept, notes_text
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import points
from core.evaluation.sweep.waking import exceeds
from core.evaluation.wording import interval_text, percent

LARGEST = 10.0  # ε beyond which a promise says little
KIND_NAMES = {"gpt2": "GPT-2", "distilbert": "DistilBERT", "bert": "BERT"}
NAMES = "full_name_patients"


@dataclass(frozen=True)
class Best:
    """A measured (size, ε): the sweep, its training notes, ε, and the share of the gain kept over the runs' seeds."""

    sweep: Sweep
    notes: int
    epsilon: float
    gain: Interval

    def sentence(self) -> str:
        """How much it keeps, and that names did not leak, in one sentence."""
        kind = KIND_NAMES[self.sweep.model.kind]
        limits = "" if math.isnan(self.gain.low) else f" ({interval_text(self.gain.low, self.gain.high)})"
        return (
            f"The most useful private model measured here is {kind} with {notes_text(self.notes)} at ε = "
            f"{self.epsilon:g} per {self.sweep.privacy.unit}: it keeps {percent(self.gain.value)} of what training "
            f"without privacy gains{limits}, and writes full names no more often than those of held-out patients."
        )


def best_private(sweeps: Iterable[Sweep], metrics: pd.DataFrame, largest: float = LARGEST) -> Best | None:
    """The point that keeps most of the gain, among ε ≤ `largest` at which full names do not exceed their control.

    Args:
        sweeps: the curves to choose from; those without private or plain runs are passed over.
        metrics: metrics of all their runs with their settings.
        largest: the largest ε to consider.
    """
    found: list[Best] = []
    for sweep in sweeps:
        if sweep.training is None or sweep.plain_training is None:
            continue
        own = metrics[metrics["run_id"].isin(sweep.run_ids)]
        curve = points(own[own["metric"] == NAMES])
        for epsilon in sorted(set(own["epsilon"].dropna())):
            gain = gain_kept(own, float(epsilon)) if 0 < epsilon <= largest else None
            if gain is not None and not exceeds(curve, NAMES, float(epsilon)):
                found.append(Best(sweep, sweep.corpus.training_notes, float(epsilon), gain))
    return max(found, key=lambda one: one.gain.value, default=None)
