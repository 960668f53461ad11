from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.evaluation.stats.intervals import mean_interval, proportion_interval
from core.evaluation.sweep.sizes import gain_kept
from core.evaluation.sweep.tradeoff import interpolate, points, recovered

BASE_PERPLEXITY = 100.0
PERPLEXITY = {1.0: 20.0, 8.0: 10.0, math.inf: 5.0}
NAMES = {1.0: 0, 8.0: 0, math.inf: 40}  # of 301 members


def run(kind: str, epsilon: float, seed: int) -> pd.DataFrame:
    """Metrics of one imagined run, as core.runs.queries.metrics gives them."""
    rows = [
        ("perplexity_heldout", "run", PERPLEXITY.get(epsilon, 7.0) * (1 + 0.01 * seed), 4.0, 30.0),
        ("perplexity_heldout", "base", BASE_PERPLEXITY, 90.0, 110.0),
        ("perplexity_public", "run", 150.0 + seed, 140.0, 160.0),
        ("perplexity_public", "base", 100.0, 90.0, 110.0),
        ("auc_loss", "run", (0.9 if math.isinf(epsilon) else 0.5) + 0.01 * seed, 0.45, 0.95),
        ("full_name_patients", "run", NAMES.get(epsilon, 1) / 301, *proportion_interval(NAMES.get(epsilon, 1), 301)),
        ("full_name_patients", "heldout", 1 / 129, *proportion_interval(1, 129)),
        ("known_words", "run", 0.95, 0.94, 0.96),
        ("exposure:8", "run", math.nan, math.nan, math.nan),
    ]
    frame = pd.DataFrame(rows, columns=["metric", "arm", "value", "low", "high"])
    return frame.assign(kind=kind, size="tiny", base="assets", corpus="c1", epsilon=epsilon, seed=seed)


@pytest.fixture(scope="module")
def metrics():
    runs = [run("gpt2", epsilon, seed) for epsilon in PERPLEXITY for seed in range(3)]
    return pd.concat([*runs, run("gpt2", 0.0, 0), run("gpt2", math.nan, 0)], ignore_index=True)


def curve(frame: pd.DataFrame, metric: str, arm: str = "run") -> pd.DataFrame:
    return frame[(frame["metric"] == metric) & (frame["arm"] == arm)]


def test_points_are_means_over_seeds(metrics):
    found = curve(points(metrics), "perplexity_heldout").set_index("epsilon")
    assert found.index.tolist() == [1.0, 8.0, math.inf]  # neither the base run (0) nor a run by σ (nan)
    assert found.loc[8.0, "value"] == pytest.approx(10 * 1.01)
    assert (found["seeds"] == 3).all() and (found["interval"] == "seeds").all()
    assert "exposure:8" not in set(points(metrics)["metric"])


def test_a_seed_that_went_astray_makes_the_mean_endless_and_leaves_it_without_an_interval(metrics):
    """exp of a loss above 709 nats is ∞ as a float64; such a run has no interval, but the others have."""
    astray = (metrics["metric"] == "perplexity_heldout") & (metrics["epsilon"] == 8) & (metrics["seed"] == 1)
    astray &= metrics["arm"] == "run"
    changed = metrics.copy()
    changed.loc[astray, ["value", "low", "high"]] = (math.inf, math.nan, math.nan)
    found, before = points(changed), points(metrics)
    own = curve(found, "perplexity_heldout").set_index("epsilon")
    assert own.loc[8.0, "value"] == math.inf and own.loc[8.0, ["low", "high"]].isna().all()
    assert interpolate(own.reset_index(), 4.0).value == math.inf
    same = before[(before["metric"] != "perplexity_heldout") | (before["epsilon"] != 8)]
    pd.testing.assert_frame_equal(found.loc[same.index], same)
    assert gain_kept(changed, 8.0) is None and gain_kept(metrics, 8.0) is not None
    with pytest.raises(ValueError, match="above every number"):
        recovered(np.full(2, 100.0), np.array([math.inf, 10.0]), np.array([5.0, 5.0]))


