"""A part of the reference instead of all of it: scores of the loss less a weight times the reference's.

The ratio subtracts the reference's mean log-likelihood at full weight (Mireshghallah 2022, eq. 1). A reference whose
scale is too wide takes more variation in than out. The weight is either given or estimated from notes of patients whom
neither model read, which every attacker who has a reference of the same hospital can have.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, RATIO
from core.evaluation.stats.bootstrap import Interval
from core.findings.measures.attacks import Side, difference
from core.findings.stored_runs import Missing, StoredRuns
from core.spec import RunSpec


def reference_scores(runs: StoredRuns, spec: RunSpec, attack: str) -> pd.Series:
    """Mean log p of each note under the reference of a ratio attack, by `note_id`: the loss's score − the ratio's."""
    loss, ratio = (runs.scores(spec, name).set_index("note_id")["score"].astype(float) for name in (LOSS, attack))
    return (loss - ratio).dropna()


def less_reference(loss: pd.DataFrame, reference: pd.Series, weight: float) -> pd.DataFrame:
    """The loss attack's rows with the score − `weight` · the reference's; notes that it did not score are left out."""
    subtracted = loss.assign(score=loss["score"].astype(float) - weight * loss["note_id"].map(reference))
    return subtracted[subtracted["score"].notna()]


def fitted_weight(loss: pd.DataFrame, reference: pd.Series) -> float:
    """Slope of the loss's score on the reference's, by least squares over the population's notes.

    These are notes of the patients that set thresholds: no model read them, and no member is among them.

    Raises:
        Missing: Fewer than two notes of the population were scored by both, or the reference scores all alike.
    """
    rows = loss[loss["split"] == "population"]
    both = pd.DataFrame({"loss": rows["score"].astype(float), "reference": rows["note_id"].map(reference)}).dropna()
    if both["reference"].nunique() < 2:
        raise Missing("the population's notes that both models scored are too few for a weight")
    return float(np.polyfit(both["reference"], both["loss"], 1)[0])


def weighted_minus_loss(
    runs: StoredRuns, spec: RunSpec, attack: str, weight: float | None, *, audited: RunSpec | None = None
) -> Interval:
    """AUC of the loss less a part of the reference − of the loss, the same notes; patients resampled for both.

    Without a `weight` it is estimated once (`fitted_weight`) and then fixed, as an attacker has it. The reference is
    that of the run's full audit, or of the run `audited` (`loss_with_population`).
    """
    loss, subtracted = weighted_sides(runs, spec, attack, weight, audited=audited)
    return difference(Side(subtracted, attack), Side(loss, LOSS))


def weighted_sides(
    runs: StoredRuns, spec: RunSpec, attack: str, weight: float | None, *, audited: RunSpec | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows of the loss, and of the loss less a part of the reference; without a `weight` with the estimated one."""
    loss = runs.scores(spec, LOSS) if audited is None else loss_with_population(runs, spec, audited)
    reference = reference_scores(runs, spec if audited is None else audited, attack)
    return loss, less_reference(loss, reference, fitted_weight(loss, reference) if weight is None else weight)


def ratio_scores_with_reference_of(runs: StoredRuns, spec: RunSpec, audited: RunSpec, attack: str) -> pd.DataFrame:
    """Scores of the ratio on a run without a full audit, with the reference of another run's audit.

    Both runs are about the same hospital. The loss is the quick audit's.
    """
    return less_reference(runs.quick_scores(spec), reference_scores(runs, audited, attack), 1.0)


def ratio_with_reference_of(runs: StoredRuns, spec: RunSpec, audited: RunSpec, attack: str) -> Interval:
    """AUC of `ratio_scores_with_reference_of` − of the quick audit's loss."""
    ratio = ratio_scores_with_reference_of(runs, spec, audited, attack)
    return difference(Side(ratio, attack), Side(runs.quick_scores(spec), LOSS))


def loss_with_population(runs: StoredRuns, spec: RunSpec, audited: RunSpec) -> pd.DataFrame:
    """The loss's scores on a run that was attacked by the ratio to the public model alone, with the population's notes.

    The quick audit's loss leaves these out. The ratio's scores are the loss's less the public model's, which the full
    audit of another run about the same hospital has. If the attack repeated the run's training to get its weights back,
    the two losses differ by rounding that adds up over the steps.
    """
    return less_reference(runs.scores(spec, RATIO), reference_scores(runs, audited, RATIO), -1.0)
