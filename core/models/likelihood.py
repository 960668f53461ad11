"""Likelihoods of texts: log-likelihood of every token (causal), energy under random masks (masked), perplexity."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import torch

from core.models.build import LanguageModel
from core.models.encoding import encode_samples
from core.models.masking import draw_mask, masked_logits

BATCH_TOKENS = 2_048  # in one batch, padding included: larger batches only move more memory for the logits
MAX_TOKENS = 192


def token_log_likelihoods(lm: LanguageModel, texts: Sequence[str], *, max_tokens: int = MAX_TOKENS) -> list[np.ndarray]:
    """Log p in nats of every token after BOS, with the final EOS: float64 of shape (tokens,), one array for each text.

    Texts longer than `max_tokens` are scored sample by sample.

    Raises:
        ValueError: for a masked model, which has no such chain of conditionals; use `note_losses`.
    """
    if not lm.causal:
        raise ValueError(
            f"a {lm.kind} model gives no left-to-right likelihood: use note_losses, its energy under masks"
        )
    samples = encode_samples(lm, texts, max_tokens)
    scored: list[np.ndarray] = [np.empty(0)] * len(samples)
    with torch.inference_mode():
        for batch, ids, _ in buckets(lm, samples.ids):
            logits = lm.head(lm.hidden(ids)[:, :-1]).float()  # (B, T − 1, V)
            found = _chosen(logits, ids[:, 1:]).double().cpu().numpy()
            for row, sample in enumerate(batch):
                scored[sample] = found[row, : len(samples.ids[sample]) - 1]
    return by_text(scored, samples.note_index, len(texts))


def token_moments(lm: LanguageModel, texts: Sequence[str]) -> list[np.ndarray]:
    """Log p of each token, with mean and standard deviation of log p there: float64 of shape (3, tokens), one per text.

    The rows are log p(token), and the mean and standard deviation of log p over the whole vocabulary under the model's
    own prediction at that position: μ = Σ_v p_v log p_v and σ² = Σ_v p_v (log p_v)² − μ² (Zhang et al. 2025, eq. 2), in
    nats. Tokens are those of `token_log_likelihoods`; causal models only.
    """
    if not lm.causal:
        raise ValueError(f"a {lm.kind} model predicts no next token")
    samples = encode_samples(lm, texts, MAX_TOKENS)
    scored: list[np.ndarray] = [np.empty((3, 0))] * len(samples)
    with torch.inference_mode():
        for batch, ids, _ in buckets(lm, samples.ids):
            logprobs = torch.log_softmax(lm.head(lm.hidden(ids)[:, :-1]).float(), dim=-1)  # (B, T − 1, V)
            chosen = logprobs.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)
            shares = logprobs.exp()
            mean = (shares * logprobs).sum(-1)
            variance = logprobs.sub_(mean.unsqueeze(-1)).square_().mul_(shares).sum(-1)
            found = torch.stack([chosen, mean, variance.sqrt()], dim=1).double().cpu().numpy()  # (B, 3, T − 1)
            for row, sample in enumerate(batch):
                scored[sample] = found[row, :, : len(samples.ids[sample]) - 1]
    return by_text(scored, samples.note_index, len(texts))


def masked_log_likelihoods(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int = 4, seed: int = 0, max_tokens: int = MAX_TOKENS
) -> list[np.ndarray]:
    """Log p in nats of every hidden token over `mask_draws` random 15 % masks, one array for each text.

    Source: Mireshghallah 2022, eq. 2. Draw k of sample i depends only on `seed`, k and i, so two models with the same
    tokenizer get the same masks and their ratio compares like with like.
    """
    scored, of_sample = _drawn_log_likelihoods(lm, texts, mask_draws, seed, max_tokens)
    return by_text(scored, np.repeat(of_sample, mask_draws), len(texts))


def log_likelihoods_by_draw(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int, seed: int = 0, max_tokens: int = MAX_TOKENS
) -> list[list[np.ndarray]]:
    """`masked_log_likelihoods` with the masks kept apart: for each text one array for each of its `mask_draws` masks.

    The first K masks are those that `masked_log_likelihoods` draws with `mask_draws=K` and the same seed, so the energy
    by any smaller number of masks follows from them.
    """
    scored, of_sample = _drawn_log_likelihoods(lm, texts, mask_draws, seed, max_tokens)
    draws = [by_text(scored[draw::mask_draws], of_sample, len(texts)) for draw in range(mask_draws)]
    return [list(of_text) for of_text in zip(*draws, strict=True)]


def _drawn_log_likelihoods(
    lm: LanguageModel, texts: Sequence[str], mask_draws: int, seed: int, max_tokens: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Log p of the hidden tokens of each sample's masks in turn, and the text of each sample, (samples,)."""
    if lm.causal:
        raise ValueError("gpt2 hides no tokens: use token_log_likelihoods")
    samples = encode_samples(lm, texts, max_tokens)
    special = np.asarray(lm.tokenizer.all_special_ids)
    rows = [ids for ids in samples.ids for _ in range(mask_draws)]
    masks = [
        draw_mask(ids, special, np.random.default_rng([seed, sample, draw]))
        for sample, ids in enumerate(samples.ids)
        for draw in range(mask_draws)
    ]
    return _hidden_log_likelihoods(lm, rows, masks), samples.note_index


