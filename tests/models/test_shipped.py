"""The base models in assets/: they load, they are small, and their cards tell the truth."""

from itertools import product
from typing import get_args

import pytest

from core.corpus.public_text import heldout_text
from core.models import shipped_bases
from core.models.build import CONTEXT, VOCABULARY, load
from core.models.likelihood import perplexity
from core.models.shipped_bases import shipped_folder, word_list
from core.spec import SHIPPED_BASES, ModelKind, ModelSpec
from tests.models.model_cards import stated_perplexity

SHIPPED = [
    *(ModelSpec(kind=kind, base=base) for base, kind in product(SHIPPED_BASES, get_args(ModelKind))),
    *(ModelSpec(kind=kind, size="micro") for kind in get_args(ModelKind)),
]


@pytest.mark.parametrize("spec", SHIPPED, ids=[f"{spec.base} {spec.kind} {spec.size}" for spec in SHIPPED])
def test_a_shipped_model_is_what_its_card_says(spec):
    folder = shipped_folder(spec)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 8e6
    lm = load(spec)
    assert lm.context == CONTEXT and len(lm.tokenizer) == VOCABULARY
    assert perplexity(lm, heldout_text(), max_tokens=CONTEXT) == pytest.approx(stated_perplexity(folder), rel=0.01)
    card = (folder / "README.md").read_text()
    for part in ("MIT", "CC BY 4.0", "python -m core pretrain", "torch 2."):
        assert part in card


def test_models_and_words_are_in_one_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped_bases, "BASE_MODELS", tmp_path)
    assert shipped_folder(ModelSpec()).is_relative_to(tmp_path) and word_list("gpt2").is_relative_to(tmp_path)


@pytest.mark.parametrize("base", [*SHIPPED_BASES, "gpt2"])
def test_public_words_are_sorted_lower_case_words(base):
    words = word_list(base).read_text(encoding="utf-8").split("\n")[:-1]
    assert len(words) > 10_000 and words == sorted(set(words))
    assert all(word.isalpha() and word == word.lower() for word in words)
