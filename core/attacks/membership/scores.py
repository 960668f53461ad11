"""Membership by loss: was this note among those the model was trained on?

The quick audit's attack is S-BBA (row J4): a note with a low loss was probably trained on. Min-K % and Min-K %++ look
at the least likely tokens only. Every score here points the same way: higher = more likely a member.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, PUBLIC_LOSS
from core.corpus.public_text import heldout_text
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
_CHUNK = 256  # notes scored between two reports of progress


def loss_scores(
    lm: LanguageModel, notes: pd.DataFrame, audit: AuditSpec, *, on_progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """Scores of S-BBA (row J4) for every note of a member or of a held-out patient: score = −mean token loss in nats.

    `notes` is the cohort's notes table; notes of canaries and of the population are left out. Returns the scores table
    of docs/reference/tables.md with attack `loss`; `tokens` counts the note's tokens and the mark that ends it. A
    masked model's loss is averaged over `audit.mask_draws` random masks; notes of which it knows no word are left out.
    `on_progress(done, total)` counts notes.
    Raises ValueError when members or held-out patients have no notes.
    """
    judged = notes[notes["split"].isin(["member", "heldout"])]
    can = can_be_scored(lm, judged["text"].array)
    judged = (judged if can.all() else judged[can]).reset_index(drop=True)  # of a large cohort no needless copy
    for split in ("member", "heldout"):
        if not (judged["split"] == split).any():
            raise ValueError(f"membership cannot be judged: the cohort holds no notes of the split “{split}”")
    texts = judged["text"].array  # taken in slices: a list would hold every text of a large cohort once more
    losses = _losses(lm, texts, audit, on_progress)
    scores = judged[["note_id", "admission_id", "patient_id", "split", "note_type"]].assign(
        attack=LOSS, tokens=token_counts(lm, texts) + 1, member=judged["split"] == "member", score=-losses
    )
    return scores[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS)


def public_scores(lm: LanguageModel, audit: AuditSpec) -> pd.DataFrame:
    """−mean token loss on held-out public text (`core.corpus.public_text.heldout_text`), as rows of the scores table.

    The attack column says `public loss`, the split `public`; these rows belong to no patient and judge no membership:
    they are what `perplexity_public` is computed from.
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


def min_k(token_logprobs: Sequence[float], k: float) -> float:
    """Min-K % (Shi et al. 2024): mean log-likelihood of the share `k` of tokens that are least likely, at least one.

    `token_logprobs` (tokens,) in nats; 0 < k ≤ 1. Higher = more likely a member. ⌊n·k⌋ tokens are taken, never none.
    Raises ValueError for a text without tokens or a share outside (0, 1].
    """
    return _lowest_mean(np.asarray(token_logprobs, dtype=float), k)


def min_k_plus_plus(token_logprobs: Sequence[float], mu: Sequence[float], sigma: Sequence[float], k: float) -> float:
    """Min-K %++ (Zhang et al. 2025): as Min-K, on (log p(token) − μ) / σ.

    μ and σ (tokens,) are mean and standard deviation of log p over the whole vocabulary under the model's own
    next-token distribution at that place. A place where σ = 0 (the model is certain) gives 0: no surprise is possible.
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
        raise ValueError(f"the share k of tokens is above 0 and at most 1 (0.2 = 20 %), not {k}")
    count = max(1, math.floor(values.size * k + 1e-9))  # 1e-9: 10 × 0.7 is 6.999… in floating point
    return float(np.partition(values, count - 1)[:count].mean())


def _losses(
    lm: LanguageModel, texts: Sequence[str], audit: AuditSpec, on_progress: Callable[[int, int], None] | None
) -> np.ndarray:
    """Mean nats a token of every text, (texts,)."""
    found = []
    for start in range(0, len(texts), _CHUNK):
        chunk = list(texts[start : start + _CHUNK])
        # a seed a chunk, so that no two notes share their masks; the same for every model, so that models compare
        found.append(note_losses(lm, chunk, mask_draws=audit.mask_draws, seed=audit.seed + start))
        if on_progress is not None:
            on_progress(start + len(chunk), len(texts))
    return np.concatenate(found)
