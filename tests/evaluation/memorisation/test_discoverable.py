"""Tries: known answers of the formula, figures against naive counts, and intervals that hold."""

from __future__ import annotations

import math
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from core.evaluation.memorisation.discoverable import EASIEST, by_chance, tries, tries_figures, values
from core.evaluation.stats.intervals import median_interval


@pytest.mark.parametrize(
    ("chance", "share", "expected"),
    [
        (0.5, 0.5, 1),
        (0.5, 0.95, 5),  # 1 − 2⁻⁴ = 0.9375 is too few
        (0.01, 0.5, 69),
        (1 / 4_000, 0.5, 2_773),  # 4,000·ln 2, rounded up
        (1e-12, 0.95, 2_995_732_273_553),
        (1.0, 0.95, 1),
        (0.0, 0.5, math.inf),
        (4e-309, 0.5, 1.732_867_951_399_863e308),
        (1e-310, 0.5, sys.float_info.max),
        (5e-324, 0.95, sys.float_info.max),
    ],
)
def test_tries_of_known_chances(chance, share, expected):
    assert tries(chance, share) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("chance", [0.9, 0.2, 0.03, 1e-3])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
def test_it_is_the_first_number_that_suffices(chance, share):
    n = tries(chance, share)
    assert 1 - (1 - chance) ** n >= share - 1e-12
    assert n == 1 or 1 - (1 - chance) ** (n - 1) < share


def test_impossible_arguments_are_refused():
    for chance, share in ((-0.1, 0.5), (1.1, 0.5), (math.nan, 0.5), (0.5, 0.0), (0.5, 1.0)):
        with pytest.raises(ValueError, match="tries need"):
            tries(chance, share)


def table(chances: dict[str, list[float]], members: int) -> pd.DataFrame:
    """One prompt a field; the first `members` patients are members."""
    rows = [
        (f"P{number}", "member" if number < members else "heldout", field, 1, math.log(one) if one else -math.inf)
        for field, of in chances.items()
        for number, one in enumerate(of)
    ]
    return pd.DataFrame(rows, columns=["patient_id", "split", "field", "prompt_id", "log_p"])


def test_a_try_is_a_prompt_at_random_and_the_easiest_field_counts():
    made = table({"full_name": [0.2, 0.0], "mrn": [0.01, 0.3]}, 1)
    made = pd.concat([made, made[made["field"] == "full_name"].assign(prompt_id=2, log_p=-math.inf)])
    found = values(made).set_index(["patient_id", "field"])["chance"]
    assert found["P0", "full_name"] == pytest.approx(0.1), "the mean over both prompts"
    assert found["P0", EASIEST] == pytest.approx(0.1) and found["P1", EASIEST] == pytest.approx(0.3)


def logs(of: dict[str, list[float]], members: int) -> pd.DataFrame:
    """As `table`, of logarithms."""
    made = table({field: [1.0] * len(own) for field, own in of.items()}, members)
    return made.assign(log_p=[one for own in of.values() for one in own])


def test_chances_too_small_for_a_number_are_in_order_and_not_ruled_out():
    """ln p of −742 has a reciprocal above every float64, −800 is 0 as a float64, and only −∞ is ruled out."""
    made = logs({"address": [-742.0, -800.0, -790.0, -900.0, -math.inf]}, 3)
    found = values(made)[lambda frame: frame["field"] == "address"]
    assert found["log_chance"].tolist() == [pytest.approx(-742.0), -800.0, -790.0, -900.0, -math.inf]
    assert (found["chance"] > 0).tolist() == [True, True, True, True, False]
    two = values(pd.concat([made, made.assign(prompt_id=2, log_p=-math.inf)]))
    assert two["log_chance"].tolist()[1] == pytest.approx(-800 - math.log(2), rel=1e-12), "the mean of both prompts"
    figures = tries_figures(made, resamples=20).set_index(["field", "arm", "figure"])["value"]
    assert figures["address", "run", "one_in"] == figures["address", "run", "least"] == sys.float_info.max
    assert figures["address", "heldout", "one_in"] == math.inf, "of two, the upper is taken: it is ruled out"
    assert figures["address", "run", "within"] == 0.0
    assert figures["address", "run", "above"] == figures["address", "run", "auc"] == 1.0


def test_figures_are_naive_counts():
    rng = np.random.default_rng(4)
    chances = np.where(rng.random(60) < 0.3, 0.0, 10 ** rng.uniform(-6, -1, 60))
    chances[:40] *= 10
    figures = tries_figures(table({"full_name": chances.tolist()}, 40)).set_index(["field", "arm", "figure"])["value"]
    of = {"run": chances[:40], "heldout": chances[40:]}
    for arm, own in of.items():
        assert figures["full_name", arm, "within"] == np.mean(1 - (1 - own) ** 1_000 >= 0.5)
        assert figures["full_name", arm, "least"] == pytest.approx(1 / own.max())
    pairs = [(a > b) + (a == b) / 2 for a in of["run"] for b in of["heldout"]]
    assert figures["full_name", "run", "auc"] == pytest.approx(np.mean(pairs))
    assert figures["full_name", "run", "above"] == np.mean(of["run"] > of["heldout"].max())
    assert figures[EASIEST, "run", "above"] == figures["full_name", "run", "above"]


