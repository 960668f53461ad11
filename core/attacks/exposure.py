"""Exposure of planted secrets: how far up a model ranks a canary among all that it might have been (row H5).

Carlini et al. 2019, definition 6: exposure = log2 |R| − log2 rank, in bits, where R is the space the secret was drawn
from and rank 1 is the likeliest member of R. A model that never saw the canary gives it a uniformly drawn rank, hence
about 1/ln 2 ≈ 1.44 bits on average; the most is log2 |R|, for a canary that beats everything else.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch

from core.corpus.canaries import reference_texts
from core.models.build import LanguageModel
from core.models.likelihood import BATCH_TOKENS, token_log_likelihoods
from core.models.masking import masked_logits
from core.models.tokenizer import encode_samples

CANARY_COLUMNS = {
    "canary_id": "str",
    "form": "str",
    "insertions": "int32",
    "inserted": "bool",
    "loss": "float64",
    "rank": "Int64",
    "reference_size": "Int64",
    "exposure": "float64",
}


def exposure(canary_losses: np.ndarray, reference_losses: np.ndarray) -> np.ndarray:
    """Exposure in bits of each canary: log2 |R| − log2 rank (Carlini et al. 2019), shape (canaries,).

    `canary_losses` (canaries,) in nats. `reference_losses` (canaries, references), or (references,) when all canaries
    share them, are the losses of the *other* members of R: the canary itself is not among them, or it would be counted
    twice. So |R| = references + 1 and rank = 1 + the number of references with a loss at most the canary's: a tie ranks
    the reference first, which never makes a model look leakier than it is.
    Raises ValueError when there are no references, shapes do not fit or a loss is not a number.
    """
    canaries = np.atleast_1d(np.asarray(canary_losses, dtype=float))
    ranks, size = _ranks(canaries, np.asarray(reference_losses, dtype=float))
    return np.log2(size) - np.log2(ranks)


def _ranks(canaries: np.ndarray, references: np.ndarray) -> tuple[np.ndarray, int]:
    """Rank of each canary, (canaries,), and |R|."""
    if references.ndim == 1:
        references = np.broadcast_to(references, (len(canaries), len(references)))
    if references.ndim != 2 or len(references) != len(canaries) or references.shape[1] == 0:
        raise ValueError(
            f"exposure ranks each canary among other secrets: {len(canaries)} canaries came with reference losses of "
            f"shape {references.shape}; it must be (canaries, references) or (references,), with at least one reference"
        )
    if np.isnan(canaries).any() or np.isnan(references).any():
        raise ValueError("a loss is not a number, so the canary cannot be ranked")
    return 1 + (references <= canaries[:, None]).sum(axis=1), references.shape[1] + 1


def canary_exposures(
    lm: LanguageModel, canaries: pd.DataFrame, *, on_progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """The canaries table of docs/ARCHITECTURE.md: every canary ranked by enumeration among all members of its space.

    `loss` is in nats: of the whole text, end mark included, for a causal model; the pseudo-likelihood of the secret for
    a masked one (see `secret_losses`). Whole canary patients (form `patient`) have no enumerable secret: their loss,
    rank and exposure are null. `on_progress(done, total)` counts canaries.
    """
    rows = []
    for number, row in enumerate(canaries.to_dict("records"), start=1):
        found = (np.nan, None, None, np.nan) if row["form"] == "patient" else _expose(lm, row)
        rows.append((row["canary_id"], row["form"], row["insertions"], row["inserted"], *found))
        if on_progress is not None:
            on_progress(number, len(canaries))
    return pd.DataFrame(rows, columns=list(CANARY_COLUMNS)).astype(CANARY_COLUMNS)


def _expose(lm: LanguageModel, row: dict) -> tuple[float, int, int, float]:
    """Loss, rank, |R| and exposure of one canary."""
    texts = reference_texts(row)
    own = texts.index(row["text"])
    losses = secret_losses(lm, texts)
    others = np.delete(losses, own)
    ranks, size = _ranks(losses[[own]], others)
    return float(losses[own]), int(ranks[0]), size, float(np.log2(size) - np.log2(ranks[0]))


def secret_losses(lm: LanguageModel, texts: list[str]) -> np.ndarray:
    """Loss in nats, (texts,), of texts that differ in their secret only.

    Causal: −log p of the whole text. Masked: −Σ log p(token | all other tokens) over the secret's tokens, one hidden
    at a time (pseudo-likelihood, Salazar et al. 2020; the alternative energy of row M2). Random masks would seldom hide
    the secret and rank it by chance.
    """
    if lm.causal:
        return np.array([-found.sum() for found in token_log_likelihoods(lm, texts)])
    samples = encode_samples(lm, texts, lm.context)
    if len(samples) != len(texts):
        raise ValueError(f"a canary is longer than the model's context of {lm.context} tokens and cannot be ranked")
    return _pseudo_losses(lm, samples.ids)


def _pseudo_losses(lm: LanguageModel, rows: list[np.ndarray]) -> np.ndarray:
    """Pseudo-likelihood loss of the tokens between what all rows begin with and what all rows end with.

    Hiding one digit of three leaves only 100 different questions for 1,000 secrets, so each is asked once.
    """
    before, after = _shared(rows), _shared([row[::-1] for row in rows])
    questions: dict[tuple[int, bytes], list[tuple[int, int]]] = {}  # (place, masked row) → [(text, true token)]
    for text, row in enumerate(rows):
        for place in range(before, len(row) - min(after, len(row) - before)):
            masked = row.copy()
            masked[place] = lm.tokenizer.mask_token_id
            questions.setdefault((place, masked.tobytes()), []).append((text, int(row[place])))
    losses = np.zeros(len(rows))
    for length, keys in _by_length(questions).items():
        step = max(1, BATCH_TOKENS // length)
        for start in range(0, len(keys), step):
            _ask(lm, keys[start : start + step], questions, losses)
    return losses


def _ask(lm: LanguageModel, keys: list[tuple[int, bytes]], questions: dict, losses: np.ndarray) -> None:
    """Add −log p of every true token of a batch of equally long questions to `losses`."""
    ids = torch.from_numpy(np.stack([np.frombuffer(masked, dtype=np.int64) for _, masked in keys])).to(lm.device)
    places = torch.tensor([place for place, _ in keys], device=lm.device)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    mask[torch.arange(len(keys), device=lm.device), places] = True
    with torch.inference_mode():
        logits = masked_logits(lm, ids, torch.ones_like(ids), mask)
        logprobs = torch.log_softmax(logits.float(), dim=-1).double().cpu().numpy()  # (questions, vocabulary)
    for found, key in zip(logprobs, keys, strict=True):
        for text, token in questions[key]:
            losses[text] -= found[token]


def _by_length(questions: dict[tuple[int, bytes], list]) -> dict[int, list[tuple[int, bytes]]]:
    lengths: dict[int, list[tuple[int, bytes]]] = {}
    for key in questions:
        lengths.setdefault(len(key[1]) // 8, []).append(key)  # 8 bytes a token (int64)
    return lengths


def _shared(rows: list[np.ndarray]) -> int:
    """How many tokens all rows begin with in common."""
    shortest = min(map(len, rows))
    stacked = np.stack([row[:shortest] for row in rows])
    differs = (stacked != stacked[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else shortest
