"""How membership attacks are judged: known answers, naive oracles, and blind attacks that must look blind."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.membership.scores import SCORE_COLUMNS
from core.attacks.membership.white_box import fitted_log_odds, folds
from core.evaluation.membership.curve import caught, ceiling_for, curve, steps
from core.evaluation.membership.resampling import Auc, Rates, population_thresholds
from core.evaluation.membership.summary import figures, membership, over_splits, population_threshold
from core.evaluation.membership.units import Units, long_notes, units
from core.evaluation.stats.bootstrap import patient_weights, percentile_interval
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.stats.roc import privacy_leakage, roc
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.tradeoff import dp_ceiling

SEEDS = 40
MISSES = int(stats.binom.isf(0.001, SEEDS, 0.05))  # 95 % intervals miss more often than that in 1 of 1,000 cases


def scores(seed: int = 0, *, patients: int = 40, notes: int = 4, shift: float = 0.0, attack: str = "loss", ties=False):
    """Rows of the scores table: 70 % of the patients are members, as many again are population; patients differ."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(2 * patients):
        split = "population" if number >= patients else ("member" if number < 0.7 * patients else "heldout")
        own = rng.normal()
        for note in range(notes):
            value = own + rng.normal() + shift * (split == "member")
            rows.append(
                {
                    "attack": attack,
                    "note_id": f"n{number}-{note}",
                    "admission_id": f"a{number}-{note // 2}",
                    "patient_id": f"p{number}",
                    "split": split,
                    "note_type": "progress",
                    "tokens": 10 + note,
                    "member": split == "member",
                    "score": round(value) if ties else value,
                }
            )
    return pd.DataFrame(rows).astype(SCORE_COLUMNS)


def figure(found, rule: str, metric: str):
    return next(one for one in found if (one.rule, one.metric) == (rule, metric))


# Units ---------------------------------------------------------------------------------------------------------------


def test_a_group_scores_the_mean_of_its_notes_and_keeps_the_threshold_of_notes():
    table = scores(3)
    judged = table[table["split"] != "population"]
    for level, key in (("sample", "note_id"), ("admission", "admission_id"), ("patient", "patient_id")):
        found = units(table, level)
        naive = {name: (rows["score"].mean(), rows["member"].all()) for name, rows in judged.groupby(key)}
        assert np.allclose(sorted(zip(found.score, found.member, strict=True)), sorted(naive.values()))
        threshold = Rates(found).training_mean(np.ones((1, len(found.patient_member))))[0]
        assert threshold == pytest.approx(table.loc[table["member"], "score"].mean())
    assert len(found.population) == 40


def test_short_and_long_split_at_the_median_and_lose_nothing():
    table = scores(1)
    short, long = units(table, "sample", "short"), units(table, "sample", "long")
    assert len(short.score) + len(long.score) == len(units(table).score)
    assert len(short.score) == (table.loc[table["split"] != "population", "tokens"] <= 11.5).sum()
    with pytest.raises(ValueError, match="one of the two groups is empty"):
        units(table[table["member"]])


# Statistics against naive oracles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("level", ["sample", "patient"])
def test_figures_of_a_resample_are_those_of_the_cohort_with_patients_repeated(ties, level):
    found = units(scores(5, patients=14, shift=0.7, ties=ties), level)
    rng = np.random.default_rng(0)
    for _ in range(10):
        weights = rng.integers(0, 4, size=len(found.patient_member))
        times = weights[found.patient]
        ours = np.repeat(found.score[found.member], times[found.member])
        theirs = np.repeat(found.score[~found.member], times[~found.member])
        if not len(ours) or not len(theirs):
            continue
        row = weights[None].astype(float)
        assert Auc(found)(row)[0] == pytest.approx(roc(ours, theirs).auc)
        rates = Rates(found)
        cumulated = rates.cumulated(row)
        for fpr in (0.0, 0.1, 0.25, 1.0):
            tpr, reached = rates.at(cumulated, rates.threshold_for(cumulated, fpr), strict=False)
            naive = roc(ours, theirs).tpr_at(fpr)
            assert (tpr[0], reached[0]) == pytest.approx((naive.tpr, naive.fpr))


