"""The AUC of a bucket and its interval: naive pairs, an independent variance, and coverage of a known truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.rarity.leakage import COLUMNS, clustered_variance, leakage, places, predictability_removed


def people(seed: int, members: int = 60, heldout: int = 50, *, shift: float = 1.0, each: int = 1) -> pd.DataFrame:
    """Units as `PatientTables.judged` gives them; the score rises with rarity and falls with length on both sides."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(members + heldout), each)
    member, size = patient < members, len(patient)
    rare, tokens = rng.normal(-15, 5, size), rng.integers(20, 140, size)
    own = rng.normal(size=members + heldout)[patient]
    score = own + rng.normal(size=size) * (each > 1) + shift * member - 0.2 * rare - np.log(tokens)
    return pd.DataFrame(
        {
            "patient": patient,
            "member": member,
            "score": score,
            "percentile": stats.rankdata(score) / size,
            "tokens": tokens,
            "log_probability": rare,
            "codes": rng.integers(1, 9, size),
            "passes": True,
        }
    )


def test_a_buckets_auc_is_the_share_of_its_pairs():
    units = people(0)
    edges = np.array([-15.0])
    table = leakage(units, edges)
    cleaned = predictability_removed(units)
    for row, inside in zip(
        table.itertuples(), (units["log_probability"] < -15, units["log_probability"] >= -15), strict=True
    ):
        ours, theirs = (cleaned[(inside & side).to_numpy()] for side in (units["member"], ~units["member"]))
        pairs = np.sign(ours[:, None] - theirs[None, :])
        assert row.auc == pytest.approx(((pairs + 1) / 2).mean())
        assert (row.members, row.heldout) == (len(ours), len(theirs)) and row.low < row.auc < row.high
        assert row.heldout_percentile == pytest.approx(units.loc[inside & ~units["member"], "percentile"].mean())
    assert list(table.columns) == list(COLUMNS) and table["rarer_than"].is_monotonic_decreasing


def test_predictability_is_what_both_sides_share():
    """A regression by hand: what is left depends on rarity and length on neither side, and membership stays."""
    units = people(1, 400, 400, shift=3.0)
    cleaned = predictability_removed(units)
    for side in (units["member"], ~units["member"]):
        assert abs(stats.spearmanr(units.loc[side, "log_probability"], cleaned[side.to_numpy()]).statistic) < 0.12
        assert abs(stats.spearmanr(units.loc[side, "tokens"], cleaned[side.to_numpy()]).statistic) < 0.12
    assert np.mean(cleaned[units["member"]]) - np.mean(cleaned[~units["member"]]) == pytest.approx(3.0, abs=0.3)


def test_small_buckets_and_those_who_do_not_pass_have_no_figure():
    units = people(2)
    units.loc[units["log_probability"] < -15, "passes"] = False
    table = leakage(units, np.array([-15.0]))
    assert table["bucket"].tolist() == [1] and table["kept"].tolist() == [True]
    everybody = leakage(people(2), np.array([-40.0, -15.0]))
    assert everybody["bucket"].tolist() == [1, 2] and everybody["kept"].all(), "an empty bucket has no row"
    few = leakage(people(2, 60, 19), np.zeros(0))
    assert not few["kept"].any() and few["auc"].isna().all() and few["heldout"].tolist() == [19]
    assert leakage(people(2).iloc[:0], np.zeros(0)).empty


def test_both_sides_places_have_the_auc_as_their_mean():
    found = places(people(3), np.zeros(0))
    (ours, _, _), (theirs, _, _) = found.side(True), found.side(False)
    assert ours.mean() == pytest.approx(theirs.mean())


def test_the_variance_is_delongs_and_admissions_that_are_copies_add_nothing():
    rng = np.random.default_rng(4)
    place, who = rng.random(30), np.arange(30)
    assert clustered_variance(place, who) == pytest.approx(place.var(ddof=1) / 30)
    assert clustered_variance(np.repeat(place, 5), np.repeat(who, 5)) == pytest.approx(place.var(ddof=1) / 30)


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "each"), [(0.0, 1), (2.5, 1), (1.5, 3)])
def test_intervals_hold_the_truth_nineteen_times_in_twenty(shift, each):
    """200 buckets of 58 members and 25 held-out patients, as the shipped ones are."""
    truth = stats.norm.cdf(shift / np.sqrt(2 if each == 1 else 4))
    found = [leakage(people(seed, 58, 25, shift=shift, each=each), np.zeros(0)).iloc[0] for seed in range(200)]
    missed = sum(not row["low"] <= truth <= row["high"] for row in found)
    assert missed <= stats.binom.isf(0.001, 200, 0.05)


def test_a_bucket_in_which_every_pair_is_in_order_still_has_an_interval():
    row = leakage(people(5, shift=50.0), np.zeros(0)).iloc[0]
    assert row["auc"] == 1 and 0.8 < row["low"] < row["high"] == 1


@pytest.mark.parametrize("score", [0.0, 0.3])
def test_equal_scores_are_not_ranked_by_their_rounding(score):
    units = people(6).assign(score=score)
    assert (predictability_removed(units) == score).all()
    row = leakage(units, np.zeros(0)).iloc[0]
    assert row["auc"] == 0.5 and np.isnan([row["low"], row["high"]]).all()
