"""White-box attacks with other features than the battery's: gradients under one mask, and attention in detail.

The battery averages a masked model's gradients over ten random 15 % masks, as many as its loss, and describes attention
by four numbers a head. The attacks here are fitted and judged as those of the battery (Jagannatha 2021, §4.1.2 and
§5.1).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import evaluation_notes
from core.attacks.membership.attacks import GRADIENT_NOTES, fitted_scores
from core.attacks.membership.decision import ATTENTION, GRADIENTS
from core.attacks.membership.white_box import SMALLEST, attention_features, gradient_features
from core.attacks.registry import Report, Target, no_report

NAME = "white box"
ONE_MASK, DETAILED, BESIDE_PUBLIC = "one mask", "in detail", "in detail, beside the public model's"
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "split": "str",  # member | heldout | population
    "tokens": "int32",
    "attack": "str",  # gradient norms (masked models alone) | attention
    "way": "str",  # of the attack: what its features are
    "score": "float32",  # log-odds of membership
}


def white_box(target: Target, report: Report = no_report) -> pd.DataFrame:
    """Log-odds of each judged note by attack and way, from the first of five fits: the columns are `COLUMNS`."""
    return pd.concat(_attacks(target, report), ignore_index=True)


def _attacks(target: Target, report: Report) -> Iterator[pd.DataFrame]:
    seed = target.spec.audit.seed
    if not target.lm.causal:
        notes = evaluation_notes(target, GRADIENT_NOTES)
        squares = gradient_features(target.lm, notes["text"].tolist(), mask_draws=1, seed=seed, report=report)
        features = np.log(np.maximum(squares, SMALLEST))
        yield fitted_scores(GRADIENTS, notes, features, seed)["scores"].assign(way=ONE_MASK)
    notes = evaluation_notes(target)
    own, public = (
        attention_features(target.model(role), notes["text"].tolist(), report, quantiles=QUANTILES)
        for role in ("target", "base")
    )
    for way, features in ((DETAILED, own), (BESIDE_PUBLIC, np.hstack([own, own - public]))):
        yield fitted_scores(ATTENTION, notes, features, seed)["scores"].assign(way=way)
