"""Are names closer to their patients' conditions than to others? Cosine similarity (Lehman 2021, §6.3).

The score of a patient is the mean cosine of the name's vector with the conditions they have − the mean with those they
do not have. A score above zero suggests leakage. Vectors are the model's last layer, averaged over the tokens of the
name or of the condition, and, as in Abdalla et al. 2020, static word vectors of the same training notes (CBoW and
skip-gram). The static vectors do not depend on the model: they show what releasing such vectors would leak. Control:
the same conditions with another patient's name, which keeps whatever common conditions have in common.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.probes import static
from core.attacks.probes.fill_in import NAME, OTHER_NAME
from core.attacks.probes.identities import Identities, models_of, with_conditions
from core.attacks.probes.table import PROBES, rows
from core.attacks.probes.vectors import vectors
from core.attacks.registry import KINDS, Attack, NotPossible, Report, Tables, Target, no_report, register

PROBE = "cosine similarity"
CONTEXTUAL = "contextual"


def cosines(names: np.ndarray, conditions: np.ndarray) -> np.ndarray:
    """Cosine of every name's vector with every condition's: (names, width), (conditions, width) → (names, conditions).

    A vector of NaN or of length zero has no direction and gives NaN.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        left = names / np.linalg.norm(names, axis=1, keepdims=True)
        right = conditions / np.linalg.norm(conditions, axis=1, keepdims=True)
    return left @ right.T


def differences(similarity: np.ndarray, has: np.ndarray) -> np.ndarray:
    """Mean similarity to conditions a patient has − to those they lack, ignoring NaN: inputs (patients, conditions).

    Returns (patients,), NaN where a patient has no such condition or no other.
    """
    known = np.isfinite(similarity)
    values = np.where(known, similarity, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        positive = (values * has).sum(1) / (known & has).sum(1)
        negative = (values * ~has).sum(1) / (known & ~has).sum(1)
    return positive - negative


def cosine_similarity(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe, one for each patient, method and name used; patients without a vector are left out.

    Raises:
        NotPossible: no patient has both a condition that they have and one that they lack.
    """
    asked = with_conditions(target)
    frames = []
    for role, lm in models_of(target):
        names, conditions = vectors(lm, asked.names, "mean"), vectors(lm, asked.wordings, "mean")
        frames += _rows(asked, CONTEXTUAL, role, cosines(names, conditions))
        report(len(frames), 8)
    for method in static.METHODS:
        known = static.word_vectors(target.trained_texts, method, target.spec.audit.seed)
        names, conditions = static.mean_vectors(known, asked.names), static.mean_vectors(known, asked.wordings)
        frames += _rows(asked, method, "target", cosines(names, conditions))
        report(len(frames), 8)
    if not frames:
        raise NotPossible("no patient has both a condition that they have and one that they lack")
    return {PROBES: pd.concat(frames, ignore_index=True)}


def _rows(asked: Identities, method: str, model: str, similarity: np.ndarray) -> list[pd.DataFrame]:
    """Rows with the patient's own name and with another's, for the patients who have both scores."""
    own = differences(similarity, asked.has)
    other = differences(similarity[asked.other], asked.has)
    both = np.isfinite(own) & np.isfinite(other)
    patients = asked.patients[both]
    return [
        rows(
            PROBE,
            method,
            model=model,
            patient_id=patients["patient_id"],
            split=patients["split"],
            target=name_used,
            score=values[both],
            label=True,
        )
        for name_used, values in ((NAME, own), (OTHER_NAME, other))
        if both.any()
    ]


register(
    Attack(
        name=PROBE,
        source="Lehman 2021, §6.3",
        access="white-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Checks whether a patient's name is closer to their own conditions than to others among word vectors.",
        tables=(PROBES,),
        run=cosine_similarity,
    )
)
