"""Rarity of disease profiles: equations 4 and 5 by hand and by a product, and buckets by hand."""

from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import pytest

from core.evaluation.rarity import bucket_of, log_normalised, log_profile_probability, number_of_buckets


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


def test_thousands_of_codes_do_not_underflow():
    codes = pd.Series({f"p{n}": [f"C{n}-{k}" for k in range(40)] for n in range(100)})
    found = log_profile_probability(codes)
    expected = 40 * math.log(0.01) + 99 * 40 * math.log(0.99)
    assert found.tolist() == pytest.approx([expected] * 100)
    assert found.iloc[0] < -200


def test_bad_input_gets_a_sentence():
    with pytest.raises(ValueError, match="no patients"):
        log_profile_probability(pd.Series(dtype=object))
    with pytest.raises(ValueError, match="p1 stands there twice"):
        log_profile_probability(pd.Series([["A"], ["B"]], index=["p1", "p1"]))


def test_buckets_are_equal_ranges_of_the_logarithm():
    place = log_normalised(np.array([-10.0, -8.0, -7.5, -6.0, -2.0]))
    assert place.tolist() == pytest.approx([0, 0.25, 0.3125, 0.5, 1])
    assert bucket_of(place, 4).tolist() == [0, 1, 1, 2, 3]
    assert log_normalised(np.array([-3.0, -3.0])).tolist() == [0, 0]


def test_as_many_buckets_as_leave_three_quarters_of_them_full():
    place = np.repeat([0.05, 0.3, 0.55, 0.8], 10)  # four clumps of ten
    patient = np.arange(40)
    # up to 100 equal ranges each clump is a bucket of its own: all that hold anybody are full
    assert number_of_buckets(place, patient) == 100
    assert number_of_buckets(place, patient, most=3) == 3
    thin = np.linspace(0, 1, 40)
    count = number_of_buckets(thin, patient)
    sizes = np.bincount(bucket_of(thin, count))
    assert (sizes >= 10).mean() >= 0.75 and count == 4  # 40 patients fill four buckets
    assert number_of_buckets(thin[:9], patient[:9]) == 1
    assert number_of_buckets(np.zeros(1_000), np.arange(1_000)) == 1, "nobody is rarer than anybody"
    assert number_of_buckets(np.repeat(thin, 3), np.repeat(patient, 3)) == 4, "admissions of one patient count once"
