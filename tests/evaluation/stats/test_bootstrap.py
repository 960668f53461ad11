from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import roc_auc_score

from core.evaluation.stats import bootstrap
from core.evaluation.stats.bootstrap import (
    patient_bootstrap,
    percentile_interval,
    weighted_auc,
    weighted_auc_difference,
    weighted_leakage,
    weighted_perplexity,
    weighted_share,
)
from core.evaluation.stats.roc import privacy_leakage, roc, says_member


@st.composite
def weighted_notes(draw):
    """Scores with ties, both groups present, and how often each note was drawn (some never)."""
    size = draw(st.integers(4, 20))
    scores = draw(st.lists(st.integers(-3, 3).map(float), min_size=size, max_size=size))
    weights = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    member = [True, False] * (size // 2) + [True] * (size % 2)
    weights[:2] = [max(weights[0], 1), max(weights[1], 1)]
    return np.array(scores), np.array(member), np.array(weights)


@given(weighted_notes())
@settings(max_examples=100)
def test_weighting_is_repeating(notes):
    """Every weighted statistic equals the plain one on notes repeated as often as they were drawn."""
    scores, member, weights = notes
    again, flags = np.repeat(scores, weights), np.repeat(member, weights)
    row = weights[None].astype(float)
    assert weighted_auc(scores, member)(row)[0] == pytest.approx(roc_auc_score(flags, again), abs=1e-12)
    apart = roc_auc_score(flags, again) - roc_auc_score(flags, again**2)
    assert weighted_auc_difference(scores, scores**2, member)(row)[0] == pytest.approx(apart, abs=1e-12)
    training = again[flags]
    expected = privacy_leakage(says_member(training, training), says_member(again[~flags], training))
    assert weighted_leakage(scores, member)(row)[0] == pytest.approx(expected, abs=1e-12)
    tokens = np.arange(1, len(scores) + 1)
    nats, length = np.repeat(scores * tokens, weights), np.repeat(tokens, weights)
    assert weighted_perplexity(scores, tokens)(row)[0] == pytest.approx(np.exp(nats.sum() / length.sum()))
    assert weighted_share(scores, tokens)(row)[0] == pytest.approx(np.repeat(scores, weights).sum() / length.sum())


def test_a_figure_that_is_not_defined_has_no_interval():
    """No unit was called a member, so there is no precision, whatever some resamples say."""
    found = percentile_interval(np.nan, np.array([1.0, np.nan, 1.0]), 15)
    assert np.isnan([found.value, found.low, found.high]).all()


def test_undefined_resamples_are_dropped_and_infinite_ones_are_not():
    """Without its 10 % of ∞ the upper end would be that of the finite resamples alone, and so too low."""
    finite = np.arange(900.0)
    plain = percentile_interval(450.0, finite, 1_000)
    assert percentile_interval(450.0, np.append(finite, np.full(100, np.nan)), 1_000) == plain
    endless = percentile_interval(450.0, np.append(finite, np.full(100, np.inf)), 1_000)
    assert endless.value == 450 and np.isnan([endless.low, endless.high]).all()
    rare = percentile_interval(450.0, np.append(finite, np.inf), 1_000)
    assert plain.high < rare.high < 900 and rare.low >= plain.low


def test_whole_patients_are_drawn_within_their_stratum():
    patients = np.repeat(["a", "b", "c", "d", "e"], [1, 2, 3, 1, 2])
    strata = np.repeat(["m", "m", "m", "n", "n"], [1, 2, 3, 1, 2])
    seen = []
    patient_bootstrap(lambda w: seen.append(w) or w.sum(axis=1), patients, strata, resamples=200, seed=1)
    weights = np.concatenate(seen[1:])
    assert weights.shape == (200, 9)
    for patient in "abcde":
        own = weights[:, patients == patient]
        assert (own == own[:, :1]).all()  # all notes of a patient together
    first = weights[:, [0, 1, 3]].sum(axis=1)
    second = weights[:, [6, 7]].sum(axis=1)
    assert (first == 3).all() and (second == 2).all()  # 3 and 2 patients are drawn, always


def test_chunks_change_nothing_and_a_seed_repeats(monkeypatch):
    rng = np.random.default_rng(0)
    scores, member, patients = rng.normal(size=60), np.arange(60) < 40, np.arange(60) // 3
    call = lambda seed: patient_bootstrap(weighted_auc(scores, member), patients, member, resamples=100, seed=seed)  # noqa: E731
    whole = call(3)
    assert call(3) == whole and call(4) != whole
    monkeypatch.setattr(bootstrap, "_CELLS", 60 * 7)
    assert call(3) == whole
    monkeypatch.setattr(bootstrap, "_KEPT_CELLS", 0)  # drawn again for each figure, in chunks
    assert call(3) == whole and call(4) != whole


def test_clusters_widen_the_interval():
    """Ten identical notes a patient say no more than one note a patient."""
    rng = np.random.default_rng(5)
    scores, member = np.repeat(rng.normal(size=40), 10), np.repeat(np.arange(40) < 20, 10)
    by_patient = patient_bootstrap(weighted_auc(scores, member), np.arange(400) // 10, member, resamples=400)
    by_note = patient_bootstrap(weighted_auc(scores, member), np.arange(400), member, resamples=400)
    assert by_patient.value == by_note.value
    assert by_patient.high - by_patient.low > 2 * (by_note.high - by_note.low)


def test_ends_are_expanded_percentiles():
    """With 5 patients Student's t(4) = 2.776 and √(5/4) put 0.096 % of resamples beyond each end, not 2.5 %."""
    values = np.arange(100_000.0)
    found = patient_bootstrap(lambda w: values[: len(w)], list("abcde"), resamples=100_000)
    tail = stats.norm.sf(2.776445 * np.sqrt(1.25))
    assert tail == pytest.approx(0.00096, abs=1e-5)
    assert (found.low, found.high) == pytest.approx((99_999 * tail, 99_999 * (1 - tail)), abs=0.5)


def test_a_single_patient_in_a_group_gives_a_figure_without_an_interval():
    found = patient_bootstrap(weighted_auc([1.0, 2.0, 0.0], [True, True, False]), ["a", "b", "c"], [1, 1, 0])
    assert found.value == 1.0 and np.isnan(found.low) and np.isnan(found.high)


def test_random_members_give_an_auc_interval_over_one_half():
    """Null calibration: members drawn at random cover 0.5, and PL covers 0, in about 95 % of 40 seeds.

    At a true coverage of 95 % fewer than 34 of 40 happen with chance 0.3 %.
    """
    covered = {"auc": 0, "leakage": 0}
    for seed in range(40):
        rng = np.random.default_rng(seed)
        patients = np.repeat(np.arange(80), rng.integers(1, 7, size=80))
        scores = rng.normal(size=80)[patients] + rng.normal(size=len(patients))  # notes of one patient are alike
        member = (rng.permutation(80) < 56)[patients]
        for name, statistic, blind in (("auc", weighted_auc, 0.5), ("leakage", weighted_leakage, 0.0)):
            found = patient_bootstrap(statistic(scores, member), patients, member, resamples=300, seed=seed)
            covered[name] += found.low <= blind <= found.high
    assert covered["auc"] >= 34 and covered["leakage"] >= 34, covered


def test_a_real_difference_is_found():
    rng = np.random.default_rng(2)
    member = np.arange(300) < 200
    scores = rng.normal(size=300) + 1.5 * member
    found = patient_bootstrap(weighted_auc(scores, member), np.arange(300), member)
    assert found.value == pytest.approx(roc(scores[member], scores[~member]).auc)
    assert 0.5 < found.low < found.value < found.high < 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: patient_bootstrap(lambda w: w.sum(axis=1), []), "at least one patient"),
        (lambda: patient_bootstrap(lambda w: w.sum(axis=1), ["a"], resamples=3), "at least 10"),
        (lambda: weighted_auc([1.0, 2.0], [True, True]), "empty"),
        (lambda: weighted_leakage([1.0, np.nan], [True, False]), "not numbers"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
