"""Rarity of disease profiles: equations 4 and 5 by hand and by a product, and buckets by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import pytest

from core.evaluation.rarity.profiles import LEAST, MOST_BUCKETS, bucket_edges, bucket_of, log_profile_probability


def test_equations_4_and_5_by_hand():
    codes = pd.Series({"p1": ["A"], "p2": ["A", "B"], "p3": ["A", "C"], "p4": []})
    found = log_profile_probability(codes)
    # p(A) = 3/4, p(B) = p(C) = 1/4
    expected = {"p1": 3 / 4 * 3 / 4 * 3 / 4, "p2": 3 / 4 * 1 / 4 * 3 / 4, "p3": 3 / 4 * 3 / 4 * 1 / 4, "p4": 9 / 64}
    assert list(found.index) == list(expected)
    assert np.exp(found).tolist() == pytest.approx(list(expected.values()))


def test_a_code_of_everybody_says_nothing_and_a_repeated_code_counts_once():
    once = log_profile_probability(pd.Series({"a": ["X", "Y"], "b": ["X"], "c": ["X"]}))
    assert np.exp(once).tolist() == pytest.approx([1 / 3, 2 / 3, 2 / 3])
    twice = log_profile_probability(pd.Series({"a": ["X", "Y", "Y"], "b": ["X"], "c": ["X"]}))
    assert twice.tolist() == once.tolist()
    assert log_profile_probability(pd.Series({"a": ["X"]})).tolist() == [0.0]


def test_it_agrees_with_the_product_it_stands_for():
    rng = random.Random(4)
    held = {f"p{n}": rng.sample("ABCDEFGHIJ", rng.randint(0, 6)) for n in range(40)}
    rate = {code: sum(code in codes for codes in held.values()) / len(held) for code in "ABCDEFGHIJ"}
    product = {
        who: math.prod(rate[code] if code in codes else 1 - rate[code] for code in rate) for who, codes in held.items()
    }
    assert np.exp(log_profile_probability(pd.Series(held))).to_dict() == pytest.approx(product)


def test_patients_whose_codes_are_equally_common_are_exactly_equally_rare():
    """A sum in another order differs by 1e-13, and at the edge of a bucket that would part them."""
    rng = random.Random(1)
    held = {f"filler {n}": [f"{side}{k}" for k in range(30) for side in "AB" if n < k] for n in range(40)}
    for n in range(20):
        one = [rng.choice("AB") + str(k) for k in rng.sample(range(30), 30)]
        held[f"one {n}"], held[f"other {n}"] = one, ["AB"[code[0] == "A"] + code[1:] for code in one]
    found = log_profile_probability(pd.Series(held)).drop([who for who in held if who.startswith("filler")])
    assert len(found) == 40
    assert found.nunique() == 1


def test_thousands_of_codes_do_not_underflow():
    codes = pd.Series({f"p{n}": [f"C{n}-{k}" for k in range(40)] for n in range(100)})
    found = log_profile_probability(codes)
    expected = 40 * math.log(0.01) + 99 * 40 * math.log(0.99)
    assert found.tolist() == pytest.approx([expected] * 100)
    assert found.iloc[0] < -200


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match="no patients"):
        log_profile_probability(pd.Series(dtype=object))
    with pytest.raises(ValueError, match="p1 occurs twice in the index"):
        log_profile_probability(pd.Series([["A"], ["B"]], index=["p1", "p1"]))


def test_buckets_are_quantiles_and_none_holds_few_held_out_patients():
    rng = np.random.default_rng(0)
    rare, member = rng.gumbel(size=430), np.arange(430) < 301
    rng.shuffle(member)
    edges = bucket_edges(rare, member, np.arange(430))
    bucket = bucket_of(rare, edges)
    sizes, heldout = np.bincount(bucket), np.bincount(bucket[~member])
    assert 1 < len(edges) < MOST_BUCKETS and heldout.min() >= LEAST and np.ptp(sizes) <= 1
    assert edges == pytest.approx(np.quantile(rare, np.arange(1, len(sizes)) / len(sizes)))
    assert rare[bucket == 0].max() < rare[bucket == 1].min(), "bucket 0 is the rarest"


def test_a_bucket_counts_patients_and_not_their_admissions():
    rare, member = np.arange(400.0), np.arange(400) % 2 == 0
    assert len(bucket_edges(rare, member, np.arange(400))) == MOST_BUCKETS - 1
    of_few = np.arange(400) % 30  # 15 members and 15 others, with many admissions each
    assert len(bucket_edges(rare, member, of_few)) == 0
    assert len(bucket_edges(rare[:60], member[:60], np.arange(60))) == 0
    assert len(bucket_edges(np.zeros(400), member, np.arange(400))) == 0, "nobody is rarer than anybody"


def test_equals_are_in_one_bucket():
    assert bucket_of(np.array([-3.0, -2.0, -2.0, -1.0]), np.array([-2.0])).tolist() == [0, 1, 1, 1]