def pseudo_log_likelihoods(lm: LanguageModel, texts: Sequence[str]) -> list[np.ndarray]:
    """Log p in nats of every token given all others of its sample, hidden one at a time: (tokens,), one array per text.

    This is the normalised energy of Mireshghallah 2022, A.3.2 (pseudo-likelihood, Salazar et al. 2020). It costs one
    forward pass per token.
    """
    if lm.causal:
        raise ValueError("gpt2 hides no tokens: use token_log_likelihoods")
    samples = encode_samples(lm, texts, MAX_TOKENS)
    special = np.asarray(lm.tokenizer.all_special_ids)
    rows, masks, of_text = [], [], []
    for ids, text in zip(samples.ids, samples.note_index, strict=True):
        for place in np.flatnonzero(~np.isin(ids, special)):
            rows.append(ids)
            masks.append(np.arange(len(ids)) == place)
            of_text.append(text)
    return by_text(_hidden_log_likelihoods(lm, rows, masks), np.array(of_text, dtype=np.int64), len(texts))


def word_log_likelihoods(
    lm: LanguageModel, texts: Sequence[str], words: Sequence[np.ndarray], *, max_tokens: int = MAX_TOKENS
) -> list[np.ndarray]:
    """Log p in nats of chosen words of each text given all its other words: (words chosen,), one array for each text.

    A word's pieces are hidden together and predicted from left to right, log p(word) = Σ log p(piece | pieces before
    it, all other words) (Kauf & Ivanova 2023, "PLL-word-l2r"). A word is thus scored on the same task however it is
    split, so models with different vocabularies can be compared. Hiding one piece at a time (`pseudo_log_likelihoods`)
    would favour models that split words more finely, since they see the rest of the word. It costs one forward pass a
    piece. The number of pieces of a word is visible to either model.

    Args:
        lm: a masked model.
        texts: the texts.
        words: `words[i]` are ascending places in `texts[i].split()`.
        max_tokens: longest sample.

    Raises:
        ValueError: for a causal model.
    """
    if lm.causal:
        raise ValueError("gpt2 hides no tokens: use token_log_likelihoods")
    samples = encode_samples(lm, texts, max_tokens)
    word_of_token = [_words_of_tokens(lm, text) for text in texts]
    totals = [np.zeros(len(chosen)) for chosen in words]
    rows, masks, places, of_word = [], [], [], []
    read = [0] * len(texts)  # tokens of each text in earlier samples
    for ids, text in zip(samples.ids, samples.note_index, strict=True):
        inside = np.arange(1, len(ids) - 1)  # between [CLS] and [SEP]
        at = word_of_token[text][read[text] : read[text] + len(inside)]
        read[text] += len(inside)
        for number, word in enumerate(words[text]):
            pieces = inside[at == word]
            for place in pieces:
                rows.append(ids)
                masks.append(np.isin(np.arange(len(ids)), pieces[pieces >= place]))
                places.append(number)
                of_word.append(text)
    scored = _hidden_log_likelihoods(lm, rows, masks)
    for text, number, found in zip(of_word, places, scored, strict=True):
        totals[text][number] += found[0]  # the first hidden piece; the later ones have their own rows
    return totals


def _words_of_tokens(lm: LanguageModel, text: str) -> np.ndarray:
    """The place in `text.split()` of the word in which each token (without special tokens) begins, (tokens,)."""
    starts = np.array([match.start() for match in re.finditer(r"\S+", text)])
    encoding = lm.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    begins = np.array([start for start, _ in encoding.offsets], dtype=np.int64)
    return np.searchsorted(starts, begins, side="right") - 1


