"""The most useful private model that was measured: of which size of hospital, at which ε, and how much it keeps."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from core.common.formatting import setting_text
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.sizes import GAINED_IN, gain_kept, notes_text
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import points
from core.evaluation.wording import Verdict, interval_text, percent, verdict
from core.spec import ABSTRACTS, CLINICAL
from core.spec.model_names import MODEL_NAMES

LARGEST = 10.0  # ε beyond which a promise says little
NAMES = "full_name_patients"
LOSS_AUCS = {"patients": "auc_loss_patients", "notes": "auc_loss"}  # older runs lack the first, which reveals more
_HAS_READ = {CLINICAL: ", which has read public clinical text", ABSTRACTS: ", which has read abstracts and leaflets"}


@dataclass(frozen=True)
class Written:
    """How many patients' full names were written, of how many: trained on and held out, over all runs together."""

    verdict: Verdict
    members: int
    of_members: int
    heldout: int
    of_heldout: int
    runs: int

    def sentence(self) -> str:
        """The second half of a sentence about a model."""
        together = f", in {self.runs} runs together" if self.runs > 1 else ""
        if not self.members and not self.heldout:
            return (
                f"it wrote no patient's full name (0 of {self.of_members:,} trained on, 0 of {self.of_heldout:,} held "
                f"out{together})"
            )
        counts = f"({self.members:,} of {self.of_members:,} against {self.heldout:,} of {self.of_heldout:,}{together})"
        if self.verdict == "below its control":
            return f"it names members in full less often than held-out patients {counts}"
        return f"its counts do not show whether it writes full names more often than by chance {counts}"


@dataclass(frozen=True)
class Best:
    """A measured (size, ε): the sweep, its training notes, ε, the share of the gain kept over seeds, and the names.

    `run_ids` are its runs; `loss` is the mean AUC of the loss attack on them, with what it tells apart (patients or
    notes), None if it was not measured.
    """

    sweep: Sweep
    notes: int
    epsilon: float
    gain: Interval
    names: Written
    run_ids: tuple[str, ...]
    loss: tuple[str, Interval] | None

    @property
    def base(self) -> str:
        """From which model its gain is counted: over one that has read less, the same model keeps a larger share."""
        return f"the public model that both start from{_HAS_READ.get(self.sweep.model.base, '')}"

    def sentence(self) -> str:
        """How much it keeps, and how many names it wrote beside the control, in one sentence."""
        kind = MODEL_NAMES[self.sweep.model.kind]
        limits = "" if math.isnan(self.gain.low) else f" ({interval_text(self.gain.low, self.gain.high)})"
        return (
            f"Of the models with ε ≤ {setting_text(LARGEST)} and no sign of more full names than by chance, the most "
            f"useful one measured here is {kind} with {notes_text(self.notes)} at ε = "
            f"{setting_text(self.epsilon)} per {self.sweep.privacy.unit}: it keeps {percent(self.gain.value)} of what "
            f"training without privacy gains over {self.base}{limits}, and {self.names.sentence()}."
        )

    def attacked(self, others: int) -> str:
        """Which membership attacks its choice does not rest on, in a sentence: names are only one kind of leak.

        Args:
            others: how many membership attacks were run on it, the loss attack not counted.
        """
        measured = ""
        if self.loss is not None:
            things, auc = self.loss
            ends = interval_text(auc.low, auc.high, "{:.2f}".format)
            measured = f" (AUC on {things} {auc.value:.2f}, {ends}; 0.5 is random guessing)"
        if not others:
            return (
                f"Of the membership attacks, only the loss attack was run on it{measured}; a full audit may find a "
                "stronger one."
            )
        more = "1 other membership attack was" if others == 1 else f"{others} other membership attacks were"
        return f"The choice looks at names alone. The loss attack was run on it{measured}, and {more}: see Membership."


def best_private(sweeps: Iterable[Sweep], metrics: pd.DataFrame) -> Best | None:
    """The point that keeps most of the gain, among ε ≤ LARGEST at which full names do not exceed their control.

    A point at which names or their control have no interval is passed over: nothing can be said of it.

    Args:
        sweeps: the curves to choose from; those without private or plain runs are passed over.
        metrics: metrics of all their runs with their settings.
    """
    read = metrics[metrics["metric"].isin((GAINED_IN, NAMES, *LOSS_AUCS.values()))]
    keeping: list[tuple[Interval, Sweep, float, pd.DataFrame]] = []
    for sweep in sweeps:
        if sweep.training is None or sweep.plain_training is None:
            continue
        own = read[read["run_id"].isin(sweep.run_ids)]
        perplexities = own[own["metric"] == GAINED_IN]
        for epsilon in sorted(set(own["epsilon"].dropna())):
            gain = gain_kept(perplexities, float(epsilon)) if 0 < epsilon <= LARGEST else None
            if gain is not None:
                keeping.append((gain, sweep, float(epsilon), own))
    for gain, sweep, epsilon, own in sorted(keeping, key=lambda one: -one[0].value):  # names only until one will do
        here = own[own["epsilon"] == epsilon]
        names = _written(here[here["metric"] == NAMES])
        if names is not None and names.verdict != "exceeds its control":
            return Best(
                sweep,
                sweep.corpus.training_notes,
                epsilon,
                gain,
                names,
                run_ids=tuple(sorted(set(here["run_id"]))),
                loss=_loss(here[here["arm"] == "run"]),
            )
    return None


def _loss(rows: pd.DataFrame) -> tuple[str, Interval] | None:
    """The mean AUC of the loss attack over the seeds of one ε, by patient if that was measured, else by note."""
    for things, metric in LOSS_AUCS.items():
        curve = points(rows[rows["metric"] == metric])
        if len(curve):
            return things, Interval.of(curve.iloc[0])
    return None


def _written(names: pd.DataFrame) -> Written | None:
    """The full names that the runs of one ε wrote, and the verdict; None if an interval is missing."""
    curve = points(names).set_index("arm")
    if not {"run", "heldout"} <= set(curve.index):
        return None
    ends = [float(curve.loc[arm, end]) for arm in ("run", "heldout") for end in ("low", "high")]
    if any(math.isnan(end) for end in ends):
        return None
    of_arm = names.dropna(subset="value").assign(found=(names["value"] * names["n"]).round()).groupby("arm")
    found, of = of_arm["found"].sum(), of_arm["n"].sum()
    return Written(
        verdict(*ends),
        members=int(found["run"]),
        of_members=int(of["run"]),
        heldout=int(found["heldout"]),
        of_heldout=int(of["heldout"]),
        runs=int(of_arm.size()["run"]),
    )
