"""Untrained models of 2 layers × 32, one a kind; nothing here depends on the shipped assets."""

import pytest

from core.models import build
from tests.tiny_models import KINDS, tiny


@pytest.fixture(scope="session")
def models() -> dict[str, build.LanguageModel]:
    return {kind: tiny(kind, seed=7, spread=6.0) for kind in KINDS}


@pytest.fixture(scope="session")
def gpt2(models):
    return models["gpt2"]


@pytest.fixture(scope="session", params=["distilbert", "bert"])
def masked(request, models):
    return models[request.param]


@pytest.fixture(scope="session", params=KINDS)
def any_model(request, models):
    return models[request.param]
