"""What a model expects at each place, against direct forward passes and the likelihoods that the attacks use."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from core.models.encoding import encode
from core.models.likelihood import token_log_likelihoods, word_log_likelihoods
from core.models.token_view import log_chance, token_views

TEXT = "Patient: Ann Lee, seen again.\nBlood pressure 142/88 on 2021-03-04."


def test_chances_of_a_causal_model_are_the_likelihoods_of_the_attacks(gpt2):
    views = token_views(gpt2, TEXT)
    known = token_log_likelihoods(gpt2, [TEXT])[0]
    np.testing.assert_allclose([view.log_p for view in views], known[:-1], atol=1e-5)  # the last one is the end mark
    assert log_chance(views, 0, len(TEXT)) == pytest.approx(known[:-1].sum(), abs=1e-4)


def test_the_likeliest_tokens_are_those_of_a_direct_forward_pass(gpt2):
    views = token_views(gpt2, TEXT, likeliest=3)
    ids = [gpt2.tokenizer.bos_token_id, *encode(gpt2, [TEXT])[0]]
    for place, view in enumerate(views):
        with torch.no_grad():
            chances = gpt2.model(input_ids=torch.tensor([ids[: place + 1]])).logits[0, -1].softmax(-1)
        best = chances.argsort(descending=True)[:3]
        assert [piece for piece, _ in view.likeliest] == [gpt2.tokenizer.decode([token]) for token in best]
        assert [chance for _, chance in view.likeliest] == pytest.approx(chances[best].tolist(), rel=1e-3)


def test_chances_of_a_masked_model_are_those_of_whole_words_from_left_to_right(masked):
    """By another road: the pieces of a word multiply to its probability, given all other words."""
    text = "Patient Ann Leewardine was seen again"
    places = np.arange(len(text.split()))
    known = word_log_likelihoods(masked, [text], [places])[0]
    views = token_views(masked, text)
    start = 0
    for word, expected in zip(text.split(), known, strict=True):
        start = text.index(word, start)
        assert log_chance(views, start, start + len(word)) == pytest.approx(expected, abs=1e-4)


def test_a_blank_has_guesses_and_no_chance(masked):
    views = token_views(masked, "The patient was given [MASK] today")
    blank = next(view for view in views if math.isnan(view.log_p))
    assert (blank.start, blank.end) == (22, 28)
    assert len(blank.likeliest) == 5 and sum(chance for _, chance in blank.likeliest) < 1
    assert sum(math.isnan(view.log_p) for view in views) == 1


def test_a_value_takes_every_token_that_touches_it(gpt2):
    views = token_views(gpt2, TEXT)
    assert math.isnan(log_chance(views, 0, 0))
    inside = next(view for view in views if view.end - view.start > 1)
    assert log_chance(views, inside.start + 1, inside.end) == inside.log_p, "the value begins within a token"


def test_places_are_characters_of_the_text(any_model):
    text = "Dr. Müller – 38.5 °C"
    views = token_views(any_model, text)
    covered = set().union(*(range(view.start, view.end) for view in views))
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


def test_texts_that_are_empty_or_too_long(any_model):
    assert token_views(any_model, "") == []
    with pytest.raises(ValueError, match="the text takes 300 tokens, and this model reads 254"):
        token_views(any_model, " ".join(["a"] * 300))
