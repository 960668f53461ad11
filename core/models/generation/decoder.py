"""GPT-2 generation, one token at a time, with a key/value cache that is allocated once.

The layers are those of `transformers`; only the handling of the cache is ours. `DynamicCache` copies the whole cache at
every token; docs/methods/models.md, "Generation", compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import functional

from core.common.transformers_parts import GPT2LMHeadModel


class CachedDecoder:
    """Next-token logits of a batch of left-padded sequences.

    `width` is the largest number of positions of a row, padding included. Call `prefill` once, then `step` for each new
    token. `keep` drops finished rows.
    """

    def __init__(self, model: GPT2LMHeadModel, rows: int, width: int) -> None:
        config = model.config
        self._model = model
        self._heads = config.n_head
        shape = (config.n_layer, rows, config.n_head, width, config.n_embd // config.n_head)
        self._keys = torch.empty(shape, device=model.device, dtype=model.dtype)
        self._values = torch.empty(shape, device=model.device, dtype=model.dtype)
        self._padding = torch.zeros(rows, dtype=torch.long, device=model.device)
        self._length = 0

    def prefill(self, ids: torch.Tensor, padding: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
        """Read the prompts: (P, T) ids whose first `padding[p]` columns are padding → (B, vocabulary) logits.

        Row b of the batch begins with prompt `which[b]`. Each prompt is read once, however many rows begin with it.
        """
        self._length = ids.shape[1]
        columns = torch.arange(self._length, device=ids.device)
        visible = (columns[None, :] <= columns[:, None])[None] & (columns[None, None, :] >= padding[:, None, None])
        visible |= torch.eye(self._length, dtype=torch.bool, device=ids.device)  # padding attends to itself: no NaN
        places = columns[None, :] - padding[:, None]
        everything = self._keys, self._values
        self._keys, self._values = (cache[:, : len(ids)] for cache in everything)
        logits = self._forward(ids, places, start=0, visible=visible[:, None])
        for cache in everything:
            cache[..., : self._length, :] = cache[:, which, :, : self._length]
        self._keys, self._values = everything
        self._padding = padding[which]
        return logits[which]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Read one more token of each row: (B,) ids → (B, vocabulary) logits."""
        start, self._length = self._length, self._length + 1
        visible = None
        if bool(self._padding.any()):
            columns = torch.arange(self._length, device=tokens.device)
            visible = (columns[None, :] >= self._padding[:, None])[:, None, None, :]  # (B, 1, 1, T)
        return self._forward(tokens[:, None], (start - self._padding)[:, None], start=start, visible=visible)

    def keep(self, rows: torch.Tensor) -> None:
        """Keep only these rows, in this order."""
        self._keys, self._values = self._keys[:, rows], self._values[:, rows]
        self._padding = self._padding[rows]

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, *, start: int, visible: torch.Tensor | None
    ) -> torch.Tensor:
        """(B, Q) new ids at cache columns start … start + Q → logits of the last column, (B, vocabulary)."""
        gpt2 = self._model.transformer
        hidden = gpt2.wte(ids) + gpt2.wpe(positions.clamp(0, self._model.config.n_positions - 1))  # (B, Q, C)
        blocks: Iterable[Any] = gpt2.h  # torch gives every part of a module the type Tensor | Module
        for layer, block in enumerate(blocks):
            hidden = hidden + self._attend(layer, block.attn, block.ln_1(hidden), start, visible)
            hidden = hidden + block.mlp(block.ln_2(hidden))
        return self._model.lm_head(gpt2.ln_f(hidden[:, -1]))

    def _attend(
        self, layer: int, attention: Any, hidden: torch.Tensor, start: int, visible: torch.Tensor | None
    ) -> torch.Tensor:
        rows, new, width = hidden.shape
        end = start + new
        query, key, value = (
            part.view(rows, new, self._heads, -1).transpose(1, 2)  # (B, heads, Q, C / heads)
            for part in attention.c_attn(hidden).split(width, dim=-1)
        )
        self._keys[layer][:, :, start:end] = key
        self._values[layer][:, :, start:end] = value
        keys, values = self._keys[layer][:, :, :end], self._values[layer][:, :, :end]
        if new > 1:
            found = functional.scaled_dot_product_attention(
                query, keys, values, attn_mask=visible, scale=attention.scaling
            )
        else:
            found = _attend_with_one(query, keys, values, visible, attention.scaling)
        return attention.c_proj(found.transpose(1, 2).reshape(rows, new, width))


def _attend_with_one(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, visible: torch.Tensor | None, scale: float
) -> torch.Tensor:
    """Attention of one position: query (B, heads, 1, d), keys and values (B, heads, T, d) → (B, heads, 1, d).

    Uses two batched products, since the kernel of `scaled_dot_product_attention` is made for many positions.
    """
    weights = torch.matmul(query, keys.transpose(2, 3)).mul_(scale)  # (B, heads, 1, T)
    if visible is not None:
        weights.masked_fill_(~visible, -torch.inf)
    return torch.matmul(torch.softmax(weights, dim=-1), values)
