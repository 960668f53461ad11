"""What a model expects at each place of a text: the chance of the token that stands there, and the likeliest tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from core.models.build import LanguageModel
from core.models.likelihood import buckets
from core.models.masking import masked_logits

LIKELIEST = 5  # tokens named at each place


@dataclass(frozen=True)
class TokenView:
    """One token of a text, characters [start, end), and what the model expected there.

    `log_p` is the log-probability of the token in nats, NaN for a [MASK] in the text. `likeliest` are the model's best
    tokens there with their probabilities, best first.
    """

    start: int
    end: int
    log_p: float
    likeliest: tuple[tuple[str, float], ...]


def token_views(lm: LanguageModel, text: str, *, likeliest: int = LIKELIEST) -> list[TokenView]:
    """Every token of a text, as the model sees it, in order.

    A causal model sees the text before the token. A masked model sees the text on both sides of the token's word and
    the word's earlier pieces, as in `core.models.likelihood.word_log_likelihoods` (Kauf & Ivanova 2023), at the cost of
    one forward pass a token. Probabilities are those of the model itself: no temperature, and no tokens cut off.

    Raises:
        ValueError: if the text has more tokens than the context holds.
    """
    encoding = lm.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    if len(encoding.ids) + 2 > lm.context:
        raise ValueError(f"the text takes {len(encoding.ids):,} tokens, and this model reads {lm.context - 2:,}")
    if not encoding.ids:
        return []
    ids = np.asarray(encoding.ids, dtype=np.int64)
    with torch.inference_mode():
        logits = _next_token_logits(lm, ids) if lm.causal else _hidden_word_logits(lm, ids, encoding.word_ids)
        logprobs = torch.log_softmax(logits.float(), dim=-1)  # (tokens, vocabulary)
        best, which = logprobs.topk(min(likeliest, logprobs.shape[-1]), dim=-1)
    chosen = logprobs.gather(-1, torch.from_numpy(ids).to(logprobs.device)[:, None])[:, 0].double().cpu().numpy()
    if not lm.causal:
        chosen = np.where(ids == lm.tokenizer.mask_token_id, np.nan, chosen)
    return [
        TokenView(start, end, float(log_p), tuple(zip(map(_piece(lm), tokens), chances, strict=True)))
        for (start, end), log_p, tokens, chances in zip(
            encoding.offsets, chosen, which.tolist(), best.exp().double().tolist(), strict=True
        )
    ]


def log_chance(views: Sequence[TokenView], start: int, end: int) -> float:
    """Log-probability in nats of the characters [start, end) of a text: the sum over all tokens that touch them.

    For a causal model this is log p(value | everything before it). NaN if no token touches them.
    """
    touching = [view.log_p for view in views if view.start < end and start < view.end]
    return float(sum(touching)) if touching else float("nan")


def _next_token_logits(lm: LanguageModel, ids: np.ndarray) -> torch.Tensor:
    """Logits of every token given those before it, (tokens, vocabulary)."""
    read = torch.from_numpy(np.concatenate([[lm.tokenizer.bos_token_id], ids[:-1]])).to(lm.device)
    return lm.head(lm.hidden(read[None]))[0]


def _hidden_word_logits(lm: LanguageModel, ids: np.ndarray, words: Sequence[int | None]) -> torch.Tensor:
    """Logits of every token when it and the later pieces of its word are hidden, (tokens, vocabulary)."""
    whole = np.concatenate([[lm.tokenizer.cls_token_id], ids, [lm.tokenizer.sep_token_id]])
    found: list[torch.Tensor] = [torch.empty(0)] * len(ids)
    hidden = list(_hidden(words))
    for batch, rows, attention in buckets(lm, [whole] * len(ids)):
        mask = torch.from_numpy(np.stack([hidden[token] for token in batch])).to(lm.device)
        logits = masked_logits(lm, rows, attention, mask)
        first = np.cumsum([0, *(int(hidden[token].sum()) for token in batch[:-1])])
        for token, place in zip(batch, first, strict=True):
            found[token] = logits[place]
    return torch.stack(found)


def _hidden(words: Sequence[int | None]) -> Iterator[np.ndarray]:
    """For each token what is hidden when it is predicted: itself and the later pieces of its word, (tokens + 2,)."""
    numbers = np.array([-1 - place if word is None else word for place, word in enumerate(words)])
    for place, word in enumerate(numbers):
        later = (numbers == word) & (np.arange(len(numbers)) >= place)
        yield np.concatenate([[False], later, [False]])


def _piece(lm: LanguageModel) -> Callable[[int], str]:
    """How a token is written: GPT-2's with its leading space, WordPiece's with ## if it continues a word."""
    if lm.causal:
        return lambda token: str(lm.tokenizer.decode([token], clean_up_tokenization_spaces=False))
    return lambda token: str(lm.tokenizer.convert_ids_to_tokens(token))
