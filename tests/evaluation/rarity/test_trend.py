"""Whether rarer patients leak more: models without a trend claim none, models with one do, and what is said of both."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.corpus.synthetic.hospital import build
from core.evaluation.rarity.leakage import leakage
from core.evaluation.rarity.profiles import bucket_edges, log_profile_probability
from core.evaluation.rarity.trend import (
    ALPHA,
    Trend,
    adjusted_interaction,
    adjusted_sentence,
    corrected_over,
    figures_sentence,
    headline,
    slopes_sentence,
    trend,
    verdict_of,
)
from core.evaluation.stats.bootstrap import Interval
from core.spec import CORPUS_PRESETS

MODELS = 200
ALLOWED = int(stats.binom.isf(0.001, MODELS, ALPHA))  # a sound test claims a trend more often in 1 of 1,000 runs


@cache
def hospital() -> pd.DataFrame:
    """The classroom hospital's members and held-out patients: ln p, number of codes, number and length of notes."""
    corpus = build(CORPUS_PRESETS["classroom"])
    people = corpus.patients[corpus.patients["split"] != "canary"].set_index("patient_id")
    notes = corpus.notes.assign(tokens=corpus.notes["text"].str.count(r"\w+|[^\w\s]")).groupby("patient_id")["tokens"]
    found = pd.DataFrame(
        {
            "log_probability": log_profile_probability(people["icd_codes"]),
            "tokens": notes.mean(),
            "notes": notes.size(),
            "codes": people["icd_codes"].map(lambda codes: len(set(codes))),
            "split": people["split"],
        }
    )
    return found[found["split"].isin(["member", "heldout"])].dropna()


def model(seed: int, *, gain: float, predictable: float = 1.0, by_rarity: float = 0.0, spread: float = 1.0):
    """Scores of a simulated model on these patients, and the edges of the buckets.

    How predictable notes are depends on rarity, number of codes and length; members gain `gain`, whatever their rarity,
    and `by_rarity` more for each deviation of it. `spread` is that of members' own differences over held-out patients'.
    """
    rng, people = np.random.default_rng([seed, 8]), hospital()
    rare, codes, length = (
        stats.zscore(values) for values in (-people["log_probability"], people["codes"], np.log(people["tokens"]))
    )
    member = rng.permutation((people["split"] == "member").to_numpy())
    noise = rng.normal(size=len(people)) + rng.normal(size=len(people)) / np.sqrt(people["notes"])
    score = predictable * rare + 0.3 * codes - 0.4 * length + np.where(member, spread, 1.0) * noise
    units = people.assign(
        patient=np.arange(len(people)),
        member=member,
        score=score + member * (gain + by_rarity * rare),
        passes=True,
        percentile=0.5,
    )
    order = (units["log_probability"].to_numpy(), units["member"].to_numpy(), units["patient"].to_numpy())
    return units.reset_index(drop=True), bucket_edges(*order)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"gain": 0.0, "predictable": 0.3},  # leaks nothing
        {"gain": 2.0, "predictable": 2.0},  # leaks much, and rare profiles are far easier to predict
        {"gain": 2.0, "predictable": -1.0, "spread": 0.4},  # … harder, and members are alike
    ],
    ids=["blind", "leaky", "alike"],
)
def test_of_200_models_without_a_trend_at_most_5_percent_claim_one(settings, monkeypatch):
    monkeypatch.setattr("core.evaluation.rarity.trend.PERMUTATIONS", 199)
    monkeypatch.setattr("core.evaluation.rarity.trend.adjusted_interaction", lambda units, seed: ONE.adjusted)
    found = [corrected_over({"a": trend(*model(seed, **settings))})["a"] for seed in range(MODELS)]
    assert all(one.obstacle == "" and one.buckets > 2 for one in found)
    claims = sum(verdict_of(one) != "no trend found" for one in found)
    assert claims <= ALLOWED
    if settings["gain"] > 0 and "spread" not in settings:
        naive = sum(rank_correlation_over_buckets(*model(seed, **settings)) < ALPHA for seed in range(50))
        assert naive > stats.binom.isf(0.001, 50, ALPHA), "one threshold for everybody finds trends that are not there"


def rank_correlation_over_buckets(units: pd.DataFrame, edges: np.ndarray) -> float:
    """The p-value of the earlier statistic: ρ of rarity and caught less accused, at one threshold, over 16 ranges."""
    caught = units["score"] > units.loc[units["member"], "score"].mean()
    bucket = pd.cut(units["log_probability"], 24, labels=False)
    rates = units.assign(caught=caught, bucket=bucket).groupby(["bucket", "member"])["caught"].mean().unstack().dropna()
    sizes = bucket.value_counts()
    rates = rates[sizes[rates.index] >= 10]
    return float(stats.spearmanr(rates.index, rates[True] - rates[False]).pvalue)


@pytest.mark.parametrize(("by_rarity", "says"), [(1.0, "rarer patients leak more"), (-1.0, "rarer patients leak less")])
def test_a_trend_that_is_there_is_found_with_its_direction(by_rarity, says):
    found = [corrected_over({"a": trend(*model(s, gain=1.0, by_rarity=by_rarity))})["a"] for s in range(12)]
    assert sum(verdict_of(one) == says for one in found) >= 11
    assert all(np.sign(one.slope.value) == np.sign(by_rarity) for one in found)


