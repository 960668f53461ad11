"""Random masks for the masked kinds: which positions are hidden, and the logits of only those positions."""

from __future__ import annotations

import numpy as np
import torch

from core.models.build import LanguageModel

MASK_SHARE = 0.15  # usual share of tokens that are predicted (Devlin et al. 2019), in training and in scoring


def draw_mask(ids: np.ndarray, special: np.ndarray, rng: np.random.Generator, share: float = MASK_SHARE) -> np.ndarray:
    """Which tokens of one sample to hide: bool of shape (tokens,), each non-special token with probability `share`.

    At least one is hidden (the one with the lowest draw), unless the sample has special tokens only. `special` holds
    the ids of special tokens.
    """
    draws = rng.random(len(ids))
    draws[np.isin(ids, special)] = 2.0
    mask = draws < share
    lowest = int(draws.argmin())
    if not mask.any() and draws[lowest] < 1.0:
        mask[lowest] = True
    return mask


def masked_logits(
    lm: LanguageModel, ids: torch.Tensor, attention_mask: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Logits of the hidden positions when they are replaced by [MASK], in row-major order of `mask`.

    `ids`, `attention_mask` and `mask` (bool) are (B, T); the result is (hidden positions, vocabulary).
    """
    hidden = lm.hidden(ids.masked_fill(mask, lm.tokenizer.mask_token_id), attention_mask)
    return lm.head(hidden[mask])
