"""Base models that train in less than a second."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import product

import pytest

from core.models import shipped_bases
from core.spec import CLINICAL
from tests.tiny_models import KINDS, tiny


@pytest.fixture(scope="module", autouse=True)
def _few_claims(asks_few_claims: None) -> None:
    """Most of these tests train, and some compare a run with one of `made_once`."""


@pytest.fixture(scope="module")
def tiny_base_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Untrained models of 2 layers × 32 in place of the shipped ones, for tests in which no model needs to be good."""
    folder = tmp_path_factory.mktemp("base")
    for kind, size in product(KINDS, ("micro", "tiny")):
        base = folder / CLINICAL / f"{kind}-{size}"
        base.mkdir(parents=True)
        tiny(kind, seed=3).save(base)
    shutil.copy(shipped_bases.word_list(CLINICAL), folder / CLINICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shipped_bases, "BASE_MODELS", folder)
        yield