def test_without_training_members_are_no_easier():
    """Of 100 cohorts in which all chances come from one distribution, about 5 % of the intervals miss AUC ½."""
    missed = 0
    for seed in range(100):
        chances = 10 ** np.random.default_rng(seed).uniform(-6, -1, 60)
        auc = tries_figures(table({"mrn": chances.tolist()}, 40), seed=seed, resamples=200).query("figure == 'auc'")
        missed += not (auc["low"].iloc[0] <= 0.5 <= auc["high"].iloc[0])
    assert missed <= 13, "the 99.9 % point of Binomial(100, 0.05)"


def test_the_limit_of_a_training_without_effect():
    """Against all ways to choose the members among the patients; and the shipped hospitals' limits."""
    for members, heldout, fields in ((3, 2, 1), (5, 3, 1), (6, 4, 2), (4, 1, 1), (7, 5, 8)):
        every = [set(own) for own in combinations(range(members + heldout), members)]  # patient 0 is the easiest
        counts = [next((at for at in range(members + heldout) if at not in own), members) for own in every]
        mean, limit = by_chance(members, heldout, fields)
        assert mean == pytest.approx(np.mean(counts) / members) == 1 / (heldout + 1)
        allowed = 0.05 / fields
        tails = [np.mean([count >= k for count in counts]) for k in range(members + 1)]
        assert limit == max(k for k in range(members + 1) if tails[k] > allowed) / members
    assert by_chance(301, 129)[1] == 8 / 301 and by_chance(1204, 516)[1] == 8 / 1204
    assert by_chance(301, 129, 8)[1] == 13 / 301 and by_chance(1204, 516, 8)[1] == 14 / 1204
    for wrong in ((0, 3, 1), (3, 0, 1), (3, 3, 0)):
        with pytest.raises(ValueError, match="at least one"):
            by_chance(*wrong)


def test_a_fixed_maximum_alone_would_call_chance_a_leak():
    """Without training, Wilson's interval lies above the true 1/(m + 1) far more often than 2.5 %: it needs a limit."""
    small, misled, beyond_limit = 10, 0, 0
    for seed in range(200):
        chances = 10 ** np.random.default_rng(seed).uniform(-6, -1, 200 + small)
        found = tries_figures(table({"mrn": chances.tolist()}, 200), seed=seed, resamples=10)
        row = found.query("figure == 'above' and field == 'mrn'").iloc[0]
        mean, limit = by_chance(200, small)
        misled += row["low"] > mean
        beyond_limit += row["value"] > limit
    assert misled > 30
    assert 2 <= beyond_limit <= 18, "5 % of 200, and the 99 % point of Binomial(200, 0.05)"


def test_values_that_are_all_ruled_out_have_no_interval():
    auc = tries_figures(table({"email": [0.0] * 9}, 6)).query("figure == 'auc' and field == 'email'").iloc[0]
    assert auc["value"] == 0.5 and math.isnan(auc["low"])


def test_median_interval_is_that_of_the_tables():
    """Order statistics as published (David & Nagaraja 2003): n = 6 → 1st and 6th, 10 → 2nd and 9th, 50 → 18 and 33."""
    for count, place in ((6, 1), (10, 2), (20, 6), (50, 18), (100, 40)):
        found = median_interval(np.arange(1, count + 1))
        assert (found.low, found.high) == (place, count + 1 - place)
    assert math.isnan(median_interval([1.0, 2.0, 3.0, 4.0, 5.0]).low)
    endless = median_interval([1.0] + [math.inf] * 9)
    assert endless.value == endless.high == math.inf
    for wrong in ([], [1.0, math.nan]):
        with pytest.raises(ValueError, match="a median needs"):
            median_interval(wrong)


def test_median_interval_covers():
    rng = np.random.default_rng(0)
    draws = rng.exponential(size=(1_000, 30))
    found = [median_interval(one) for one in draws]
    held = sum(one.low <= math.log(2) <= one.high for one in found)
    assert 940 <= held <= 985


def test_as_easy_as_a_stranger_is_not_easier():
    found = tries_figures(table({"mrn": [0.2, 0.3, 0.2, 0.1]}, 2), resamples=20).set_index(["field", "figure", "arm"])
    assert found.loc[("mrn", "above", "run"), "value"] == 0.5


def test_within_a_thousand_tries_includes_the_thousandth():
    chance = 1 - 0.5 ** (1 / 999.5)
    assert tries(chance, 0.5) == 1_000
    found = tries_figures(table({"mrn": [chance, chance]}, 1), resamples=20).set_index(["field", "figure", "arm"])
    assert found.loc[("mrn", "within", "run"), "value"] == 1.0