def test_runs_that_were_searched_by_different_detectors_are_no_seeds_of_one_another():
    """Only `known_words` depends on the detector; all else is of all seeds. Equally many: that with the tagger."""

    def searched(name: str, epsilon: float, seed: int, known: float) -> pd.DataFrame:
        rows = run("gpt2", epsilon, seed)
        words = rows["metric"] == "known_words"
        note = np.where(words, f"identifiers left out, found by {name}; generations resampled", "patients resampled")
        return rows.assign(value=np.where(words, known, rows["value"]), note=note)

    rules, tagger = "rules 2", "rules 2 + en_core_web_sm 3.8.0"
    rows = [searched(tagger, 8.0, 0, 0.9), searched(tagger, 8.0, 1, 0.9), searched(rules, 8.0, 2, 0.6)]
    found = points(pd.concat([*rows, searched(rules, 1.0, 0, 0.5)]))
    assert curve(found, "auc_loss").set_index("epsilon")["seeds"].to_dict() == {1.0: 1, 8.0: 3}
    words = curve(found, "known_words")
    assert words[["epsilon", "value", "seeds"]].to_numpy().tolist() == [[8.0, 0.9, 2]]
    (alone,) = curve(points(pd.concat(rows[1:])), "known_words")["value"]
    assert alone == 0.9
    (alone,) = curve(points(pd.concat([rows[2], rows[2].assign(seed=3), rows[0]])), "known_words")["value"]
    assert alone == 0.6


def test_an_interval_over_seeds_is_never_narrower_than_the_runs_own(metrics):
    leaks = curve(points(metrics), "full_name_patients").set_index("epsilon").loc[8.0]
    assert leaks["value"] == 0.0
    assert leaks["high"] == pytest.approx(proportion_interval(0, 301)[1])  # three seeds without a leak do not prove 0
    values = [10.0, 20.0, 60.0]
    wide = pd.concat([run("gpt2", 2.0, seed) for seed in range(3)])
    wide.loc[wide["metric"] == "perplexity_heldout", "value"] = np.repeat(values, 2)
    found = curve(points(wide), "perplexity_heldout").iloc[0]
    assert found["high"] == pytest.approx(mean_interval(values)[2]) and found["low"] == 1.0  # no perplexity below 1


def test_no_interval_over_seeds_goes_beyond_the_most_that_a_rank_can_expose():
    """Two seeds, 9.9 and 9.7 bits: Student's t ends at 11, but a secret is one of 1,000."""
    rows = [
        run("gpt2", 8.0, seed)[lambda frame: frame["metric"] == "exposure:8"].assign(value=value, low=8.0, high=9.96)
        for seed, value in enumerate((9.9, 9.7))
    ]
    found = curve(points(pd.concat(rows, ignore_index=True)), "exposure:8").iloc[0]
    assert mean_interval(np.array([9.9, 9.7]))[2] > 11
    assert found["high"] == pytest.approx(math.log2(1_000)) and found["low"] == pytest.approx(8.0)


def test_bits_and_tokens_are_no_shares():
    """What stands in for perplexity has no upper end: an interval over seeds is not cut at 1."""
    for metric, value in (("bits_per_character_heldout", 3.0), ("tokens_per_note_heldout", 58.0)):
        rows = pd.concat([run("gpt2", math.inf, seed).head(1) for seed in range(2)])
        rows = rows.assign(metric=metric, value=[value, value + 0.1], low=value - 0.2, high=value + 0.2)
        found = points(rows).iloc[0]
        assert found["low"] < found["value"] < found["high"] and found["high"] > value


def test_one_seed_keeps_its_own_interval():
    found = curve(points(run("gpt2", 2.0, 5)), "auc_loss").iloc[0]
    assert (found["value"], found["low"], found["high"]) == pytest.approx((0.55, 0.45, 0.95))
    assert (found["seeds"], found["interval"]) == (1, "run")


