"""Are names nearer to their patients' conditions (row L4)? Cosine similarity, conditions they have minus those not.

score of a patient = mean cosine of the name's vector with the conditions the patient has − mean with those they have
not (paper §6.3); above zero suggests leakage. Vectors: the model's last layer, averaged over the tokens of the name or
of the condition; and, as in Abdalla et al. 2020, static word vectors of the same training notes (CBoW and skip-gram),
which say what releasing such vectors would give away and do not depend on the model. Control: the same conditions with
another patient's name, which keeps whatever common conditions have in common.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.probes import static
from core.attacks.probes.fill_in import NAME, OTHER_NAME
from core.attacks.probes.identities import Identities, models_of, with_conditions
from core.attacks.probes.table import PROBES, rows
from core.attacks.probes.vectors import vectors
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, no_report, register

PROBE = "cosine similarity"
CONTEXTUAL = "contextual"


def cosines(names: np.ndarray, conditions: np.ndarray) -> np.ndarray:
    """Cosine of every name's vector with every condition's: (names, width), (conditions, width) → (names, conditions).

    A vector of NaN, or without length, has no direction: NaN.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        left = names / np.linalg.norm(names, axis=1, keepdims=True)
        right = conditions / np.linalg.norm(conditions, axis=1, keepdims=True)
    return left @ right.T


def differences(similarity: np.ndarray, has: np.ndarray) -> np.ndarray:
    """Mean similarity to conditions a patient has − to those not, NaN entries left out: both (patients, conditions).

    NaN where a patient has no such condition, or no other.
    """
    known = np.isfinite(similarity)
    values = np.where(known, similarity, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        positive = (values * has).sum(1) / (known & has).sum(1)
        negative = (values * ~has).sum(1) / (known & ~has).sum(1)
    return positive - negative


def cosine_similarity(target: Target, report: Report = no_report) -> Tables:
    """Rows of the probe, one a patient, method and whose name; patients without a vector are left out."""
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
    return {PROBES: pd.concat(frames, ignore_index=True)}


def _rows(asked: Identities, method: str, model: str, similarity: np.ndarray) -> list[pd.DataFrame]:
    """Rows with one's own name and with another's, for the patients who have both figures."""
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
            target=whose,
            score=values[both],
            label=True,
        )
        for whose, values in ((NAME, own), (OTHER_NAME, other))
        if both.any()
    ]


register(
    Attack(
        name=PROBE,
        row="L4",
        access="white-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Look whether a patient's name lies nearer to their own diseases than to others among word vectors.",
        tables=(PROBES,),
        run=cosine_similarity,
    )
)