@pytest.mark.parametrize("spread", [0.0, 0.3, 10.0])
def test_near_thresholds_give_the_same_rates_as_sums_of_all_units(spread):
    found = units(scores(5, patients=14, shift=0.7, ties=True))
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 4, size=(50, len(found.patient_member))).astype(float)
    thresholds = rng.choice(found.score) + spread * rng.normal(size=50)
    thresholds[::7] = found.score[0]  # one that units reach exactly
    rates = Rates(found)
    expected = rates.at(rates.cumulated(weights), thresholds, strict=True)
    np.testing.assert_array_equal(rates.at_near(weights, thresholds), expected)
    assert 0 < np.nanmean(expected) < 1


def test_the_curve_is_the_roc_curve_and_its_band_holds_it():
    found = units(scores(2, shift=1.0))
    table = curve(found, resamples=100, seed=0)
    naive = roc(found.score[found.member], found.score[~found.member])
    assert table["tpr"].tolist() == pytest.approx([naive.tpr_at(fpr).tpr for fpr in table["fpr"]])
    inside = (table["low"] <= table["tpr"] + 1e-9) & (table["tpr"] <= table["high"] + 1e-9)
    assert inside.mean() > 0.9 and table["tpr"].is_monotonic_increasing and table["tpr"].iloc[-1] == 1


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 3.0])
def test_the_line_of_steps_is_the_whole_curve_with_few_points(ties, shift):
    found = units(scores(5, shift=shift, ties=ties))
    whole, line = roc(found.score[found.member], found.score[~found.member]), steps(found)
    assert len(line) <= 2 + min(found.members, found.nonmembers)
    assert [tuple(line.iloc[place]) for place in (0, -1)] == [(0, 0), (1, 1)]
    for rate in (*whole.fpr, *(whole.fpr[1:] + whole.fpr[:-1]) / 2):
        assert line.loc[line["fpr"] <= rate, "tpr"].max() == whole.tpr[whole.fpr <= rate].max()


def test_decisions_by_hand():
    rows = [
        ("m1", "A", True, 3.0),
        ("m2", "B", True, 1.0),
        ("m3", "C", True, 2.0),
        ("h1", "D", False, 2.5),
        ("h2", "E", False, 0.0),
        ("h3", "F", False, 2.0),
    ]
    table = pd.DataFrame(rows, columns=["note_id", "patient_id", "member", "score"]).assign(
        admission_id=lambda t: t["note_id"], tokens=5, split=lambda t: np.where(t["member"], "member", "heldout")
    )
    found = figures(units(table), own=None, resamples=20, seed=0)
    # mean training score 2.0; strictly above it: m1 of the members, h1 of the others
    assert figure(found, "own", "true_positive_rate").value == pytest.approx(1 / 3)
    assert figure(found, "own", "false_positive_rate").value == pytest.approx(1 / 3)
    assert figure(found, "own", "privacy_leakage").value == pytest.approx(0.0)
    assert figure(found, "own", "precision").value == pytest.approx(1 / 2)
    # pairs: m1 beats 3; m2 beats h2; m3 beats h2, ties h3: 5.5 of 9
    assert figure(found, "", "auc").value == pytest.approx(4.5 / 9 + 1 / 9)
    own = figures(units(table), own=1.5, resamples=20, seed=0)
    assert figure(own, "own", "privacy_leakage").value == pytest.approx(2 / 3 - 2 / 3)
    assert privacy_leakage([True, False, True], [True, False, True]) == 0.0


def test_figures_that_the_data_are_too_few_for_are_not_numbers():
    found = figures(units(scores(0)), own=None, resamples=20, seed=0)  # 48 non-members, 160 population notes
    for rule, needed in (("ROC 1 %", "100 non-members"), ("ROC 0.1 %", "1000 non-members")):
        row = figure(found, rule, "true_positive_rate")
        assert math.isnan(row.value) and needed in row.note and row.note.startswith("too few")
    assert "realised false-positive rate 0.08333 (4 of 48)" in figure(found, "ROC 10 %", "true_positive_rate").note
    assert not math.isnan(figure(found, "population 1 %", "true_positive_rate").value)
    patients = figures(units(scores(0), "patient"), own=None, resamples=20, seed=0)
    assert "there are 40" in figure(patients, "population 1 %", "true_positive_rate").note


