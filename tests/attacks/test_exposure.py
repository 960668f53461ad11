from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.attacks import exposure as exposures
from core.attacks.exposure import canary_exposures, exposure
from core.attacks.memorisation import secret_loss
from core.attacks.memorisation.secret_loss import secret_losses
from core.corpus.synthetic import canaries as planted
from core.corpus.synthetic.canaries import reference_texts
from core.models.encoding import encode_samples
from core.models.likelihood import token_log_likelihoods
from core.runs.tables import SCHEMAS, write_table
from core.spec import CorpusSpec

SPEC = CorpusSpec(patients=10, population=0, canaries=6, canary_patients=1, seed=4)


def naive(canary: float, references: list[float]) -> float:
    """Place the canary in the sorted space, after everything that ties with it."""
    space = sorted([(loss, 0) for loss in references] + [(canary, 1)])
    return math.log2(len(space)) - math.log2(1 + space.index((canary, 1)))


losses = st.integers(0, 6).map(float)


@given(st.lists(losses, min_size=1, max_size=5), st.lists(losses, min_size=1, max_size=12))
@settings(max_examples=60)
def test_exposure_is_the_place_in_the_sorted_space(canaries, references):
    expected = [naive(canary, references) for canary in canaries]
    np.testing.assert_allclose(exposure(np.array(canaries), np.array(references)), expected, atol=1e-12)
    own = np.tile(references, (len(canaries), 1))
    np.testing.assert_allclose(exposure(np.array(canaries), own), expected, atol=1e-12)


def test_known_exposures():
    references = np.arange(1.0, 8.0)  # with the canary: 8 members
    assert exposure([0.5], references) == pytest.approx(3.0)  # likeliest of 8
    assert exposure([4.5], references) == pytest.approx(3 - math.log2(5))
    assert exposure([9.0], references) == pytest.approx(0.0)  # last of 8
    assert exposure([1.0], references) == pytest.approx(2.0)  # a tie ranks the reference first


def test_a_uniform_rank_gives_about_one_over_ln_2_bits():
    losses = np.random.default_rng(0).random((4_000, 1_000))
    bits = exposure(losses[:, 0], losses[:, 1:])
    exact = math.log2(1000) - np.log2(np.arange(1, 1001)).mean()  # 1.436: tends to 1/ln 2 = 1.4427
    assert abs(exact - 1 / math.log(2)) < 0.01
    assert bits.mean() == pytest.approx(exact, abs=4 * bits.std() / math.sqrt(4_000))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_a_model_that_saw_no_canary_ranks_them_uniformly(untrained, kind):
    table = planted.draw(SPEC.model_copy(update={"canaries": 60, "canary_patients": 0}))
    found = canary_exposures(untrained[kind], table)
    assert stats.kstest(found["rank"].astype(float) / 1000, "uniform").pvalue > 1e-3
    assert abs(found["exposure"].mean() - 1.436) < 4 * 1.44 / math.sqrt(60)


@pytest.mark.parametrize(
    ("canary", "references"),
    [([1.0], []), ([1.0, 2.0], np.ones((3, 4))), ([np.nan], [1.0, 2.0]), ([1.0], [np.nan, 2.0])],
)
def test_what_cannot_be_ranked_is_refused(canary, references):
    with pytest.raises(ValueError, match="rank"):
        exposure(canary, references)


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_a_canary_learned_by_heart_has_full_exposure_and_an_unseen_one_has_not(teach, kind):
    table = planted.draw(SPEC)
    known = table.iloc[0]
    lm = teach(kind, [known["text"]], 150)
    found = canary_exposures(lm, table[table["form"] == known["form"]]).set_index("canary_id")
    assert found.loc[known["canary_id"], "rank"] == 1
    assert found.loc[known["canary_id"], "exposure"] == pytest.approx(math.log2(1000))
    others = found.drop(known["canary_id"])
    assert (others["rank"] > 1).all()


def test_the_table_fits_its_schema_and_leaves_canary_patients_open(untrained, tmp_path):
    table = planted.draw(SPEC)
    steps = []
    found = canary_exposures(untrained["gpt2"], table, on_progress=lambda done, total: steps.append((done, total)))
    assert found["canary_id"].tolist() == table["canary_id"].tolist()
    assert found["inserted"].tolist() == table["inserted"].tolist()
    assert steps == [(number, len(table)) for number in range(1, len(table) + 1)]
    patients = found["form"] == "patient"
    assert patients.sum() == 1 and found.loc[patients, ["loss", "rank", "exposure"]].isna().all(axis=None)
    sentences = found[~patients]
    assert (sentences["reference_size"] == 1000).all() and sentences["rank"].between(1, 1000).all()
    assert list(found.columns) == SCHEMAS["canaries"].names
    back = pd.read_parquet(write_table(tmp_path, "canaries", found))
    assert (
        back.loc[~patients, "rank"].tolist() == sentences["rank"].tolist() and back.loc[patients, "rank"].isna().all()
    )


