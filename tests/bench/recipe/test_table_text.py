"""Text from a private table: what the mixture writes, and that table and training stay within ε together."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, pld

from bench.recipe import bigrams, table_text
from core.models.build import LanguageModel, load
from core.models.encoding import encode
from core.spec import CORPUS_PRESETS, ModelSpec, TrainingSpec
from core.training.accounting import noise_multiplier

DELTA = 1e-5


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load(ModelSpec(kind="gpt2"))


def test_without_a_table_all_of_the_budget_is_for_training() -> None:
    alone = noise_multiplier(target_epsilon=8.0, sample_rate=0.1, steps=50, delta=DELTA)
    assert table_text.noise_left(8.0, DELTA, None, 0.1, 50) == alone


@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_table_and_training_spend_epsilon_together(epsilon: float) -> None:
    whole = noise_multiplier(target_epsilon=epsilon, sample_rate=1.0, steps=1, delta=DELTA)
    found = [table_text.noise_left(epsilon, DELTA, whole / share, 0.1, 50) for share in (0.3, 0.8)]
    alone = noise_multiplier(target_epsilon=epsilon, sample_rate=0.1, steps=50, delta=DELTA)
    assert alone < found[0] < found[1]
    ledger = pld.PLDAccountant().compose(GaussianDpEvent(whole / 0.8))
    ledger.compose(PoissonSampledDpEvent(0.1, GaussianDpEvent(found[1])), 50)
    assert 0.99 * epsilon < ledger.get_epsilon(DELTA) <= epsilon + 1e-3


def test_a_table_without_noise_is_followed_and_ends_the_text(lm: LanguageModel) -> None:
    size, tokens = len(lm.tokenizer), encode(lm, [" fever and cough"])[0]
    table = np.zeros((size, size))
    chain = [lm.tokenizer.bos_token_id, *tokens, lm.tokenizer.eos_token_id]
    for before, after in zip(chain, chain[1:], strict=False):
        table[before, after] = 1e9
    texts = table_text.write_texts(lm, table, bigrams.Setting(threshold=2.0, weight=3.0), 1e-3, 5)
    assert texts == [" fever and cough"] * 5


def test_an_empty_table_leaves_the_public_model(lm: LanguageModel) -> None:
    size = len(lm.tokenizer)
    chosen = bigrams.Setting(threshold=2.0, weight=3.0)
    texts = table_text.write_texts(lm, np.zeros((size, size)), chosen, 1.0, 8)
    assert len(set(texts)) == 8 and texts == table_text.write_texts(lm, np.zeros((size, size)), chosen, 1.0, 8)


def test_a_setting_is_measured_before_and_after_private_training() -> None:
    setting = table_text.Setting(patients=40, epsilon=8.0, share=0.5)
    short = TrainingSpec(epochs=1, batch_size=64, learning_rate=1e-3, warmup=0.0)
    row = table_text.measured(setting, CORPUS_PRESETS["smoke"], texts=64, training=short)
    assert (row["epsilon"], row["share"], row["rate"]) == (8.0, 0.5, 1e-3)
    assert (
        row["written"]["perplexity"] > 1
        and row["perplexity"] > 1
        and row["written"] != {key: row[key] for key in row["written"]}
    )
    assert row["sigma"] > noise_multiplier(
        target_epsilon=8.0, sample_rate=64 / row["notes"], steps=row["steps"], delta=DELTA
    )