@pytest.mark.parametrize(
    ("population", "alpha", "threshold"),
    [
        (np.arange(100.0), 0.10, 90.0),  # 90 … 99 are 10 of 100
        (np.arange(100.0), 0.01, 99.0),
        (np.array([0.0] * 90 + [1.0] * 11), 0.10, None),  # 11 tie at the top: any threshold accuses more than 10 %
        (np.array([0.0] * 85 + [1.0] * 9 + [2.0] * 6), 0.10, 2.0),  # the nine at 1 would make it 15 %
        (np.arange(9.0), 0.10, None),
    ],
)
def test_population_thresholds(population, alpha, threshold):
    found, note = population_threshold(population, alpha)
    assert note and (math.isnan(found) if threshold is None else found == threshold)


@pytest.mark.parametrize("ties", [False, True])
def test_population_thresholds_of_resamples_are_those_of_patients_repeated(ties):
    """A naive oracle: the drawn patients' units repeated, and the rule of the unresampled threshold."""
    found = units(scores(7, patients=12, ties=ties), "admission")
    drawn = patient_weights(np.zeros(12, dtype=bool), resamples=50, seed=(3, 1))
    thresholds = population_thresholds(found, 0.10, resamples=50, seed=3)
    assert thresholds[0] == population_threshold(found.population, 0.10)[0] or ties
    for weights, threshold in zip(drawn, thresholds[1:], strict=True):
        again = np.repeat(found.population, weights[found.population_patient].astype(int))
        naive, _ = population_threshold(again, 0.10)
        assert threshold == (np.nextafter(again.max(), np.inf) if math.isnan(naive) else naive)


@pytest.mark.slow
def test_intervals_at_a_population_threshold_hold_the_truth_though_the_threshold_is_estimated():
    """In 200 cohorts of known truth; intervals that take the threshold as given miss far more often than 5 %."""
    cohorts, alpha, shift = 200, 0.10, 0.8
    threshold = stats.norm.isf(alpha)
    truth = {"true_positive_rate": stats.norm.sf(threshold - shift), "false_positive_rate": alpha}
    missed = {rule: dict.fromkeys(truth, 0) for rule in ("resampled", "fixed")}
    for seed in range(cohorts):
        judged = one_note_each(seed, members=60, others=40, population=60, shift=shift)
        for one in figures(judged, own=0.0, resamples=150, seed=seed):
            if one.rule == "population 10 %" and one.metric in truth:
                missed["resampled"][one.metric] += not one.low <= truth[one.metric] <= one.high
        weights = np.vstack([np.ones(100), patient_weights(judged.patient_member, resamples=150, seed=seed)])
        fixed = np.full(151, population_threshold(judged.population, alpha)[0])
        rates = Rates(judged)
        for metric, values in zip(truth, rates.at(rates.cumulated(weights), fixed, strict=False), strict=True):
            one = percentile_interval(float(values[0]), values[1:], 40)
            missed["fixed"][metric] += not one.low <= truth[metric] <= one.high
    most = int(stats.binom.isf(0.001, cohorts, 0.05))
    assert max(missed["resampled"].values()) <= most < min(missed["fixed"].values())


def one_note_each(seed: int, *, members: int, others: int, population: int, shift: float) -> Units:
    """Standard normal scores, members' higher by `shift`."""
    score = np.random.default_rng([seed, 5]).normal(size=members + others + population)
    score[:members] += shift
    member, judged = np.arange(members + others) < members, members + others
    return Units(
        score[:judged],
        member,
        np.arange(judged),
        member,
        score[judged:],
        np.arange(population),
        score[:judged] * member,
        member.astype(float),
        np.ones(judged, dtype=int),
    )


def test_a_threshold_that_rests_on_few_of_the_population_has_no_interval():
    found = figures(one_note_each(0, members=60, others=40, population=120, shift=1.0), own=0.0, resamples=50, seed=0)
    few, enough = (figure(found, f"population {share} %", "true_positive_rate") for share in (1, 10))
    assert math.isnan(few.low) and math.isnan(few.high) and not math.isnan(few.value)
    assert "no interval" in few.note and enough.low < enough.value < enough.high


