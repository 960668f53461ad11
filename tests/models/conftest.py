"""Untrained models of 2 layers × 32, one a kind; nothing here depends on the shipped assets."""

import pytest
import torch

from core.corpus.public_text import training_text
from core.models import build, tokenizer

KINDS = ("gpt2", "distilbert", "bert")


def _new(kind: str) -> build.LanguageModel:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(build._SHAPES, "tiny", (2, 32, 4))
        torch.manual_seed(7)
        lm = build.new(kind, "tiny", tokenizer.train(kind, training_text()[:120], 700))
    with torch.no_grad():  # random weights of 0.02 give flat predictions, which would hide a wrong position or mask
        for weight in lm.model.parameters():
            if weight.dim() > 1:
                weight.mul_(6.0)
    lm.model.eval()
    return lm


@pytest.fixture(scope="session")
def models() -> dict[str, build.LanguageModel]:
    return {kind: _new(kind) for kind in KINDS}


@pytest.fixture(scope="session")
def gpt2(models):
    return models["gpt2"]


@pytest.fixture(scope="session", params=["distilbert", "bert"])
def masked(request, models):
    return models[request.param]


@pytest.fixture(scope="session", params=KINDS)
def any_model(request, models):
    return models[request.param]
