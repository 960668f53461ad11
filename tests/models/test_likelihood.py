import math

import numpy as np
import pytest
import torch

from core.corpus.public_text import heldout_text
from core.models import likelihood
from core.models.encoding import encode_samples
from core.models.likelihood import (
    log_likelihoods,
    log_likelihoods_by_draw,
    masked_log_likelihoods,
    note_losses,
    perplexity,
    token_log_likelihoods,
)
from core.models.masking import draw_mask, masked_logits

TEXTS = ["One.", *heldout_text()[:4], "Blood pressure 142/88 on 2021-03-04, seen again."]


def test_causal_scores_are_the_models_own_loss(gpt2):
    samples = encode_samples(gpt2, TEXTS, 256)
    assert len(samples) == len(TEXTS)
    for ids, found in zip(samples.ids, token_log_likelihoods(gpt2, TEXTS, max_tokens=256), strict=True):
        tensor = torch.from_numpy(ids)[None]
        with torch.no_grad():
            expected = gpt2.model(input_ids=tensor, labels=tensor).loss.item()
        assert len(found) == len(ids) - 1
        assert -found.mean() == pytest.approx(expected, abs=1e-5)


def test_a_text_scores_the_same_alone_and_in_a_batch(any_model, monkeypatch):
    together = log_likelihoods(any_model, TEXTS, max_tokens=64)
    monkeypatch.setattr(likelihood, "BATCH_TOKENS", 1)
    for one, other in zip(together, log_likelihoods(any_model, TEXTS, max_tokens=64), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_long_texts_are_scored_sample_by_sample(gpt2):
    samples = encode_samples(gpt2, TEXTS[1:2], 32)
    assert len(samples) > 2
    assert len(token_log_likelihoods(gpt2, TEXTS[1:2], max_tokens=32)[0]) == sum(len(ids) - 1 for ids in samples.ids)


def test_masked_scores_are_the_hidden_tokens_log_probabilities(masked):
    found = masked_log_likelihoods(masked, TEXTS, mask_draws=3, seed=5, max_tokens=256)
    special = np.asarray(masked.tokenizer.all_special_ids)
    for number, ids in enumerate(encode_samples(masked, TEXTS, 256).ids):
        expected = []
        for draw in range(3):
            mask = draw_mask(ids, special, np.random.default_rng([5, number, draw]))
            hidden = torch.from_numpy(np.where(mask, masked.tokenizer.mask_token_id, ids))[None]
            with torch.no_grad():
                logits = masked.model(input_ids=hidden, attention_mask=torch.ones_like(hidden)).logits[0]
            expected += logits.log_softmax(-1)[np.flatnonzero(mask), ids[mask]].tolist()
        np.testing.assert_allclose(found[number], expected, atol=1e-4)


def test_the_first_masks_of_many_are_those_of_a_smaller_number(masked):
    """Also of texts in several samples, whose masks are kept together by draw."""
    found = log_likelihoods_by_draw(masked, TEXTS, mask_draws=3, seed=5, max_tokens=32)
    assert max(map(len, encode_samples(masked, TEXTS[1:2], 32).ids)) == 32 and {len(draws) for draws in found} == {3}
    for masks in (1, 2, 3):
        together = masked_log_likelihoods(masked, TEXTS, mask_draws=masks, seed=5, max_tokens=32)
        for draws, expected in zip(found, together, strict=True):
            np.testing.assert_allclose(np.sort(np.concatenate(draws[:masks])), np.sort(expected), atol=1e-4)


def test_note_losses_and_perplexity_are_means_over_tokens(any_model):
    settings = {"mask_draws": 2, "seed": 1, "max_tokens": 128}
    found = log_likelihoods(any_model, TEXTS, **settings)
    np.testing.assert_allclose(note_losses(any_model, TEXTS, **settings), [-one.mean() for one in found])
    everything = np.concatenate(found)
    assert perplexity(any_model, TEXTS, **settings) == pytest.approx(math.exp(-everything.mean()))


def test_masks_depend_on_the_seed_and_not_on_the_model(models):
    one, other = models["distilbert"], models["bert"]
    counts = [[len(found) for found in masked_log_likelihoods(lm, TEXTS, seed=3)] for lm in (one, other)]
    assert counts[0] == counts[1]
    np.testing.assert_array_equal(note_losses(one, TEXTS, seed=3), note_losses(one, TEXTS, seed=3))
    assert not np.array_equal(note_losses(one, TEXTS, seed=3), note_losses(one, TEXTS, seed=4))


def test_a_mask_hides_about_15_percent_and_never_a_special_token():
    rng = np.random.default_rng(0)
    ids, special = np.arange(2_000), np.array([0, 1, 1999])
    masks = np.stack([draw_mask(ids, special, rng) for _ in range(50)])
    assert masks[:, special].sum() == 0
    assert masks.mean() == pytest.approx(0.15, abs=0.01)
    assert all(draw_mask(np.array([0, 7, 1]), special, rng).tolist() == [False, True, False] for _ in range(50))
    assert not draw_mask(np.array([0, 1]), special, rng).any()


def test_masked_logits_belong_to_their_positions(masked):
    ids = torch.from_numpy(encode_samples(masked, TEXTS[1:2], 256).ids[0])[None]
    mask = torch.zeros_like(ids, dtype=torch.bool)
    mask[0, [4, 9]] = True
    with torch.no_grad():
        full = masked.model(input_ids=ids.masked_fill(mask, masked.tokenizer.mask_token_id)).logits[0, [4, 9]]
        torch.testing.assert_close(masked_logits(masked, ids, torch.ones_like(ids), mask), full)


def test_what_cannot_be_scored_is_said(models):
    with pytest.raises(ValueError, match="note_losses"):
        token_log_likelihoods(models["bert"], ["text"])
    with pytest.raises(ValueError, match="token_log_likelihoods"):
        masked_log_likelihoods(models["gpt2"], ["text"])
    with pytest.raises(ValueError, match="at least one text"):
        perplexity(models["bert"], [""])
    assert np.isnan(note_losses(models["bert"], ["", "word"])).tolist() == [True, False]
    assert note_losses(models["gpt2"], []).shape == (0,)