def test_the_table_is_a_pure_function_of_the_scores():
    table = pd.concat([scores(0, shift=0.5), scores(1, attack="zlib")])
    once, again = membership(table, resamples=30, seed=0), membership(table, resamples=30, seed=0)
    pd.testing.assert_frame_equal(once, again)
    assert set(once["attack"]) == {"loss", "zlib"} and set(once["level"]) == {"sample", "admission", "patient"}
    assert (once["low"].dropna() <= once["high"].dropna()).all()


def test_splits_are_averaged_and_their_range_told():
    parts = [scores(seed, shift=seed, attack="attention").assign(fit=seed) for seed in range(3)]
    found = over_splits(pd.concat(parts, ignore_index=True)).set_index(["level", "metric"])
    single = [figures(units(one), own=0.0, resamples=20, seed=0) for one in parts]
    for metric, rule in (("auc", ""), ("privacy_leakage", "own")):
        values = [figure(one, rule, metric).value for one in single]
        row = found.loc[("sample", metric)]
        assert row["value"] == pytest.approx(np.mean(values)) and math.isnan(row["low"])
        assert f"from {min(values):.3f} to {max(values):.3f}" in row["note"] and row["rule"] == "splits"


# Blind attacks must look blind ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("level", ["sample", "admission", "patient"])
def test_intervals_of_a_blind_attack_hold_a_blind_guess(level):
    misses = {"auc": 0, "privacy_leakage": 0}
    for seed in range(SEEDS):
        found = figures(units(scores(seed), level), own=None, resamples=150, seed=seed)
        for metric, rule, blind in (("auc", "", 0.5), ("privacy_leakage", "own", 0.0)):
            row = figure(found, rule, metric)
            misses[metric] += not row.low <= blind <= row.high
    assert max(misses.values()) <= MISSES, f"95 % intervals missed a blind guess in {misses} of {SEEDS} cases"


@pytest.mark.slow
def test_a_fit_on_noise_is_blind_on_patients_it_never_saw():
    misses = 0
    for seed in range(SEEDS):
        table = scores(seed)
        table = table[table["split"] != "population"].reset_index(drop=True)
        noise = np.random.default_rng(seed).normal(size=(len(table), 12)) + table[["score"]].to_numpy()
        member = table["member"].to_numpy(dtype=bool)
        fit = folds(table["patient_id"], member, seed) == 0
        judged = table[~fit].assign(score=fitted_log_odds(noise, member, fit))
        row = figure(figures(units(judged), own=0.0, resamples=150, seed=seed), "", "auc")
        misses += not row.low <= 0.5 <= row.high
    assert misses <= MISSES, f"{misses} of {SEEDS} intervals of a blind white-box attack missed 0.5"


def test_the_same_intervals_see_an_attack_that_works():
    found = figures(units(scores(0, shift=2.0)), own=None, resamples=200, seed=0)
    assert figure(found, "", "auc").low > 0.6 and figure(found, "own", "privacy_leakage").low > 0.1
    backwards = figures(units(scores(0, shift=-2.0)), own=None, resamples=200, seed=0)
    assert figure(backwards, "", "auc").high < 0.4


# The guarantee -------------------------------------------------------------------------------------------------------


def test_the_ceiling_is_reached_by_randomised_response_and_is_its_own_mirror():
    for epsilon in (0.1, 1.0, 4.0):
        truth = math.exp(epsilon) / (1 + math.exp(epsilon))  # tells the truth this often: exactly ε-DP
        assert dp_ceiling(1 - truth, epsilon, 0.0) == pytest.approx(truth)
        fpr = np.linspace(0, 1, 50)
        tpr = dp_ceiling(fpr, epsilon, 1e-3)
        assert (tpr >= fpr).all() and (np.diff(tpr) >= 0).all()
        assert (dp_ceiling(1 - tpr, epsilon, 1e-3) >= 1 - fpr - 1e-9).all()  # members and others change places
    assert (dp_ceiling(np.array([0.0, 0.5]), math.inf, 1e-5) == 1).all()
    assert dp_ceiling(np.array([0.0]), 0.0, 0.0)[0] == 0.0


