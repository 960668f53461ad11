from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.memorisation.risk import WEIGHTS, risk_scores, weighted_sum
from core.evaluation.memorisation.verbatim import fields_within, longest, memorised_rates, verbatim_rate
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import proportion_interval, wilson


def metrics(**values: float) -> pd.DataFrame:
    rows = [(*name.split("__"), value, value - 0.01, value + 0.02) for name, value in values.items()]
    return pd.DataFrame(rows, columns=["metric", "arm", "value", "low", "high"])


METRICS = metrics(
    old_rule_attempts__run=0.3,
    attempts_with_leak__run=0.25,
    attempts_with_leak__heldout=0.05,
    privacy_leakage_loss__run=0.4,
)


def scores(member: list[float], heldout: list[float]) -> pd.DataFrame:
    values = [*member, *heldout]
    return pd.DataFrame(
        {
            "attack": "loss",
            "split": ["member"] * len(member) + ["heldout"] * len(heldout),
            "patient_id": [f"P{n}" for n in range(len(values))],
            "score": values,
        }
    )


SCORES = scores([1.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 3.0])  # mean of members 1.0: one of four above, in both splits


def canaries(planted: list[int], out: list[int], form: str = "HS") -> pd.DataFrame:
    ranks, inserted = [*planted, *out], [True] * len(planted) + [False] * len(out)
    return pd.DataFrame({"rank": pd.array(ranks, dtype="Int64"), "inserted": inserted, "form": form})


CANARIES = canaries([1, 1, 1, 700], [1, 40, 300, 900])


def prefixes(found: dict[tuple[str, str], list[bool]], prefix_tokens: int = 32) -> pd.DataFrame:
    rows = [
        (model, split, f"{split}{n}", f"{split}-P{n}", prefix_tokens, flag, 20 if flag else 3)
        for (model, split), flags in found.items()
        for n, flag in enumerate(flags)
    ]
    return pd.DataFrame(
        rows, columns=["model", "split", "note_id", "patient_id", "prefix_tokens", "verbatim", "matched_tokens"]
    )


PREFIXES = prefixes(
    {
        ("target", "member"): [True, False, False, False],
        ("target", "heldout"): [False] * 10,
        ("base", "member"): [False] * 4,
        ("base", "heldout"): [True] * 4,
    }
)


def test_both_versions_by_hand():
    found = risk_scores(METRICS, SCORES, CANARIES, PREFIXES).set_index(["version", "part"])["value"]
    old = {"prompt": 0.3, "membership": 0.25, "canary": 1.0, "memorisation": 0.25}
    new = {"prompt": 0.2, "membership": 0.4, "canary": 0.75 - 0.25, "memorisation": 0.25}
    for version, parts in (("old", old), ("calibrated", new)):
        assert {name: found[version, name] for name in parts} == pytest.approx(parts)
        expected = 0.50 * parts["prompt"] + 0.20 * parts["membership"] + 0.15 * parts["canary"] + 0.15 * 0.25
        assert found[version, "score"] == pytest.approx(expected)
    assert sum(WEIGHTS.values()) == pytest.approx(1)


def test_the_reports_canaries_are_found_by_definition_so_they_add_no_uncertainty():
    found = risk_scores(METRICS, SCORES, CANARIES, PREFIXES).set_index(["version", "part"])
    assert found.loc[("old", "canary"), ["value", "low", "high"]].tolist() == [1.0, 1.0, 1.0]
    assert found.loc[("calibrated", "canary"), "low"] < found.loc[("calibrated", "canary"), "high"]


def test_canaries_of_random_words_do_not_count():
    """Their candidates are others: 200 of them that all come last would make .5 a .01."""
    both = pd.concat([CANARIES, canaries([900] * 100, [900] * 100, form="random")], ignore_index=True)
    found = risk_scores(METRICS, SCORES, both, PREFIXES)
    pd.testing.assert_frame_equal(found, risk_scores(METRICS, SCORES, CANARIES, PREFIXES))


def test_every_calibrated_part_is_what_was_measured_less_its_control():
    found = risk_scores(METRICS, SCORES, CANARIES, PREFIXES)
    parts = found[(found["version"] == "calibrated") & ~found["part"].isin(["score", "membership"])]
    np.testing.assert_allclose(parts["value"], parts["measured"] - parts["control"])
    assert found.loc[found["version"] == "old", "control"].isna().all()
    assert (found["low"] <= found["value"]).all() and (found["value"] <= found["high"]).all()


def test_the_old_score_stays_high_for_a_model_that_learned_nothing_and_the_calibrated_one_is_about_zero():
    """40 models that learned nothing: members and others, planted and left-out canaries all alike."""
    covered, old = 0, []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        both = rng.binomial(1400, 0.03, 2) / 1400
        low, high = zip(*(proportion_interval(round(1400 * share), 1400) for share in both), strict=True)
        table = metrics(
            old_rule_attempts__run=0.02,
            attempts_with_leak__run=0,
            attempts_with_leak__heldout=0,
            privacy_leakage_loss__run=0,
        )
        for arm, at in (("run", 0), ("heldout", 1)):
            place = (table["metric"] == "attempts_with_leak") & (table["arm"] == arm)
            table.loc[place, ["value", "low", "high"]] = both[at], low[at], high[at]
        leakage = rng.normal(0, 0.02)
        place = table["metric"] == "privacy_leakage_loss"
        table.loc[place, ["value", "low", "high"]] = leakage, leakage - 0.04, leakage + 0.04
        drawn = canaries(rng.integers(1, 1001, 24).tolist(), rng.integers(1, 1001, 24).tolist())
        blind = scores(rng.normal(size=60).tolist(), rng.normal(size=40).tolist())
        found = risk_scores(table, blind, drawn, None, resamples=30)
        whole = found[found["part"] == "score"].set_index("version")
        covered += whole.loc["calibrated", "low"] <= 0 <= whole.loc["calibrated", "high"]
        old.append(whole.loc["old", "low"])
    assert 40 - covered <= stats.binom.ppf(0.999, 40, 0.05)
    assert min(old) > 0.1


