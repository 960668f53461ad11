"""The notes that membership attacks are evaluated on, and the model outputs that several attacks share.

Members are the notes the model was trained on (at most `note_cap` a patient; Jagannatha 2021, §5.2, keeps 50).
Non-members are the notes of held-out patients. The disjoint population serves two purposes, each with its own patients:
the *reference* part trains reference models, and the *threshold* part sets thresholds (Mireshghallah 2022, §2.4). If
both used the same patients, a reference model would have memorised their notes, their ratios would be too low, and a
threshold "at 10 % false positives" would flag far more non-members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from core.attacks.registry import NotPossible, Report, Target, no_report
from core.corpus.tables import JUDGED_SPLITS
from core.models.build import LanguageModel
from core.models.encoding import can_be_scored, encode
from core.models.likelihood import log_likelihoods, note_losses, token_moments

REFERENCE_SHARE = 0.6  # of the population's patients
MASK_DRAWS = 10  # K random masks (Mireshghallah 2022, §2.3)
MOST = 12_000  # notes evaluated; a larger cohort is sampled by whole patients until they hold about this many
CHUNK = 256  # notes scored between two progress reports
SPLITS = ("member", "heldout", "population")
T = TypeVar("T")
_STREAM = {"population": 11, "sample": 12}  # random-number streams, so that no two choices share their draws


def reference_patients(target: Target) -> frozenset[str]:
    """Ids of the population's patients whose notes train reference models; the other patients set thresholds."""

    def draw() -> frozenset[str]:
        patients = np.array(sorted(target.corpus.notes_of("population")["patient_id"].unique()), dtype=object)
        order = np.random.default_rng([target.spec.audit.seed, _STREAM["population"]]).permutation(len(patients))
        return frozenset(patients[order[: round(REFERENCE_SHARE * len(patients))]])

    return target.once("reference patients", draw)


def evaluation_notes(target: Target, limit: int | None = None) -> pd.DataFrame:
    """Notes of members (those trained on), of held-out patients, and of the population's threshold part.

    Args:
        target: the model under attack and its cohort.
        limit: about how many notes to take, for attacks too expensive to run on all. Whole patients are drawn at
            random and each split keeps its share. The same limit always gives the same notes.

    Returns:
        The notes, with the index of the full table, so that values computed for all notes can be selected by it.

    Raises:
        ValueError: when members or held-out patients have no notes.
    """
    notes = target.once("evaluation notes", lambda: _all_notes(target))
    if limit is None or len(notes) <= limit:
        return notes
    return target.once(("evaluation notes", limit), lambda: _sampled(notes, limit, target.spec.audit.seed))


def _all_notes(target: Target) -> pd.DataFrame:
    notes = target.corpus.evaluation_notes(target.spec.note_cap, target.spec.audit)
    keep = notes["split"].isin(SPLITS) & (notes["text"].str.len() > 0)
    keep &= (notes["split"] != "population") | ~notes["patient_id"].isin(reference_patients(target))
    notes = notes[keep]
    notes = notes[can_be_scored(target.lm, notes["text"].array)].reset_index(drop=True)
    for split in JUDGED_SPLITS:
        if not (notes["split"] == split).any():
            raise NotPossible(f"membership cannot be evaluated: the cohort has no notes in the split “{split}”")
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
    """Log p in nats of every scored token of every evaluation note, one array per note.

    Causal models score every token and the end mark. Masked models score the hidden tokens of `MASK_DRAWS` random 15 %
    masks (Mireshghallah 2022, eq. 2). Every model gets the same masks, so that ratios compare like with like.
    """

    def score() -> list[np.ndarray]:
        if role == "target" and target.lm.causal:
            return [found[0] for found in moments(target, report)]
        lm = target.model(role, report)
        return in_chunks(
            evaluation_notes(target)["text"].tolist(), partial(_scored, lm), report, target.spec.audit.seed
        )

    return target.once(("token log-probabilities", role), score)


def moments(target: Target, report: Report = no_report) -> list[np.ndarray]:
    """`core.models.likelihood.token_moments` of every evaluation note under a causal target, (3, tokens) each."""

    def score() -> list[np.ndarray]:
        texts = evaluation_notes(target)["text"].tolist()
        return in_chunks(texts, lambda part, seed: token_moments(target.lm, part), report, target.spec.audit.seed)

    return target.once("token moments", score)


def _scored(lm: LanguageModel, texts: list[str], seed: int) -> list[np.ndarray]:
    return log_likelihoods(lm, texts, mask_draws=MASK_DRAWS, seed=seed)


def in_chunks(
    texts: Sequence[str], score: Callable[[list[str], int], list[T]], report: Report, seed: int, chunk: int = CHUNK
) -> list[T]:
    """`score(texts, seed)` over chunks of the texts, with progress. Each chunk has its own seed, so its own masks."""
    found: list[T] = []
    for start in range(0, len(texts), chunk):
        report(start, len(texts))
        found += score(list(texts[start : start + chunk]), seed + start)
    report(len(texts), len(texts))
    return found


def losses_under(lm: LanguageModel, texts: Sequence[str], report: Report, seed: int) -> np.ndarray:
    """Mean loss in nats per scored token of each text, (texts,), with as many masks as the evaluation notes get."""

    def score(part: list[str], part_seed: int) -> list[float]:
        return list(note_losses(lm, part, mask_draws=MASK_DRAWS, seed=part_seed))

    return np.array(in_chunks(texts, score, report, seed))


def mean_log_likelihoods_under(lm: LanguageModel, target: Target) -> np.ndarray:
    """The same as `mean_log_likelihoods` under a model that is not one of the target's."""
    texts = evaluation_notes(target)["text"].tolist()
    found = in_chunks(texts, partial(_scored, lm), no_report, target.spec.audit.seed)
    return np.array([one.mean() for one in found])


def mean_log_likelihoods(target: Target, role: str = "target", report: Report = no_report) -> np.ndarray:
    """Mean log p in nats per scored token of every evaluation note, (notes,): −loss (causal) or −energy (masked)."""
    return np.array([one.mean() for one in token_log_probabilities(target, role, report)])