def test_a_promise_per_note_is_worth_less_for_a_patient():
    judged = units(scores(0, notes=3), "patient")
    per_note = Mechanism(
        unit="note", noise_multiplier=2.0, sample_rate=0.1, steps=10, delta=1e-6, max_grad_norm=1.0, accountant="rdp"
    )
    per_patient = per_note.model_copy(update={"unit": "patient"})
    one, three = ceiling_for(per_note, [judged], "sample"), ceiling_for(per_note, [judged], "patient")
    assert one.epsilon == one.of_group == per_note.epsilon() and one.group == 1
    assert three.group == 3 and three.delta == 1e-6
    assert three.of_group == per_note.patient_epsilon(3) > one.epsilon, "as the report and the ledger say"
    assert three.epsilon > 2 * three.of_group, "one patient in is another one out"
    whole = ceiling_for(per_patient, [judged], "patient")
    assert whole.group == 1 and whole.of_group == per_patient.epsilon()
    assert whole.epsilon == pytest.approx(per_patient.replacing().epsilon())
    assert ceiling_for(per_patient, [judged], "sample") == whole, "notes of a patient are exchanged with the patient"


def test_one_patient_in_for_another_is_two_changes():
    """Of two patients one is in. Laplace noise of scale 1/ε on [first is in] − [second is in] satisfies ε for each.

    The sum is 1 or −1, and the attacker accuses the first if the noisy sum is positive, else the second.
    """
    for epsilon in (0.5, 1.0, 3.0):
        tpr = 1 - 0.5 * math.exp(-epsilon)
        one, two = (dp_ceiling(np.array([1 - tpr]), changes * epsilon, 0.0)[0] for changes in (1, 2))
        assert one < tpr <= two


def test_caught_counts_scores_at_the_threshold():
    found = units(scores(4))
    at = float(found.score[0])
    told = caught(found, at)
    assert told.members == sum(s >= at for s in found.score[found.member])
    assert told.others == sum(s >= at for s in found.score[~found.member]) and told.of_others == found.nonmembers


def test_the_ceiling_of_patients_is_that_of_the_one_with_the_most_notes():
    table = scores(0, notes=3)
    table = table[~table["note_id"].isin(["n1-2", "n2-2", "n2-1"])]
    extra = table[table["note_id"] == "n0-0"].assign(note_id="n0-9")
    judged = units(pd.concat([table, extra], ignore_index=True), "patient")
    run = Mechanism(unit="note", noise_multiplier=2.0, sample_rate=0.1, steps=10, delta=1e-6, max_grad_norm=1.0)
    fewer = units(table, "patient")
    found = ceiling_for(run, [fewer, judged], "patient")
    assert found.group == 4 and found.of_group == run.patient_epsilon(4)
    assert found == ceiling_for(run, [judged], "patient") and found != ceiling_for(run, [fewer], "patient")


def test_where_everybody_is_accused_nothing_is_uncertain():
    last = curve(units(scores(2, shift=1.0)), resamples=50, seed=0).iloc[-1]
    assert (last["fpr"], last["tpr"], last["low"], last["high"]) == (1.0, 1.0, 1.0, 1.0)


def test_a_note_as_long_as_the_median_is_short():
    assert long_notes(pd.DataFrame({"tokens": [5, 7, 7, 7, 9]})).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize("level", ["sample", "admission", "patient"])
def test_equal_scores_accuse_no_patient(level: str):
    """None is above the mean of all. A mean that was rounded down accused everyone, members and others alike."""
    for seed, value in enumerate(np.random.default_rng(3).normal(size=20)):
        judged = units(scores(seed, patients=10, notes=3 + seed % 4).assign(score=value), level)
        found = figures(judged, own=None, resamples=20, seed=0)
        rates = [figure(found, "own", f"{one}_positive_rate").value for one in ("true", "false")]
        assert set(judged.score) == {value} and rates == [0.0, 0.0]


def test_patients_at_the_own_threshold_are_no_trials_of_precision():
    """They are not called members, so they say nothing about those who are: Wilson's interval of 2 of 2, not 8 of 8."""
    judged = one_note_each(0, members=8, others=8, population=2, shift=0.0)
    score = np.where(np.arange(16) < 8, 0.0, -1.0) + (np.arange(16) < 2)
    found = figure(figures(replace(judged, score=score), own=0.0, resamples=50, seed=0), "own", "precision")
    assert (found.value, found.low) == (1.0, pytest.approx(proportion_interval(2, 2)[0]))
