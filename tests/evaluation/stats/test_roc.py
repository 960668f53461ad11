from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from core.evaluation.stats.bootstrap import weighted_leakage
from core.evaluation.stats.roc import privacy_leakage, roc, says_member

scores = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=25)  # few values: many ties


@given(scores, scores)
@settings(max_examples=150)
def test_auc_counts_pairs_and_agrees_with_scikit_learn(members, nonmembers):
    pairs = [(m > n) + 0.5 * (m == n) for m in members for n in nonmembers]
    found = roc(members, nonmembers)
    assert found.auc == pytest.approx(np.mean(pairs), abs=1e-12)
    labels = [1] * len(members) + [0] * len(nonmembers)
    assert found.auc == pytest.approx(roc_auc_score(labels, members + nonmembers), abs=1e-12)
    fpr, tpr, _ = roc_curve(labels, members + nonmembers, drop_intermediate=False)
    np.testing.assert_allclose(found.fpr, fpr, atol=1e-12)
    np.testing.assert_allclose(found.tpr, tpr, atol=1e-12)


@given(scores, scores, st.floats(0, 1))
@settings(max_examples=100)
def test_tpr_at_is_the_best_threshold_within_the_rate_and_says_the_rate_it_reached(members, nonmembers, limit):
    members, nonmembers = np.array(members), np.array(nonmembers)
    point = roc(members, nonmembers).tpr_at(limit)
    assert point.fpr <= limit
    assert point.tpr == pytest.approx((members >= point.threshold).mean())
    assert point.fpr == pytest.approx((nonmembers >= point.threshold).mean())
    allowed = [t for t in np.append(np.concatenate([members, nonmembers]), np.inf) if (nonmembers >= t).mean() <= limit]
    assert point.tpr == pytest.approx(max((members >= t).mean() for t in allowed))


def test_known_curve():
    found = roc([3.0, 2.0, 1.0], [2.0, 0.0])
    np.testing.assert_allclose(found.fpr, [0, 0, 0.5, 0.5, 1])
    np.testing.assert_allclose(found.tpr, [0, 1 / 3, 2 / 3, 1, 1])
    assert found.auc == pytest.approx(0.75)  # 6 pairs: 4 won, 1 lost, 1 tied
    assert found.tpr_at(0.1).tpr == pytest.approx(1 / 3) and found.tpr_at(0.1).fpr == 0.0


def test_direction_and_extremes():
    assert roc([2.0, 3.0], [0.0, 1.0]).auc == 1.0
    assert roc([0.0, 1.0], [2.0, 3.0]).auc == 0.0
    assert roc([1.0, 1.0], [1.0]).auc == 0.5  # all tied: blind
    assert roc([1.0, 1.0], [1.0]).tpr_at(0.5).tpr == 0.0  # nothing but all or none exists
    assert roc([-np.inf, 1.0], [0.0]).auc == 0.5


def test_privacy_leakage_is_tpr_minus_fpr():
    assert privacy_leakage([True, True, False, True], [True, False, False, False]) == pytest.approx(0.5)
    assert privacy_leakage([True], [True]) == 0.0
    assert privacy_leakage([False, False], [True]) == -1.0


def test_s_bba_says_member_where_the_loss_is_below_the_mean_training_loss():
    training = -np.array([1.0, 2.0, 3.0])  # scores: minus the loss; mean training loss 2
    assert says_member([-1.9, -2.0, -2.1], training).tolist() == [True, False, False]


@pytest.mark.parametrize(("members", "others", "words"), [([], [1.0], "of members"), ([1.0], [], "of non-members")])
def test_an_empty_group_is_a_clear_error(members, others, words):
    with pytest.raises(ValueError, match=words):
        roc(members, others)
    with pytest.raises(ValueError, match="there are no"):
        privacy_leakage(members, others)


def test_what_is_no_number_or_no_rate_is_refused():
    with pytest.raises(ValueError, match="not numbers"):
        roc([1.0, np.nan], [0.0])
    with pytest.raises(ValueError, match="between 0 and 1"):
        roc([1.0], [0.0]).tpr_at(1.5)


def test_no_note_is_above_the_mean_of_equal_scores():
    """A mean that was rounded down called every note a member."""
    for seed, value in enumerate(np.random.default_rng(4).normal(size=50)):
        equal = np.full(3 + seed, value)
        assert not says_member(equal, equal[2:]).any()
        assert weighted_leakage(equal, np.arange(len(equal)) < 2)(np.ones((1, len(equal)))) == [0.0]
