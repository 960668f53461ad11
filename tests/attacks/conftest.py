"""Models of 2 layers × 32, untrained, or trained on a few texts until they know them by heart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from core.models import encoding
from core.models.build import LanguageModel
from core.models.masking import draw_mask
from tests.tiny_models import KINDS, tiny

Teach = Callable[[str, list[str], int], LanguageModel]


@pytest.fixture(scope="session")
def untrained() -> dict[str, LanguageModel]:
    return {kind: tiny(kind, seed=3) for kind in KINDS}


@pytest.fixture(scope="session")
def teach() -> Teach:
    """`teach(kind, texts, steps)`: a new model after that many AdamW steps on all texts in one batch."""

    def train(kind: str, texts: list[str], steps: int) -> LanguageModel:
        lm = tiny(kind, seed=3)
        if not texts:
            return lm
        optimizer = torch.optim.AdamW(lm.model.parameters(), lr=3e-3)
        rng = np.random.default_rng(0)
        samples = encoding.encode_samples(lm, texts, 128).ids
        special = np.asarray(lm.tokenizer.all_special_ids)
        there = pad_sequence([torch.ones(len(ids), dtype=torch.long) for ids in samples], batch_first=True)
        read = pad_sequence([torch.from_numpy(ids) for ids in samples], batch_first=True)
        for _ in range(steps):
            asked = there.bool()
            if not lm.causal:
                hidden = [torch.from_numpy(draw_mask(ids, special, rng, share=0.3)) for ids in samples]
                asked = pad_sequence(hidden, batch_first=True)
            inputs = read if lm.causal else read.masked_fill(asked, lm.tokenizer.mask_token_id)
            labels = read.masked_fill(~asked, -100)
            logits = lm.model(input_ids=inputs, attention_mask=there).logits
            if lm.causal:
                logits, labels = logits[:, :-1], labels[:, 1:]
            losses = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view_as(labels)
            (losses.sum(1) / (labels != -100).sum(1)).sum().backward()  # each text's mean, whatever its length
            optimizer.step()
            optimizer.zero_grad()
        return lm

    return train
