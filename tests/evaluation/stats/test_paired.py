"""Paired shares: published examples, a naive McNemar test, and how often the interval holds the truth."""

from __future__ import annotations

from itertools import product
from math import comb

import numpy as np
import pytest

from core.evaluation.stats.paired import Pairs, careful_difference, mcnemar, paired_difference, pairs


def test_newcombes_interval_is_that_of_the_published_example():
    """Cavo et al. 2012 in Fagerland, Lydersen & Laake 2017, ch. 8: 59, 6, 16, 80; −0.0621 (−0.1186, −0.0046)."""
    found = paired_difference(Pairs(stayed_right=59, lost=16, gained=6, stayed_wrong=80))
    assert [found.value, found.low, found.high] == pytest.approx([-0.0621, -0.1186, -0.0046], abs=5e-5)
    back = paired_difference(Pairs(stayed_right=59, lost=6, gained=16, stayed_wrong=80))
    assert [back.value, back.low, back.high] == pytest.approx([0.0621, 0.0046, 0.1186], abs=5e-5)


def test_the_interval_is_finite_and_holds_the_difference_for_every_small_class():
    for a, b, c, d in product(range(4), repeat=4):
        if a + b + c + d:
            found = paired_difference(Pairs(a, b, c, d))
            assert -1 - 1e-9 <= found.low <= found.value <= found.high <= 1 + 1e-9
            assert found.low < found.high, "nobody is certain after a few answers"


@pytest.mark.parametrize("shares", [(0.3, 0.1, 0.3, 0.3), (0.1, 0.05, 0.6, 0.25), (0.25, 0.25, 0.25, 0.25)])
def test_the_interval_holds_the_truth_in_about_95_of_100_classes(shares):
    rng, truth = np.random.default_rng(14), shares[2] - shares[1]
    drawn = rng.multinomial(24, shares, size=2_000)
    kept = [found.low <= truth <= found.high for row in drawn for found in [paired_difference(Pairs(*map(int, row)))]]
    assert 0.93 <= np.mean(kept) <= 0.99


@pytest.mark.parametrize(("gained", "lost"), list(product(range(9), repeat=2)))
def test_mcnemar_is_the_binomial_test_counted_by_hand(gained, lost):
    n, fewer = gained + lost, min(gained, lost)
    by_hand = min(1.0, 2 * sum(comb(n, k) for k in range(fewer + 1)) / 2**n)
    assert mcnemar(gained, lost) == pytest.approx(by_hand)


def test_known_p_values():
    assert mcnemar(1, 7) == pytest.approx(18 / 256), "Bentur et al. 2009: 0.0703"
    assert mcnemar(0, 0) == 1.0 and mcnemar(6, 0) == pytest.approx(2 / 64)
    with pytest.raises(ValueError, match="not negative"):
        mcnemar(-1, 2)


def test_pairs_are_counted_by_what_was_right_before_and_after():
    found = pairs([(True, True), (True, False), (False, True), (False, True), (False, False)])
    assert found == Pairs(stayed_right=1, lost=1, gained=2, stayed_wrong=1) and found.n == 5
    assert (found.before.value, found.after.value) == (0.4, 0.6)
    assert found.before.low < 0.4 < found.before.high
    with pytest.raises(ValueError, match="no"):
        paired_difference(Pairs())


def test_in_a_small_class_the_interval_never_claims_what_the_exact_test_does_not():
    for a, b, c, d in product(range(3), range(9), range(9), range(3)):
        if a + b + c + d:
            found, usual = careful_difference(Pairs(a, b, c, d)), paired_difference(Pairs(a, b, c, d))
            assert found.low <= usual.low <= usual.high <= found.high
            if mcnemar(c, b) > 0.05:
                assert found.low <= 1e-9 and found.high >= -1e-9
    assert careful_difference(Pairs(0, 0, 2, 0)).low == pytest.approx(2 * 0.025**0.5 - 1), "2 of 2: π ≥ √0.025"
    many = Pairs(59, 16, 6, 80)
    assert careful_difference(many).low == pytest.approx(-0.1186, abs=5e-5)
