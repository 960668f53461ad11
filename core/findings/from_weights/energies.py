"""The energy of notes under a masked model by the number of random masks, and one token at a time.

Source: Mireshghallah 2022, eq. 2 (K random 15 % masks) and §A.3.2 (normalised energy).
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import evaluation_notes, in_chunks
from core.attacks.registry import Report, Target, no_report
from core.corpus.tables import JUDGED_SPLITS
from core.models.build import LanguageModel
from core.models.likelihood import log_likelihoods_by_draw, pseudo_log_likelihoods

NAME = "energies"
MASKS = (1, 2, 5, 10, 20)  # K; the first masks of 20, so a larger K contains the masks of a smaller one
EVERY_TOKEN = 0  # in the column `masks`: normalised energy
NOTES_A_PATIENT = 2
ROLES = ("target", "base")
_CHUNK = 32
_STREAM = 71  # random-number stream, so that no other choice shares these draws
COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "split": "str",  # member | heldout
    "tokens": "int32",
    "model": "str",  # target | base
    "masks": "int16",  # K; 0: every token in turn
    "score": "float32",  # mean log p in nats of the hidden tokens: minus the energy per hidden token
}


def notes_of_every_patient(target: Target, most: int) -> pd.DataFrame:
    """At most `most` random evaluation notes of every member and held-out patient, in the notes' order."""
    notes = evaluation_notes(target)
    notes = notes[notes["split"].isin(JUDGED_SPLITS)]
    order = np.random.default_rng([target.spec.audit.seed, _STREAM]).permutation(len(notes))
    drawn = notes.iloc[order]
    return drawn[drawn.groupby("patient_id").cumcount() < most].sort_index()


def energies(target: Target, report: Report = no_report) -> pd.DataFrame:
    """Mean log p of hidden tokens for each note, model and number of masks: the columns are `COLUMNS`."""
    notes = notes_of_every_patient(target, NOTES_A_PATIENT)
    texts, seed = notes["text"].tolist(), target.spec.audit.seed
    known = notes[["note_id", "patient_id", "split", "tokens"]]
    frames = []
    for role in ROLES:
        lm = target.model(role)
        means = in_chunks(texts, partial(means_by_masks, lm), report, seed, chunk=_CHUNK)
        alone = in_chunks(texts, partial(_one_at_a_time, lm), report, seed, chunk=_CHUNK)
        for masks, values in zip((*MASKS, EVERY_TOKEN), np.column_stack([means, alone]).T, strict=True):
            frames.append(known.assign(model=role, masks=masks, score=values))
    return pd.concat(frames, ignore_index=True)


def means_by_masks(lm: LanguageModel, texts: list[str], seed: int) -> list[np.ndarray]:
    """For each text the mean log p over the hidden tokens of its first K masks together, for each K: (len(MASKS),)."""
    found = []
    for draws in log_likelihoods_by_draw(lm, texts, mask_draws=MASKS[-1], seed=seed):
        totals, counts = (np.cumsum([take(draw) for draw in draws]) for take in (np.sum, len))
        last = np.array(MASKS) - 1
        found.append(totals[last] / counts[last])
    return found


def _one_at_a_time(lm: LanguageModel, texts: list[str], _seed: int) -> list[float]:
    return [float(found.mean()) for found in pseudo_log_likelihoods(lm, texts)]
