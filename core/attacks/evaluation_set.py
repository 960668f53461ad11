"""The notes that membership attacks judge, and what every attack needs of them, computed once.

Members are the notes the model was really trained on (row J7 caps them a patient), non-members those of held-out
patients. The disjoint population has two jobs, each with patients of its own: the *reference* part trains reference
models, the *threshold* part sets thresholds (row M3). Were they the same patients, a reference model would know their
notes by heart, their ratios would be too low, and a threshold "at 10 % false positives" would accuse far more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from core.attacks.registry import NotPossible, Report, Target, no_report
from core.models.build import LanguageModel
from core.models.encoding import can_be_scored, encode
from core.models.likelihood import log_likelihoods, token_moments

REFERENCE_SHARE = 0.6  # of the population's patients
MASK_DRAWS = 10  # row M2: K = 10 random masks
MOST = 12_000  # notes that are judged: of a larger cohort, as many whole patients as hold about so many
CHUNK = 256  # notes scored between two reports of progress
SPLITS = ("member", "heldout", "population")
T = TypeVar("T")
_STREAM = {"population": 11, "sample": 12}  # streams of random numbers, so that no two choices share their draws


def reference_patients(target: Target) -> frozenset[str]:
    """The population's patients whose notes reference models are trained on; the others set thresholds."""

    def draw() -> frozenset[str]:
        patients = np.array(sorted(target.corpus.notes_of("population")["patient_id"].unique()), dtype=object)
        order = np.random.default_rng([target.spec.audit.seed, _STREAM["population"]]).permutation(len(patients))
        return frozenset(patients[order[: round(REFERENCE_SHARE * len(patients))]])

    return target.once("reference patients", draw)


def judged_notes(target: Target, limit: int | None = None) -> pd.DataFrame:
    """Notes of members (those trained on), of held-out patients, and of the population's threshold part.

    With `limit`, whole patients drawn at random, each split keeping its share, until about so many notes are taken: for
    attacks too dear for all. The same limit gives the same notes. The index is that of the full table, so that what was
    computed for all notes can be picked. Raises ValueError when members or held-out patients have no notes.
    """
    notes = target.once("judged notes", lambda: _judged(target))
    if limit is None or len(notes) <= limit:
        return notes
    return target.once(("judged notes", limit), lambda: _sampled(notes, limit, target.spec.audit.seed))


def _judged(target: Target) -> pd.DataFrame:
    notes = target.corpus.judged_notes(target.spec.note_cap)
    keep = notes["split"].isin(SPLITS) & (notes["text"].str.len() > 0)
    keep &= (notes["split"] != "population") | ~notes["patient_id"].isin(reference_patients(target))
    notes = notes[keep]
    notes = notes[can_be_scored(target.lm, notes["text"].array)].reset_index(drop=True)
    for split in ("member", "heldout"):
        if not (notes["split"] == split).any():
            raise NotPossible(f"membership cannot be judged: the cohort holds no notes of the split “{split}”")
    if len(notes) > MOST:
        notes = _sampled(notes, MOST, target.spec.audit.seed).reset_index(drop=True)
    return notes.assign(tokens=[len(tokens) + 1 for tokens in encode(target.lm, notes["text"].tolist())])


def _sampled(notes: pd.DataFrame, limit: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, _STREAM["sample"]])
    kept: list[str] = []
    for split in SPLITS:
        sizes = notes.loc[notes["split"] == split, "patient_id"].value_counts().sort_index()
        drawn = sizes.iloc[rng.permutation(len(sizes))]
        share = limit * sizes.sum() / len(notes)
        kept += list(drawn.index[drawn.cumsum().shift(fill_value=0) < share])
    return notes[notes["patient_id"].isin(kept)]


def token_log_probabilities(target: Target, role: str = "target", report: Report = no_report) -> list[np.ndarray]:
    """Log p in nats of every scored token of every judged note under a model, one array a note.

    Causal: every token and the end mark. Masked: the hidden tokens of `MASK_DRAWS` random 15 % masks (row M2, eq. 2),
    the same masks for every model, so that ratios compare like with like.
    """

    def score() -> list[np.ndarray]:
        if role == "target" and target.lm.causal:
            return [found[0] for found in moments(target, report)]
        lm = target.model(role, report)
        return in_chunks(judged_notes(target)["text"].tolist(), partial(_scored, lm), report, target.spec.audit.seed)

    return target.once(("token log-probabilities", role), score)


def moments(target: Target, report: Report = no_report) -> list[np.ndarray]:
    """`core.models.likelihood.token_moments` of every judged note under a causal target, (3, tokens) each."""

    def score() -> list[np.ndarray]:
        texts = judged_notes(target)["text"].tolist()
        return in_chunks(texts, lambda part, seed: token_moments(target.lm, part), report, target.spec.audit.seed)

    return target.once("token moments", score)


def _scored(lm: LanguageModel, texts: list[str], seed: int) -> list[np.ndarray]:
    return log_likelihoods(lm, texts, mask_draws=MASK_DRAWS, seed=seed)


def in_chunks(
    texts: Sequence[str], score: Callable[[list[str], int], list[T]], report: Report, seed: int, chunk: int = CHUNK
) -> list[T]:
    """`score(texts, seed)` over chunks of the texts, with progress. A seed a chunk: no two notes share their masks."""
    found: list[T] = []
    for start in range(0, len(texts), chunk):
        report(start, len(texts))
        found += score(list(texts[start : start + chunk]), seed + start)
    report(len(texts), len(texts))
    return found


def mean_log_likelihoods(target: Target, role: str = "target", report: Report = no_report) -> np.ndarray:
    """Mean nats a scored token of every judged note, (notes,): minus the loss (causal) or the energy (masked)."""
    return np.array([one.mean() for one in token_log_probabilities(target, role, report)])
