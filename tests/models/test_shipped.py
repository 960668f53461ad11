"""The base models in assets/: they load, they are small, and their cards tell the truth."""

from typing import get_args

import pytest

from core.corpus.public_text import heldout_text
from core.models.build import BASE_MODELS, CONTEXT, VOCABULARY, load
from core.models.likelihood import perplexity
from core.spec import ModelKind, ModelSpec
from tests.models.model_cards import stated_perplexity

SHIPPED = sorted(folder.name.removesuffix("-tiny") for folder in BASE_MODELS.glob("*-tiny"))


def test_every_kind_is_shipped():
    assert set(SHIPPED) == set(get_args(ModelKind))


@pytest.mark.parametrize("kind", SHIPPED)
def test_a_shipped_model_is_what_its_card_says(kind):
    folder = BASE_MODELS / f"{kind}-tiny"
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8e6
    lm = load(ModelSpec(kind=kind))
    assert lm.context == CONTEXT and len(lm.tokenizer) == VOCABULARY
    assert perplexity(lm, heldout_text(), max_tokens=CONTEXT) == pytest.approx(stated_perplexity(folder), rel=0.01)
    card = (folder / "README.md").read_text()
    for part in ("MIT", "CC BY 4.0", "python -m core pretrain", "torch 2."):
        assert part in card


def test_public_words_are_sorted_lower_case_words():
    words = (BASE_MODELS / "public_words.txt").read_text(encoding="utf-8").split("\n")[:-1]
    assert len(words) > 10_000 and words == sorted(set(words))
    assert all(word.isalpha() and word == word.lower() for word in words)
