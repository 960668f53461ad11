"""Vector representations of texts: the [CLS] vector (GPT-2: the last token's), or the mean over the word pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch

from core.attacks.registry import Report, no_report
from core.models.build import LanguageModel
from core.models.encoding import encode

BATCH_TOKENS = 4_096  # padding included
Pooling = Literal["cls", "mean"]


def vectors(lm: LanguageModel, texts: Sequence[str], pooling: Pooling, *, report: Report = no_report) -> np.ndarray:
    """Last hidden layer of every text: float32 (texts, width). Masked kinds read [CLS] text [SEP], GPT-2 BOS text.

    `cls` is the vector of [CLS]; for GPT-2 that of the last token, the only one that has read the whole text (Lehman
    2021, §6.2, §6.4). `mean` is the mean over the text's own tokens without special ones (Lehman 2021, §6.3). No text
    here is longer than the context.
    """
    whole = [with_specials(lm, ids) for ids in encode(lm, texts)]
    found = np.empty((len(texts), lm.model.config.hidden_size), dtype=np.float32)
    done = 0
    with torch.inference_mode():
        for batch in batches([len(ids) for ids in whole]):
            ids, attention = padded(lm, [whole[row] for row in batch])
            hidden = lm.hidden(ids, attention).float()  # (B, T, width)
            if pooling == "mean":
                own = attention.bool() & ~_special(lm, ids, attention)
                weights = (own / own.sum(1, keepdim=True).clamp(min=1)).unsqueeze(-1)
                pooled = (hidden * weights).sum(1)
            else:
                at = attention.sum(1) - 1 if lm.causal else torch.zeros(len(batch), dtype=torch.long, device=ids.device)
                pooled = hidden[torch.arange(len(batch), device=ids.device), at]
            found[batch] = pooled.cpu().numpy()
            done += len(batch)
            report(done, len(texts))
    return found


def with_specials(lm: LanguageModel, ids: list[int]) -> list[int]:
    """[CLS] ids [SEP], or BOS ids for GPT-2."""
    if lm.causal:
        return [lm.tokenizer.bos_token_id, *ids]
    return [lm.tokenizer.cls_token_id, *ids, lm.tokenizer.sep_token_id]


def _special(lm: LanguageModel, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
    """Which positions hold the special tokens around a text: bool (B, T)."""
    special = torch.zeros_like(ids, dtype=torch.bool)
    special[:, 0] = True
    if not lm.causal:
        special[torch.arange(len(ids), device=ids.device), attention.sum(1) - 1] = True
    return special


def batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Row numbers in batches of similar length, each at most BATCH_TOKENS tokens when padded (but at least one row)."""
    order = sorted(range(len(lengths)), key=lambda row: (lengths[row], row))
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * lengths[row] > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def padded(lm: LanguageModel, rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids padded on the right, and the attention mask (1 = token): both (rows, longest)."""
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[lm.tokenizer.pad_token_id] * (longest - len(row))] for row in rows])
    attention = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return ids.to(lm.device), attention.to(lm.device)
