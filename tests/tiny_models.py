"""Untrained models of 2 layers × 32 that read and write like the shipped ones."""

from __future__ import annotations

import pytest
import torch

from core.corpus.public_text import training_text
from core.models import build, tokenizer

KINDS = ("gpt2", "distilbert", "bert")


def tiny(kind: str, *, seed: int, spread: float = 1.0) -> build.LanguageModel:
    """A model of `kind` with random weights, whose matrices are multiplied by `spread`.

    Weights as they are drawn (of 0.02) give flat predictions, which would hide a wrong position or mask; `spread=6`
    makes them differ.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(build._SHAPES, "tiny", (2, 32, 4))
        torch.manual_seed(seed)
        lm = build.new(kind, "tiny", tokenizer.train(kind, training_text()[:120], 700))
    with torch.no_grad():
        for weight in lm.model.parameters():
            if weight.dim() > 1:
                weight.mul_(spread)
    lm.model.eval()
    return lm
