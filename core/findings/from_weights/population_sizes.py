"""How held-out patients' notes are predicted by reference models of few and of many patients of the population.

Like the reference of the attack “ratio population”, but trained on the notes of `SIZES` patients, the smaller ones
among the larger. No membership is tested: the model under attack has read none of these notes.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import evaluation_notes, losses_under, reference_patients
from core.attacks.membership.reference import reference_training
from core.attacks.registry import NotPossible, Report, Target, no_report
from core.models.build import LanguageModel
from core.spec import PrivacySpec

NAME = "population sizes"
SIZES = (60, 240, 400)  # patients; the attack's own reference has 240 of the 400 of `classroom-12k`
COLUMNS = {
    "patient_id": "str",  # held out
    "patients": "int16",  # that the reference was trained on, one of SIZES
    "score": "float32",  # mean over the patient's notes of the reference's mean log p in nats a token
}


def population_sizes(target: Target, report: Report = no_report) -> pd.DataFrame:
    """Mean log p of each held-out patient's notes under references of `SIZES` patients: see `COLUMNS`.

    Raises:
        NotPossible: when the population has fewer patients than the largest reference.
    """
    everyone = target.corpus.notes_of("population")
    order = nested(everyone["patient_id"], reference_patients(target), target.spec.audit.seed)
    if len(order) < max(SIZES):
        raise NotPossible(f"this table needs a population of {max(SIZES)} patients with notes")
    judged = evaluation_notes(target)
    judged = judged[judged["split"] == "heldout"]
    frames = []
    for size in SIZES:
        lm = _trained(target, everyone[everyone["patient_id"].isin(order[:size])], report)
        scores = -losses_under(lm, judged["text"].tolist(), report, target.spec.audit.seed)
        means = pd.Series(scores).groupby(judged["patient_id"].to_numpy()).mean()
        frames.append(pd.DataFrame({"patient_id": means.index, "patients": size, "score": means.to_numpy()}))
    return pd.concat(frames, ignore_index=True)


def nested(patients: pd.Series, first: frozenset[str], seed: int) -> list[str]:
    """All patients in random order, those of the attack's own reference before the others."""
    rng = np.random.default_rng([seed, 17])
    parts = (sorted(set(patients) & first), sorted(set(patients) - first))
    return [str(one) for part in parts for one in rng.permutation(np.array(part, dtype=object))]


def _trained(target: Target, notes: pd.DataFrame, report: Report) -> LanguageModel:
    from core.training.trainer import train

    lm = target.public()
    training = reference_training(target, notes)
    train(lm, notes.reset_index(drop=True), training, PrivacySpec(), on_step=lambda one: report(one.step, one.steps))
    return lm
