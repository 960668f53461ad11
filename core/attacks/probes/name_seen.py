"""Was this name in the training data (Lehman 2021, §6.4)? A logistic regression on the [CLS] vector of a name alone.

The inputs are “[CLS] First Last [SEP]” of members and of held-out patients; half of each fit the regression, the other
half evaluate it. The control is the same regression on the public model's vectors: names are drawn at random here, so
a model that read none of them cannot tell them apart.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.probes.identities import identities, models_of
from core.attacks.probes.table import PROBES, rows
from core.attacks.probes.vectors import vectors
from core.attacks.registry import KINDS, Attack, NotPossible, Report, Tables, Target, no_report, register

PROBE = "name seen"
METHOD = "logistic regression"
_STREAM = 48


def train_half(labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random half of the true and a random half of the false labels, the smaller half if odd: bool (n,)."""
    half = np.zeros(len(labels), dtype=bool)
    for value in (True, False):
        places = rng.permutation(np.flatnonzero(labels == value))
        half[places[: len(places) // 2]] = True
    return half


def learning_half(target: Target, seen: np.ndarray) -> np.ndarray:
    """The patients that the regression is fitted on, by which of them were seen: bool (n,)."""
    return train_half(seen, np.random.default_rng([target.spec.audit.seed, _STREAM]))


def regression_scores(features: np.ndarray, labels: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Log-odds of “seen” for every row outside `train`: features (n, width), labels and train bool (n,).

    Features are standardised by the training half.

    Raises:
        NotPossible: when the training half lacks one of the two labels.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if len(set(labels[train])) < 2:
        raise NotPossible("the name-seen probe learns from members and non-members, and its training half lacks one")
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    return probe.fit(features[train], labels[train]).decision_function(features[~train])


def name_seen(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe for the half that was not fitted on; `label` is true for members."""
    asked = identities(target)
    seen = asked.members
    train = learning_half(target, seen)
    evaluated = asked.patients[~train]
    frames = []
    for done, (role, lm) in enumerate(models_of(target)):
        scores = regression_scores(vectors(lm, asked.names, "cls"), seen, train)
        frames.append(
            rows(
                PROBE,
                METHOD,
                model=role,
                patient_id=evaluated["patient_id"],
                split=evaluated["split"],
                target="name",
                score=scores,
                label=seen[~train],
            )
        )
        report(done + 1, 2)
    return {PROBES: pd.concat(frames, ignore_index=True)}


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.4",
        access="white-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Guesses from the model's vector of a name alone whether that name was in the training data.",
        tables=(PROBES,),
        run=name_seen,
    )
)
