"""The private table of pairs: against plain loops, its sensitivity, and a mixture that is a distribution."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from bench.recipe import bigrams
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.models.build import LanguageModel, load
from core.models.encoding import encode
from core.spec import CORPUS_PRESETS, ModelSpec


@pytest.fixture(scope="module")
def lm() -> LanguageModel:
    return load(ModelSpec(kind="gpt2"))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build(CORPUS_PRESETS["smoke"])


def _with_notes(corpus: Corpus, kept: pd.Series) -> Corpus:
    return dataclasses.replace(corpus, notes=corpus.notes[kept])


def test_counts_are_those_of_a_loop_over_notes(lm: LanguageModel, corpus: Corpus) -> None:
    short = corpus.notes["text"].map(lambda text: len(encode(lm, [text])[0]) + 2 <= bigrams.MAX_TOKENS)
    one_sample_each = _with_notes(corpus, short)  # so that the loop needs no splitting
    expected: Counter[tuple[int, int]] = Counter()
    for text in one_sample_each.training_notes(None)["text"]:
        tokens = [lm.tokenizer.bos_token_id, *encode(lm, [text])[0], lm.tokenizer.eos_token_id]
        pairs = Counter(zip(tokens, tokens[1:], strict=False))
        norm = math.sqrt(sum(times**2 for times in pairs.values()))
        for pair, times in pairs.items():
            expected[pair] += times * min(1.0, bigrams.CLIP / norm)
    table = bigrams.clipped_counts(lm, one_sample_each)
    assert np.count_nonzero(table) == len(expected)
    assert all(table[pair] == pytest.approx(times) for pair, times in expected.items())


def test_one_note_more_moves_the_table_by_at_most_the_clipping_norm(lm: LanguageModel, corpus: Corpus) -> None:
    whole = bigrams.clipped_counts(lm, corpus)
    longest = corpus.training_notes(None)["text"].str.len().idxmax()
    note = corpus.training_notes(None).loc[longest, "note_id"]
    without = _with_notes(corpus, corpus.notes["note_id"] != note)
    moved = float(np.linalg.norm(whole - bigrams.clipped_counts(lm, without)))
    assert moved == pytest.approx(bigrams.CLIP)  # the longest note is clipped: the bound is reached, not passed


def test_the_mixture_is_a_distribution_and_falls_back_to_the_public_model() -> None:
    rng = np.random.default_rng(0)
    public = rng.dirichlet(np.ones(5))
    table = np.array([[0.0, 9.0, 4.0, 1.9, -3.0], *np.zeros((4, 5))])
    for row, kept in ((0, [0, 9, 4, 0, 0]), (1, [0, 0, 0, 0, 0])):
        scored = bigrams.Scored(np.full(5, row), np.arange(5), np.log(public), characters=1)
        found = np.exp(bigrams.mixed(table, 1.0, bigrams.Setting(threshold=2.0, weight=7.0), scored))
        assert found.sum() == pytest.approx(1.0)
        assert found == pytest.approx((np.array(kept) + 7.0 * public) / (sum(kept) + 7.0))


def test_more_noise_leaves_less_of_the_gain(lm: LanguageModel) -> None:
    smoke = CORPUS_PRESETS["smoke"]
    found = bigrams.measured(lm, smoke.model_copy(update={"seed": 7}), smoke, epsilons=(1_000.0, 0.5))
    base, weak, strong = (row["bits_per_character"] for row in found)
    assert weak < strong and weak < base
    assert found[1]["sigma"] < found[2]["sigma"]