def test_the_slope_is_the_line_through_the_buckets_and_p_is_not_zero():
    units, edges = model(3, gain=1.0, by_rarity=0.8)
    found = trend(units, edges)
    auc = leakage(units, edges)["auc"].to_numpy()
    assert found.slope.value == pytest.approx(-np.polyfit(np.linspace(0, 1, len(auc)), auc, 1)[0])
    assert found.slope.low < found.slope.value < found.slope.high and 0 < found.p_value < 0.05
    assert found == trend(units, edges), "the same seed gives the same"


def test_the_model_finds_what_rarity_adds_beside_codes_and_length():
    """An independent oracle: two separate regressions, one a side, and the difference of their slopes."""
    units, _ = model(4, gain=1.0, by_rarity=0.7)
    found = adjusted_interaction(units)
    about = np.column_stack(
        [stats.zscore(values) for values in (-units["log_probability"], units["codes"], np.log(units["tokens"]))]
    )
    slopes = []
    for side in (units["member"].to_numpy(), ~units["member"].to_numpy()):
        design = np.column_stack([np.ones(side.sum()), about[side]])
        slopes.append(np.linalg.lstsq(design, units["score"].to_numpy()[side], rcond=None)[0][1])
    spread = units.loc[~units["member"], "score"].std(ddof=0)
    assert found.value == pytest.approx((slopes[0] - slopes[1]) / spread)
    assert found.low < 0.7 / spread < found.high


@pytest.mark.slow
def test_intervals_of_the_model_hold_a_gain_that_does_not_depend_on_rarity(monkeypatch):
    monkeypatch.setattr("core.evaluation.rarity.trend.RESAMPLES", 200)
    found = [adjusted_interaction(model(seed, gain=1.0)[0], seed=seed) for seed in range(100)]
    assert sum(not one.low <= 0 <= one.high for one in found) <= stats.binom.isf(0.001, 100, ALPHA)


def test_a_ceiling_and_few_patients_are_said_and_not_tested():
    high = trend(*model(0, gain=20.0))
    assert high.obstacle == "ceiling" and math.isnan(high.p_value)
    assert "cannot tell" in headline("loss", high) and "above 0.98" in figures_sentence(high)
    units, edges = model(0, gain=1.0)
    few = trend(units.assign(passes=units.index < 60), edges)
    assert few.obstacle == "few" and "too few patients" in headline("loss", few)
    none = trend(units.assign(passes=False), edges)
    assert none.obstacle == "few" and slopes_sentence(none) == "" and adjusted_sentence(none) == ""
    same = trend(units.assign(score=0.3), edges)
    assert same.obstacle == "equal" and math.isnan(same.p_value) and "cannot tell" in verdict_of(same)
    assert "same score" in headline("loss", same) and "0.5" in figures_sentence(same)


ONE = Trend(301, 129, 5, 0.8, Interval(0.2, 0.1, 0.3), 0.01, Interval(0.4, 0.1, 0.7), 0.1, 0.3, "")


def test_holm_by_hand():
    made = {name: replace(ONE, p_value=p) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03), ("d", 0.9))}
    found = corrected_over(made | {"e": replace(ONE, p_value=math.nan, obstacle="ceiling")})
    assert [found[name].corrected for name in "abcd"] == pytest.approx([0.04, 0.09, 0.09, 0.9])
    assert found["a"].tested == 4 and math.isnan(found["e"].corrected)


def test_every_figure_says_its_direction():
    more = replace(ONE, corrected=0.03, tested=4)
    assert headline("zlib", more) == "Rarer patients leak more under the loss relative to the compressed size (zlib)."
    assert "leak less" in headline("zlib", replace(more, slope=Interval(-0.2, -0.3, -0.1)))
    assert "the data do not show" in headline("zlib", replace(more, corrected=0.2, tested=1))
    chance = replace(more, slope=Interval(0.1, 0.03, 0.17), corrected=0.06, tested=6)
    assert headline("ratio base", chance) == (
        "Rarer patients look easier to recognise by the likelihood ratio to the public model (ratio base), but not "
        "clearly: with 6 attacks tested, chance alone shows as much in up to 6 of 100 such cohorts."
    )
    assert "look harder" in headline("loss", replace(chance, slope=Interval(-0.1, -0.17, -0.03)))
    assert "the data do not show" in headline("loss", replace(chance, slope=Interval(0.1, -0.03, 0.17)))
    told = figures_sentence(more)
    assert "changes by +0.20" in told and "corrected for the 4 attacks tested, p = 0.030" in told
    assert told.endswith("A change above 0 means that rarer patients leak more.")
    assert "0.40 standard deviations more" in adjusted_sentence(more) and "contains 0" not in adjusted_sentence(more)
    less = replace(more, adjusted=Interval(-0.1, -0.4, 0.2))
    assert "0.10 standard deviations less" in adjusted_sentence(less) and "contains 0" in adjusted_sentence(less)
    assert "score higher (Spearman's ρ +0.30; members: +0.10" in slopes_sentence(more)
    unclear = replace(more, heldout_rho=-0.17)  # of 129 patients, 1.96 / √128 = 0.173 is beyond chance
    assert "rarer profiles do not clearly score higher or lower than others" in slopes_sentence(unclear)
    assert "rarer profiles tend to score lower" in slopes_sentence(replace(more, heldout_rho=-0.18))