def test_curves_of_other_models_and_cohorts_stay_apart(metrics):
    other = run("gpt2", 8.0, 0).assign(corpus="c2", value=1.0)
    found = points(pd.concat([metrics, other]))
    assert len(curve(found, "auc_loss")) == 4
    assert points(metrics.iloc[:0]).empty


def test_interpolation_is_linear_in_log_epsilon_and_says_so(metrics):
    leaks = curve(points(metrics), "perplexity_heldout")
    there = interpolate(leaks, 8.0)
    assert not there.interpolated and there.value == pytest.approx(10.1) and "3 seeds" in there.note
    between = interpolate(leaks, math.sqrt(8.0))  # half-way between ln 1 and ln 8
    assert between.interpolated and between.value == pytest.approx((20.2 + 10.1) / 2)
    ends = leaks[np.isfinite(leaks["epsilon"])]
    assert between.low == pytest.approx(ends["low"].mean()) and between.high == pytest.approx(ends["high"].mean())
    assert "ε = 1 and ε = 8" in between.note
    plain = interpolate(leaks, math.inf)
    assert not plain.interpolated and plain.value == pytest.approx(5.05)


@pytest.mark.parametrize(("epsilon", "words"), [(0.5, "smallest is ε = 1"), (20.0, "between ε = 8 and no privacy")])
def test_nothing_is_said_where_no_run_is(metrics, epsilon, words):
    found = interpolate(curve(points(metrics), "auc_loss"), epsilon)
    assert math.isnan(found.value) and math.isnan(found.low) and not found.interpolated and words in found.note


def test_interpolation_refuses_bad_input(metrics):
    frame = points(metrics)
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="above 0"):
            interpolate(curve(frame, "auc_loss"), epsilon)
    for mixed in (frame, frame.iloc[:0]):
        with pytest.raises(ValueError, match="one curve"):
            interpolate(mixed, 2.0)


def test_recovered_known_answers():
    found = recovered([100.0, 100.0], [10.0, 10.0], [1.0, 1.0])  # half-way in logs
    assert found.value == pytest.approx(0.5) and found.low == pytest.approx(0.5)
    assert recovered([100.0], [1.0], [1.0]).value == 1.0 and recovered([100.0], [100.0], [1.0]).value == 0.0
    assert recovered([100.0], [200.0], [10.0]).value < 0  # worse than untrained
    with pytest.raises(ValueError, match="nothing to recover"):
        recovered([5.0], [5.0], [5.0])
    with pytest.raises(ValueError, match="each seed"):
        recovered([5.0, 5.0], [4.0], [3.0])


def test_copies_of_the_public_model_are_one_figure() -> None:
    own = {"kind": "gpt2", "size": "tiny", "base": "clinical", "corpus": "c", "metric": "facts_fit", "note": ""}
    copies = [(1.0, 0, 0.075), (1.0, 1, 0.075), (8.0, 0, 0.075), (8.0, 1, 0.075), (math.inf, 0, 0.25)]
    rows = [
        own | {"epsilon": epsilon, "seed": seed, "arm": arm, "value": value, "low": value - 0.05, "high": value + 0.05}
        for epsilon, seed, base in copies
        for arm, value in (("base", base), ("run", 0.1 * (1 + seed)))
    ]
    found = points(pd.DataFrame(rows)).set_index(["arm", "epsilon"])
    for epsilon in (1.0, 8.0, math.inf):
        assert found.loc[("base", epsilon), ["value", "low", "high"]].tolist() == pytest.approx([0.075, 0.025, 0.125])
    assert found.loc[("run", 1.0), "value"] == pytest.approx(0.15), "seeds of a run are averaged"
    other = [row | {"corpus": "d", "value": 0.4, "low": 0.3, "high": 0.5} for row in rows if row["arm"] == "base"]
    both = points(pd.DataFrame([*rows, *other])).set_index(["corpus", "arm", "epsilon"])
    assert both.loc[("d", "base", 1.0), "value"] == 0.4 and both.loc[("c", "base", 1.0), "value"] == 0.075
