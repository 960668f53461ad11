"""What training changed for each token of a note: its log-likelihood under the model minus the public base model's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.models.build import LanguageModel
from core.models.likelihood import pseudo_log_likelihoods, token_log_likelihoods


@dataclass(frozen=True)
class Token:
    """A token of a note: characters start … end − 1, and `gain` = log p(model) − log p(base) in nats.

    Above 0, the token is more likely under the model than under the public model, by a factor of e^gain.
    """

    start: int
    end: int
    gain: float


def note_gains(lm: LanguageModel, base: LanguageModel, text: str) -> list[Token]:
    """The gain of every token of a text, in order. Tokens that share a character (parts of one letter) are summed.

    Causal: log p of a token given those before it. Masked: log p of a token, hidden, given all others (the
    pseudo-likelihood, Mireshghallah 2022, §2.3). This is the per-token term of the likelihood ratio (Mireshghallah
    2022, eq. 1) with the public model as reference; a text's mean gain is its `ratio base` score without the end mark.

    Raises:
        ValueError: The two models have different tokenizers.
    """
    encoding = lm.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
    if encoding.ids != base.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False).ids:
        raise ValueError("the two models split this text into different tokens, so tokens cannot be compared in pairs")
    special = set() if lm.causal else set(lm.tokenizer.all_special_ids)
    places = [place for place, number in zip(encoding.offsets, encoding.ids, strict=True) if number not in special]
    gains = (_scored(lm, text) - _scored(base, text))[: len(places)]
    tokens: list[Token] = []
    for (start, end), gain in zip(places, gains, strict=True):
        if tokens and start < tokens[-1].end:
            before = tokens.pop()
            start, end, gain = before.start, max(end, before.end), gain + before.gain
        tokens.append(Token(start, end, float(gain)))
    return tokens


def _scored(lm: LanguageModel, text: str) -> np.ndarray:
    """Log p of every token of the text (causal: the end mark last)."""
    return (token_log_likelihoods if lm.causal else pseudo_log_likelihoods)(lm, [text])[0]
