"""Models of 2 layers × 32, untrained, or trained on a few texts until they know them by heart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

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
    """`teach(kind, texts, steps)`: a new model after that many AdamW steps on all texts together."""

    def train(kind: str, texts: list[str], steps: int) -> LanguageModel:
        lm = tiny(kind, seed=3)
        optimizer = torch.optim.AdamW(lm.model.parameters(), lr=3e-3)
        rng = np.random.default_rng(0)
        samples = encoding.encode_samples(lm, texts, 128).ids
        special = np.asarray(lm.tokenizer.all_special_ids)
        for _ in range(steps):
            loss = torch.zeros(())
            for ids in samples:
                labels = torch.from_numpy(ids)[None].clone()
                inputs = labels.clone()
                if not lm.causal:
                    hidden = torch.from_numpy(draw_mask(ids, special, rng, share=0.3))[None]
                    inputs[hidden], labels[~hidden] = lm.tokenizer.mask_token_id, -100
                loss = loss + lm.model(input_ids=inputs, attention_mask=torch.ones_like(inputs), labels=labels).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return lm

    return train
