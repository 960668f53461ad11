"""Loss of every text of a canary's space. These texts differ only in their secret.

The 1,000 candidates share most of the computation, which is done once. Nothing is approximated.
"""

from __future__ import annotations

import copy

import numpy as np
import torch

from core.common.transformers_parts import Cache
from core.models.build import LanguageModel
from core.models.encoding import encode_samples
from core.models.likelihood import BATCH_TOKENS, MAX_TOKENS, token_log_likelihoods
from core.models.masking import masked_logits

_FEWER = 8  # shared beginnings are computed once if there are this many times fewer of them than of longer ones


def secret_losses(lm: LanguageModel, texts: list[str]) -> np.ndarray:
    """Loss in nats, (texts,), of texts that differ only in their secret.

    Causal: −log p of the whole text with its end mark. Masked: −Σ log p(token | all other tokens) over the secret's
    tokens, one hidden at a time (pseudo-likelihood, Salazar et al. 2020; the normalised energy of Mireshghallah 2022,
    A.3.2, without the division by length). Random masks would rarely hide the secret and so would rank it by chance.

    Raises:
        ValueError: when a text does not fit into one sample.
    """
    samples = encode_samples(lm, texts, min(MAX_TOKENS, lm.context))
    if len(samples) != len(texts):
        raise ValueError(f"a canary is longer than {min(MAX_TOKENS, lm.context)} tokens and cannot be ranked")
    if not lm.causal:
        return _pseudo_losses(lm, samples.ids)
    if len({len(row) for row in samples.ids}) > 1:
        return np.array([-found.sum() for found in token_log_likelihoods(lm, texts)])
    return _causal_losses(lm, np.stack(samples.ids))


def _causal_losses(lm: LanguageModel, rows: np.ndarray) -> np.ndarray:
    """−log p of each row of (texts, T) given its first token, computing each shared beginning once.

    For example, 1,000 three-digit secrets have one beginning before the first digit, 10 with it and 100 with the
    second. So keys and values of the words before are computed once, not 1,000 times.
    """
    codes = _beginnings(rows)
    losses, above, cache, start = np.zeros(len(rows)), np.zeros(len(rows), dtype=int), None, 0
    with torch.inference_mode():
        for end in (*_shared_lengths(codes), rows.shape[1] - 1):
            which = codes[end - 1]
            first = np.unique(which, return_index=True)[1]  # a row with each beginning
            last = end == rows.shape[1] - 1
            step = max(1, BATCH_TOKENS // rows.shape[1]) if last else len(first)  # the next level needs all of this one
            for begin in range(0, len(first), step):
                part = first[begin : begin + step]
                ids = torch.from_numpy(rows[part, start:end]).to(lm.device)
                out = lm.model.base_model(input_ids=ids, past_key_values=_of(cache, above[part]), use_cache=not last)
                logprobs = torch.log_softmax(lm.head(out.last_hidden_state).float(), dim=-1)  # (part, end − start, V)
                inside = _picked(logprobs[:, :-1], ids[:, 1:])
                texts = np.flatnonzero((which >= begin) & (which < begin + step))
                own, following = which[texts] - begin, torch.from_numpy(rows[texts, end, None]).to(lm.device)
                losses[texts] -= inside[own] + _picked(logprobs[torch.from_numpy(own).to(lm.device), -1:], following)
            above, cache, start = which, out.past_key_values, end
    return losses


def _of(cache: Cache | None, rows: np.ndarray) -> Cache | None:
    """A copy of the keys and values of these rows; a forward pass adds to its cache."""
    if cache is None:
        return None
    own = copy.deepcopy(cache)
    own.batch_select_indices(torch.from_numpy(rows))
    return own


def _beginnings(rows: np.ndarray) -> list[np.ndarray]:
    """For each length of 1 to T tokens, which of the distinct beginnings each row has, (texts,) from 0 on."""
    codes, found = np.zeros(len(rows), dtype=np.int64), []
    for column in rows.T:
        codes = np.unique(codes * (int(rows.max()) + 1) + column, return_inverse=True)[1]
        found.append(codes)
    return found


def _shared_lengths(codes: list[np.ndarray]) -> list[int]:
    """Lengths at which to stop and go on from what is shared, in rising order.

    Each is the longest with at most a `_FEWER`-th of the beginnings of the next stop; the last stop is the whole rows.
    """
    counts = [int(one.max()) + 1 for one in codes]
    lengths, following = [], len(codes[0])
    for length in range(len(codes) - 2, 0, -1):
        if counts[length - 1] * _FEWER <= following:
            lengths.append(length)
            following = counts[length - 1]
    return lengths[::-1]


def _picked(logprobs: torch.Tensor, ids: torch.Tensor) -> np.ndarray:
    """Sum over positions of the log-probability of each position's token: (B, T, V) at (B, T) → float64 (B,)."""
    return logprobs.gather(-1, ids.unsqueeze(-1)).squeeze(-1).double().sum(dim=1).cpu().numpy()


def _pseudo_losses(lm: LanguageModel, rows: list[np.ndarray]) -> np.ndarray:
    """Pseudo-likelihood loss of the tokens between the shared beginning and the shared end of all rows.

    Hiding one digit of three leaves only 100 distinct masked rows for 1,000 secrets, so each is computed once.
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
    """Add −log p of every true token of a batch of masked rows of equal length to `losses`."""
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
        lengths.setdefault(len(key[1]) // 8, []).append(key)  # 8 bytes per token (int64)
    return lengths


def _shared(rows: list[np.ndarray]) -> int:
    """Length in tokens of the beginning that all rows share."""
    shortest = min(map(len, rows))
    stacked = np.stack([row[:shortest] for row in rows])
    differs = (stacked != stacked[0]).any(axis=0)
    return int(differs.argmax()) if differs.any() else shortest
