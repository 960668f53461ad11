"""Membership by loss: was this note in the training data?

The quick audit's attack is S-BBA (Jagannatha 2021, §4.1.1): a note with a low loss was probably trained on. Min-K % and
Min-K %++ use only the least likely tokens. All scores here have the same direction: higher = more likely a member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, PUBLIC_LOSS
from core.corpus.public_text import heldout_text
from core.corpus.tables import JUDGED_SPLITS
from core.models.build import LanguageModel
from core.models.encoding import can_be_scored, token_counts
from core.models.likelihood import note_losses
from core.spec import AuditSpec

SCORE_COLUMNS = {
    "attack": "str",
    "note_id": "str",
    "admission_id": "str",
    "patient_id": "str",
    "split": "str",
    "note_type": "str",
    "tokens": "int32",
    "member": "bool",
    "score": "float64",
}
_CHUNK = 256  # notes scored between two progress reports


def loss_scores(
    lm: LanguageModel, notes: pd.DataFrame, audit: AuditSpec, *, on_progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """S-BBA scores of every note of members and held-out patients: score = −mean token loss in nats.

    Source: Jagannatha 2021, §4.1.1.

    Args:
        lm: the model under attack.
        notes: the cohort's notes table; notes of canaries and of the population are left out.
        audit: a masked model's loss is averaged over its `mask_draws` random masks.
        on_progress: called with (notes done, all notes).

    Returns:
        The scores table of docs/reference/tables.md with attack `loss`. `tokens` counts the note's tokens and its end
        mark. Notes in which a masked model knows no word are left out.

    Raises:
        ValueError: when members or held-out patients have no notes.
    """
    evaluated = notes[notes["split"].isin(JUDGED_SPLITS)]
    can = can_be_scored(lm, evaluated["text"].array)
    evaluated = (evaluated if can.all() else evaluated[can]).reset_index(drop=True)  # avoids copying a large cohort
    for split in JUDGED_SPLITS:
        if not (evaluated["split"] == split).any():
            raise ValueError(f"membership cannot be evaluated: the cohort has no notes in the split “{split}”")
    texts = evaluated["text"].array  # read in slices: a list would hold every text of a large cohort a second time
    losses = _losses(lm, texts, audit, on_progress)
    scores = evaluated[["note_id", "admission_id", "patient_id", "split", "note_type"]].assign(
        attack=LOSS, tokens=token_counts(lm, texts) + 1, member=evaluated["split"] == "member", score=-losses
    )
    return scores[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS)


def public_scores(lm: LanguageModel, audit: AuditSpec) -> pd.DataFrame:
    """−mean token loss in nats on held-out public text (`core.corpus.public_text.heldout_text`), as scores rows.

    The attack column is `public loss`, the split `public`. These rows belong to no patient and say nothing about
    membership: `perplexity_public` is computed from them.
    """
    texts = heldout_text()
    scores = pd.DataFrame(
        {
            "attack": PUBLIC_LOSS,
            "note_id": [f"public-{number:04d}" for number in range(len(texts))],
            "admission_id": None,
            "patient_id": None,
            "split": "public",
            "note_type": "public text",
            "tokens": token_counts(lm, texts) + 1,
            "member": False,
            "score": -_losses(lm, texts, audit, None),
        }
    )
    return scores[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS)


def min_k(token_logprobs: Sequence[float] | np.ndarray, k: float) -> float:
    """Min-K % (Shi et al. 2024): mean log-likelihood of the ⌊n·k⌋ least likely of n tokens, but at least one.

    Args:
        token_logprobs: (tokens,) in nats.
        k: share of the tokens, 0 < k ≤ 1.

    Returns:
        The mean in nats. Higher = more likely a member.

    Raises:
        ValueError: for a text without tokens or a share outside (0, 1].
    """
    return _lowest_mean(np.asarray(token_logprobs, dtype=float), k)


def min_k_plus_plus(token_logprobs: Sequence[float], mu: Sequence[float], sigma: Sequence[float], k: float) -> float:
    """Min-K %++ (Zhang et al. 2025): as Min-K, on (log p(token) − μ) / σ.

    `mu` and `sigma` (tokens,) are the mean and standard deviation of log p over the whole vocabulary, under the model's
    own next-token distribution at that position. A position with σ = 0 (the model is certain) gives 0.
    """
    logprobs, mean, spread = (np.asarray(values, dtype=float) for values in (token_logprobs, mu, sigma))
    if not logprobs.shape == mean.shape == spread.shape:
        raise ValueError(f"every token needs its μ and σ: got {logprobs.size} tokens, {mean.size} μ, {spread.size} σ")
    if (spread < 0).any():
        raise ValueError("a standard deviation σ cannot be negative")
    centred = logprobs - mean
    return _lowest_mean(np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0), k)


def _lowest_mean(values: np.ndarray, k: float) -> float:
    if values.size == 0:
        raise ValueError("a text without tokens has no membership score")
    if not 0 < k <= 1:
        raise ValueError(f"the share k of tokens must be above 0 and at most 1 (0.2 = 20 %), not {k}")
    count = max(1, math.floor(values.size * k + 1e-9))  # 1e-9: 10 × 0.7 is 6.999… in floating point
    return float(np.partition(values, count - 1)[:count].mean())


def _losses(
    lm: LanguageModel, texts: Sequence[str], audit: AuditSpec, on_progress: Callable[[int, int], None] | None
) -> np.ndarray:
    """Mean loss in nats per token of every text, (texts,)."""
    found = []
    for start in range(0, len(texts), _CHUNK):
        chunk = list(texts[start : start + _CHUNK])
        # Each chunk has its own seed, so no two notes share masks; all models use the same seeds, so they compare.
        found.append(note_losses(lm, chunk, mask_draws=audit.mask_draws, seed=audit.seed + start))
        if on_progress is not None:
            on_progress(start + len(chunk), len(texts))
    return np.concatenate(found)
