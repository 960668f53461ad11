"""Models of 2 layers × 32, untrained, or trained on a few texts until they know them by heart."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from core.corpus.public_text import training_text
from core.models import build, encoding, tokenizer
from core.models.build import LanguageModel
from core.models.masking import draw_mask

Teach = Callable[[str, list[str], int], LanguageModel]


def _new(kind: str) -> LanguageModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(build._SHAPES, "tiny", (2, 32, 4))
        torch.manual_seed(3)
        lm = build.new(kind, "tiny", tokenizer.train(kind, training_text()[:120], 700))
    lm.model.eval()
    return lm


@pytest.fixture(scope="session")
def untrained() -> dict[str, LanguageModel]:
    return {kind: _new(kind) for kind in ("gpt2", "distilbert", "bert")}


@pytest.fixture(scope="session")
def teach() -> Teach:
    """`teach(kind, texts, steps)`: a new model after that many AdamW steps on all texts together."""

    def train(kind: str, texts: list[str], steps: int) -> LanguageModel:
        lm = _new(kind)
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