def test_a_missing_part_leaves_the_sum():
    found = risk_scores(METRICS, SCORES, CANARIES, None)
    assert "memorisation" not in set(found["part"])
    weights = found[(found["version"] == "old") & (found["part"] != "score")]["weight"]
    assert weights.sum() == pytest.approx(1) and weights.iloc[0] == pytest.approx(0.50 / 0.85)
    nothing = risk_scores(METRICS.head(0), SCORES.head(0), CANARIES.head(0), None)
    assert nothing["part"].tolist() == ["score", "score"] and nothing["value"].isna().all()


def test_a_difference_of_two_shares_has_newcombes_interval():
    """Newcombe 1998, table II, method 10: 56/70 − 48/80 = 0.2, interval 0.0524 to 0.3339."""
    parts = [Interval(k / n, *proportion_interval(k, n)) for k, n in ((56, 70), (48, 80))]
    found = weighted_sum((1, -1), parts)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_weights_scale_an_interval():
    found = weighted_sum((0.5,), [Interval(0.4, 0.2, 0.8)])
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.1, 0.4))
    assert math.isnan(weighted_sum((1, -1), [Interval(0.4, 0.2, 0.8), Interval(*[math.nan] * 3)]).value)


# Verbatim notes ------------------------------------------------------------------------------------------------------


def test_rates_of_verbatim_notes_stand_beside_both_controls():
    table = pd.concat([PREFIXES, prefixes({("target", "member"): [True] * 4}, prefix_tokens=8)])
    found = memorised_rates(table, resamples=100).set_index(["arm", "prefix_tokens"])
    assert found["verbatim"].to_dict() == {("run", 8): 1.0, ("run", 32): 0.25, ("heldout", 32): 0.0, ("base", 32): 0.0}
    assert found.loc[("run", 32), "found"] == 1 and found.loc[("run", 32), "mean_matched"] == pytest.approx(7.25)
    assert (found["low"] <= found["verbatim"]).all() and (found["verbatim"] <= found["high"]).all()


def test_no_find_is_no_proof_of_none():
    rate = verbatim_rate(PREFIXES[(PREFIXES["model"] == "target") & (PREFIXES["split"] == "heldout")], resamples=50)
    assert rate.low == 0 and rate.high >= proportion_interval(0, 10)[1]


@pytest.mark.parametrize("verbatim", [False, True])
def test_where_all_notes_agree_patients_are_the_trials(verbatim):
    """1,500 notes of 294 patients, as in the shipped audit at ε = 8: z²/(294 + z²) = 1.29 %, not 0.26 %."""
    table = prefixes({("target", "member"): [verbatim] * 1_500})
    table["patient_id"] = [f"P{n % 294}" for n in range(1_500)]
    z_squared = stats.norm.isf(0.025) ** 2
    width = z_squared / (294 + z_squared)
    rate = verbatim_rate(table, resamples=20)
    assert (rate.low, rate.high) == pytest.approx((1 - width, 1.0) if verbatim else (0.0, width))
    assert width == pytest.approx(0.0129, abs=5e-5)
    (stored,) = memorised_rates(table, resamples=20).to_dict("records")
    assert (stored["low"], stored["high"]) == (rate.low, rate.high)


@pytest.mark.parametrize("found", [0, 3, 10])
def test_many_notes_of_a_single_patient_are_one_trial(found):
    table = prefixes({("target", "member"): [n < found for n in range(10)]}).assign(patient_id="P")
    rate = verbatim_rate(table, resamples=20)
    assert (rate.low, rate.high) == pytest.approx(wilson(found / 10, 1))


def test_notes_of_one_patient_are_no_independent_trials():
    flags = [True] * 10 + [False] * 30
    table = prefixes({("target", "member"): flags})
    clustered = table.assign(patient_id=[f"P{n // 10}" for n in range(40)])
    wide, narrow = (verbatim_rate(one, resamples=300) for one in (clustered, table))
    assert wide.high - wide.low > narrow.high - narrow.low


def test_the_longest_continuation_of_each_note_comes_first():
    table = pd.concat([PREFIXES, prefixes({("target", "member"): [False, True, False, False]}, prefix_tokens=8)])
    found = longest(table)
    assert found["note_id"].tolist()[:2] == ["member1", "member0"] and len(found) == 4
    assert found["prefix_tokens"].tolist()[:2] == [8, 32]


def test_only_whole_values_within_the_repeated_part_are_named():
    places = ((0, "ssn"), (10, "mrn"), (20, "phone"), (30, "mrn"))
    spans = [{"start": at, "end": at + 5, "field": field} for at, field in places]
    assert fields_within(spans, 10, 35) == ["mrn", "phone"]
    assert fields_within(spans, 11, 24) == [] and fields_within([], 0, 9) == []