def _hidden_log_likelihoods(
    lm: LanguageModel, rows: Sequence[np.ndarray], masks: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Log p in nats of the hidden tokens of each row of ids, (hidden tokens,), all hidden at once."""
    scored: list[np.ndarray] = [np.empty(0)] * len(rows)
    with torch.inference_mode():
        for batch, ids, attention in buckets(lm, rows):
            mask = torch.from_numpy(_pad([masks[row] for row in batch], False)).to(lm.device)
            if mask.any():
                found = _chosen(masked_logits(lm, ids, attention, mask).float(), ids[mask]).double().cpu().numpy()
                ends = np.cumsum([int(masks[row].sum()) for row in batch])
                for row, part in zip(batch, np.split(found, ends[:-1]), strict=True):
                    scored[row] = part
    return scored


def log_likelihoods(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int = 4, seed: int = 0, max_tokens: int = MAX_TOKENS
) -> list[np.ndarray]:
    """Log p in nats of all scored tokens of each text: every token (causal) or the hidden ones (masked)."""
    if lm.causal:
        return token_log_likelihoods(lm, texts, max_tokens=max_tokens)
    return masked_log_likelihoods(lm, texts, mask_draws=mask_draws, seed=seed, max_tokens=max_tokens)


def note_losses(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int = 4, seed: int = 0, max_tokens: int = MAX_TOKENS
) -> np.ndarray:
    """Mean loss in nats per scored token of each text: float64 of shape (texts,).

    Causal: over every token after BOS. Masked: over all hidden tokens of the `mask_draws` masks together, which stands
    for the mean over masks of each mask's mean (Mireshghallah 2022, eq. 2). NaN for a text in which a masked model can
    hide no token (`core.models.encoding.can_be_scored`).
    """
    found = log_likelihoods(lm, texts, mask_draws=mask_draws, seed=seed, max_tokens=max_tokens)
    return np.array([-one.mean() if len(one) else np.nan for one in found], dtype=np.float64)


def perplexity(
    lm: LanguageModel, texts: Sequence[str], *, mask_draws: int = 4, seed: int = 0, max_tokens: int = MAX_TOKENS
) -> float:
    """exp(total nats / total scored tokens) over all texts; for masked models the pseudo-perplexity of hidden tokens.

    Raises:
        ValueError: when there is no token to score.
    """
    found = log_likelihoods(lm, texts, mask_draws=mask_draws, seed=seed, max_tokens=max_tokens)
    tokens = sum(map(len, found))
    if not tokens:
        raise ValueError("perplexity needs at least one text with a token in it")
    return float(np.exp(-sum(one.sum() for one in found) / tokens))


def buckets(lm: LanguageModel, rows: Sequence[np.ndarray]) -> Iterator[tuple[list[int], torch.Tensor, torch.Tensor]]:
    """Batches of rows of similar length, with at most `BATCH_TOKENS` tokens each (or a single longer row).

    Yields (row numbers, (B, T) ids, (B, T) attention mask).
    """
    order = sorted(range(len(rows)), key=lambda row: (len(rows[row]), row))
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * len(rows[order[end]]) <= BATCH_TOKENS:
            end += 1
        batch = order[start:end]
        ids = torch.from_numpy(_pad([rows[row] for row in batch], lm.tokenizer.pad_token_id)).to(lm.device)
        attention = torch.from_numpy(_pad([np.ones(len(rows[row]), dtype=np.int64) for row in batch], 0)).to(lm.device)
        yield batch, ids, attention
        start = end


def _pad(rows: Sequence[np.ndarray], value: int | bool) -> np.ndarray:
    padded = np.full((len(rows), max(map(len, rows))), value, dtype=rows[0].dtype)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def _chosen(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Log-softmax of `logits` (…, V) at `ids` (…), without storing all log-probabilities."""
    return logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - torch.logsumexp(logits, dim=-1)


def by_text(scored: Sequence[np.ndarray], text_index: np.ndarray, texts: int) -> list[np.ndarray]:
    """The results of the samples, (…, tokens), concatenated for each text along its tokens."""
    bounds = np.searchsorted(text_index, np.arange(texts + 1), side="left")
    return [
        np.concatenate(scored[start:end], axis=-1) if end > start else np.empty(0)
        for start, end in zip(bounds[:-1], bounds[1:], strict=True)
    ]