def test_the_canarys_own_text_ranks_among_all_thousand(untrained):
    row = planted.draw(SPEC).iloc[1]
    found = canary_exposures(untrained["gpt2"], pd.DataFrame([row])).iloc[0]
    texts = reference_texts(row)
    all_losses = secret_losses(untrained["gpt2"], texts)
    own = all_losses[texts.index(row["text"])]
    assert found["loss"] == pytest.approx(own)
    assert found["rank"] == (all_losses <= own).sum()  # itself included once


@pytest.mark.parametrize("number", range(3))
def test_sharing_beginnings_changes_no_loss(untrained, number, monkeypatch):
    """HS ends with its secret, HSH and HHSHH go on after it; the plain likelihood of every text is the oracle."""
    lm = untrained["gpt2"]
    texts = reference_texts(planted.draw(SPEC).iloc[number])[::7]
    expected = [-found.sum() for found in token_log_likelihoods(lm, texts)]
    np.testing.assert_allclose(secret_losses(lm, texts), expected, atol=1e-4)
    monkeypatch.setattr(secret_loss, "BATCH_TOKENS", 100)
    np.testing.assert_allclose(secret_losses(lm, texts), expected, atol=1e-4)
    np.testing.assert_allclose(secret_losses(lm, texts[:3]), expected[:3], atol=1e-4)  # nothing worth sharing


def test_secrets_of_different_lengths_are_scored_too(untrained):
    texts = ["alpha 4 8 2", "alpha 9 0", "alpha 1"]
    for kind in ("gpt2", "distilbert"):
        assert np.isfinite(secret_losses(untrained[kind], texts)).all()
    expected = [-found.sum() for found in token_log_likelihoods(untrained["gpt2"], texts)]
    np.testing.assert_allclose(secret_losses(untrained["gpt2"], texts), expected)


def test_a_canary_that_fits_in_no_sample_is_refused(untrained):
    with pytest.raises(ValueError, match="longer than 192 tokens"):
        secret_losses(untrained["gpt2"], ["4 8 2 " * 200, "4 8 3 " * 200])


@pytest.mark.parametrize("kind", ["distilbert", "bert"])
def test_masked_loss_hides_one_token_of_the_secret_at_a_time(untrained, kind):
    lm = untrained[kind]
    texts = ["alpha 4 8 2 omega", "alpha 9 0 0 omega", "alpha 1 4 7 omega", "alpha 4 8 9 omega"]
    expected = []
    for ids in encode_samples(lm, texts, 64).ids:
        digits = [place for place, token in enumerate(lm.tokenizer.convert_ids_to_tokens(ids)) if token.isdigit()]
        assert len(digits) == 3
        total = 0.0
        for place in digits:
            hidden = torch.from_numpy(ids)[None].clone()
            hidden[0, place] = lm.tokenizer.mask_token_id
            with torch.no_grad():
                total -= lm.model(input_ids=hidden).logits[0, place].log_softmax(-1)[ids[place]].item()
        expected.append(total)
    np.testing.assert_allclose(secret_losses(lm, texts), expected, atol=1e-4)


def test_canaries_of_random_words_rank_by_what_training_changed(teach, untrained):
    table = planted.draw(SPEC.model_copy(update={"canaries": 0, "canary_patients": 0, "random_canaries": 12}))
    lm, base = teach("gpt2", [table.iloc[3]["text"]], 150), untrained["gpt2"]
    found = canary_exposures(lm, table, lambda: base)
    assert found["canary_id"].tolist() == table["canary_id"].tolist()
    assert found.loc[3, "rank"] == 1 and (found.drop(3)["rank"] > 1).all()
    texts = [table.iloc[5]["text"], *planted.random_references()]
    before, after = (np.array([-one.sum() for one in token_log_likelihoods(model, texts)]) for model in (base, lm))
    drops = before - after
    assert found.loc[5, "rank"] == 1 + (drops[1:] >= drops[0]).sum()
    assert found.loc[5, "loss"] == pytest.approx(after[0])
    assert found.loc[5, "exposure"] == pytest.approx(math.log2(1000 / found.loc[5, "rank"]))


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_unread_canaries_of_random_words_rank_uniformly(untrained, kind, monkeypatch):
    few = planted.random_references()[:299]  # all 999 lines are drawn alike, and take three times as long
    monkeypatch.setattr(exposures, "random_references", lambda: few)
    table = planted.draw(SPEC.model_copy(update={"canaries": 0, "canary_patients": 0, "random_canaries": 60}))
    found = canary_exposures(untrained[kind], table)
    assert stats.kstest(found["rank"].astype(float) / 300, "uniform").pvalue > 1e-3
