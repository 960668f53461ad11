"""The bounds of one run: what a unit is, what is corrected for, and that chance proves nothing."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.corpus.synthetic.hospital import build
from core.evaluation.guarantee.audit_guarantee import (
    BOUND_COLUMNS,
    Counts,
    audit_guarantee,
    further,
    group_sizes,
    guesses,
    headline,
    headline_bound,
    split_half_counts,
    surest,
)
from core.evaluation.guarantee.epsilon_bounds import epsilon_lower_bound, group_delta, one_run_epsilon, one_run_p_value
from core.evaluation.memorisation.summary import bounds_of
from core.models.word_noise import WordNoise
from core.spec import CorpusSpec, PrivacySpec, RunSpec, VocabularySpec
from core.training.accounting.mechanism import Mechanism
from core.training.sampling import Units

SEEDS = 40
NO_SCORES = pd.DataFrame(columns=["attack", "split", "patient_id", "note_id", "member", "score"])
MOST_MISSES = int(stats.binom.ppf(0.999, SEEDS, 0.05))  # misses that 40 true 95 % statements exceed in 1 of 1,000 cases


def canaries(inserted: np.ndarray, ranks: np.ndarray, insertions: np.ndarray | None = None) -> pd.DataFrame:
    count = len(inserted)
    return pd.DataFrame(
        {
            "canary_id": [f"C{number:04d}" for number in range(count)],
            "form": "HS",
            "insertions": np.tile([1, 2, 4, 8], count)[:count] if insertions is None else insertions,
            "inserted": inserted,
            "rank": pd.array(ranks, dtype="Int64"),
            "reference_size": pd.array([1000] * count, dtype="Int64"),
        }
    )


def patients(rng: np.random.Generator, shift: float, count: int = 160, notes: int = 3) -> pd.DataFrame:
    member = np.arange(count) < 0.7 * count
    rows = [
        (f"P{who}", f"P{who}-{note}", "member" if member[who] else "heldout", member[who], score)
        for who in range(count)
        for note, score in enumerate(rng.normal(shift * member[who], 1, notes))
    ]
    return pd.DataFrame(rows, columns=["patient_id", "note_id", "split", "member", "score"]).assign(attack="loss")


def perfect(count: int) -> pd.DataFrame:
    inserted = np.arange(count) % 3 == 0
    return canaries(inserted, np.where(inserted, 1, 700))


# Units ---------------------------------------------------------------------------------------------------------------


def test_a_note_is_the_unit_so_a_canary_planted_k_times_is_k_units():
    table = perfect(48)
    assert group_sizes(table, "note").tolist() == table["insertions"].tolist()
    assert group_sizes(table, "patient").tolist() == [1] * 48


def ceiling(canaries: int, confidence: float = 0.95) -> float:
    """What guesses that are all right prove at δ = 0: ln(t/(1 − t)) with t = (1 − c)^(1/m)."""
    t = (1 - confidence) ** (1 / canaries)
    return math.log(t / (1 - t))


def test_all_right_reaches_the_ceiling_of_the_canaries_that_are_one_unit_each():
    by_note = audit_guarantee(perfect(48), NO_SCORES, unit="note", delta=0.0, promised=math.inf)
    by_patient = audit_guarantee(perfect(48), NO_SCORES, unit="patient", delta=0.0, promised=math.inf)
    assert headline(by_note)["trials"] == 12 and headline(by_patient)["trials"] == 48
    assert headline(by_note)["epsilon"] == pytest.approx(ceiling(12), abs=1e-6)
    assert headline(by_patient)["epsilon"] == pytest.approx(ceiling(48), abs=1e-6)
    in_groups = by_note[by_note["group"] == 8].iloc[0]
    assert in_groups["trials"] == 48
    assert in_groups["epsilon"] == pytest.approx(ceiling(48, in_groups["confidence"]) / 8, abs=1e-6)
    assert (by_patient["group"] == 1).all()


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_further_looks_share_their_error_and_no_bound_exceeds_its_ceiling(unit):
    rng = np.random.default_rng(1)
    found = audit_guarantee(perfect(48), patients(rng, 3.0), unit=unit, delta=1e-5, promised=2.0)
    assert list(found.columns) == list(BOUND_COLUMNS)
    others = further(found)
    assert len(others) == len(found) - 1 and (others["looks"] == len(others)).all()
    np.testing.assert_allclose(1 - others["confidence"], 0.05 / len(others))
    assert (found["epsilon"] <= found["ceiling"] + 1e-6).all() and (found["epsilon"] > 0).any()
    assert found["alarm"].tolist() == (found["epsilon"] > 2.0).tolist()


def test_a_sentence_rests_on_the_audit_fixed_beforehand_unless_another_is_an_alarm():
    """The highest of all rows would be the better of two claims of 95 %."""
    scores = patients(np.random.default_rng(1), 3.0, count=800)
    found = audit_guarantee(perfect(12), scores, unit="patient", delta=0.0, promised=math.inf)
    assert further(found)["epsilon"].max() > headline(found)["epsilon"], "a case where the two differ"
    assert headline_bound(found)["audit"] == headline(found)["audit"]
    between = (headline(found)["epsilon"] + further(found)["epsilon"].max()) / 2
    alarmed = audit_guarantee(perfect(12), scores, unit="patient", delta=0.0, promised=between)
    assert headline_bound(alarmed)["epsilon"] == further(found)["epsilon"].max() and headline_bound(alarmed)["alarm"]
    alone = audit_guarantee(perfect(0), scores, unit="patient", delta=0.0, promised=math.inf)
    assert headline_bound(alone)["epsilon"] == alone["epsilon"].max() > 0
    one = audit_guarantee(perfect(0), scores[scores["attack"] == "loss"], unit="patient", delta=0.0, promised=math.inf)
    assert len(one) == 1 and headline(one) is None and len(further(one)) == 1, (
        "a look at all, but none fixed beforehand"
    )


def test_a_bound_above_the_promise_is_an_alarm():
    found = audit_guarantee(perfect(48), NO_SCORES, unit="patient", delta=0.0, promised=1.0)
    assert headline(found)["alarm"]
    found = audit_guarantee(perfect(48), NO_SCORES, unit="patient", delta=0.0, promised=3.0)
    assert not found["alarm"].any()


def test_a_patient_with_several_notes_counts_as_that_many_where_notes_are_protected():
    rng = np.random.default_rng(2)
    scores = patients(rng, 4.0, notes=3)
    by_note = audit_guarantee(perfect(0), scores, unit="note", delta=0.0, promised=math.inf).iloc[0]
    by_patient = audit_guarantee(perfect(0), scores, unit="patient", delta=0.0, promised=math.inf).iloc[0]
    assert by_note["group"] == 2 * 3 and by_patient["group"] == 2, "one patient for another"
    assert by_note["epsilon"] == pytest.approx(by_patient["epsilon"] / 3, abs=1e-6) and by_note["epsilon"] > 0


def test_fixed_shares_make_a_patient_a_swap_which_may_show_twice_epsilon():
    """Of each pair one patient is in. Both bits are released by randomised response with ε = 1, the guess reads both:
    it is right or wrong as 2ε allows, which is no proof of more than ε."""
    rng, pairs, epsilon = np.random.default_rng(4), 4_000, 1.0
    first = rng.random(pairs) < 0.5
    member = np.stack([first, ~first], axis=1)
    bits = member ^ (rng.random((pairs, 2)) > 1 / (1 + math.exp(-epsilon)))
    frame = pd.DataFrame(
        {
            "attack": "loss",
            "patient_id": [f"P{who}" for who in range(2 * pairs)],
            "note_id": [f"N{who}" for who in range(2 * pairs)],
            "member": member.ravel(),
            "split": np.where(member.ravel(), "member", "heldout"),
            "score": (bits.astype(float) - bits[:, ::-1]).ravel(),
        }
    )
    found = audit_guarantee(perfect(0), frame, unit="patient", delta=0.0, promised=epsilon).iloc[0]
    counts = {name: int(found[name]) for name in ("tp", "fn", "fp", "tn")}
    assert epsilon_lower_bound(**counts) > 1.3 * epsilon, "as if a patient were added or removed alone"
    assert 0.6 * epsilon < found["epsilon"] <= epsilon and not found["alarm"]


def test_who_is_a_member_proves_something_only_where_chance_decided():
    """Two wards that differ are no leak: without a random split only the canaries' coins prove anything."""
    scores, table = patients(np.random.default_rng(5), 4.0), perfect(48)
    tables = {"canaries": table, "scores": scores}

    def run(split: str | None) -> SimpleNamespace:
        spec = RunSpec(corpus=CorpusSpec(imported="0" * 16, split=split))
        return SimpleNamespace(spec=spec, privacy=None, figures_only=False, table=tables.get)

    assert bounds_of(run(None))["audit"].str.startswith("patients").sum() == 1
    for found in (bounds_of(run("given")), bounds_of(run("given"), scores)):
        assert len(found) and not found["audit"].str.startswith("patients").any()


def test_bounds_are_held_at_the_delta_of_the_promise():
    """With a run's own vocabulary (Hoory 2021, §3.2) the promise holds at the sum of both δ."""
    words = WordNoise.planned(VocabularySpec(epsilon=1.0, delta=0.04))
    alone = Mechanism(unit="note", noise_multiplier=1.0, sample_rate=0.1, steps=1, delta=1e-3, max_grad_norm=1.0)
    both, table = alone.with_vocabulary(words), perfect(48)
    tables = {"canaries": table, "scores": NO_SCORES}
    spec = RunSpec(privacy=PrivacySpec(target_epsilon=1.0, delta=1e-3))
    found = bounds_of(SimpleNamespace(privacy=both, spec=spec, table=tables.get, figures_only=False))
    wanted = audit_guarantee(table, NO_SCORES, unit="note", delta=both.delta, promised=both.epsilon())
    assert both.delta == pytest.approx(0.041) and found["epsilon"].tolist() == wanted["epsilon"].tolist()
    at_training = audit_guarantee(table, NO_SCORES, unit="note", delta=1e-3, promised=both.epsilon())
    assert (found["epsilon"] < at_training["epsilon"]).any(), "a larger δ proves less"


def test_without_ranked_canaries_or_scores_there_is_nothing_to_say():
    found = audit_guarantee(perfect(0), NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    assert found.empty and headline(found) is None and headline_bound(found) is None


# Groups --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_group_delta_is_row_j7(k):
    assert group_delta(1e-6, k, 0.7) == pytest.approx(k * math.exp((k - 1) * 0.7) * 1e-6)
    assert group_delta(0.0, k, 700.0) == 0.0 and group_delta(0.5, k + 1, 9.0) == 1.0


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_a_groups_bound_is_where_its_p_value_first_reaches_five_percent(k, delta):
    found = one_run_epsilon(canaries=48, guesses=48, correct=45, delta=delta, group=k)
    for eps in np.linspace(0, found, 20)[:-1]:
        assert one_run_p_value(48, 48, 45, k * eps, group_delta(delta, k, eps)) <= 0.05
    assert one_run_p_value(48, 48, 45, k * (found + 1e-4), group_delta(delta, k, found + 1e-4)) > 0.05


@pytest.mark.parametrize("k", [2, 8])
def test_a_groups_counts_bound_is_consistent_with_its_own_delta(k):
    counts = {"tp": 95, "fn": 5, "fp": 3, "tn": 97}
    assert epsilon_lower_bound(**counts, group=k) == pytest.approx(epsilon_lower_bound(**counts) / k)
    found = epsilon_lower_bound(**counts, delta=1e-4, group=k)
    whole = epsilon_lower_bound(**counts, delta=group_delta(1e-4, k, found))
    assert found == pytest.approx(whole / k, abs=1e-6) and 0 < found < epsilon_lower_bound(**counts) / k


def test_worked_examples_of_the_one_run_paper():
    """Two results reported for the paper's own procedure: 75 of 100 guesses of 1,000 canaries; 1,439 of 1,510."""
    assert one_run_epsilon(canaries=1_000, guesses=100, correct=75, delta=1e-4) == pytest.approx(0.673, abs=1e-3)
    assert one_run_epsilon(canaries=100_000, guesses=1_510, correct=1_439, delta=1e-5) == pytest.approx(2.675, abs=1e-3)


# Null calibration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_a_model_that_saw_nothing_proves_nothing(unit):
    """Uniform ranks, fair coins, scores of one distribution: 0 but for 5 %, of the first look and of all others."""
    first, further = 0, 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        table = canaries(rng.random(96) < 0.5, rng.integers(1, 1001, 96))
        found = audit_guarantee(table, patients(rng, 0.0), unit=unit, delta=1e-5, promised=0.0, seed=seed)
        first += headline(found)["epsilon"] > 0
        further += (found.loc[found["looks"] > 1, "epsilon"] > 0).any()
    assert first <= MOST_MISSES and further <= MOST_MISSES


def test_flipped_coins_prove_nothing_though_the_ranks_are_those_of_a_leaking_model():
    misses = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 1])
        ranks = np.where(rng.random(96) < 0.5, 1, rng.integers(1, 1001, 96))
        found = audit_guarantee(
            canaries(rng.random(96) < 0.5, ranks), NO_SCORES, unit="patient", delta=0.0, promised=0.0
        )
        misses += headline(found)["epsilon"] > 0
    assert misses <= MOST_MISSES


def test_a_mechanism_exactly_as_bad_as_promised_raises_no_more_false_alarms_than_five_percent():
    """Randomised response at ε = 1: the rank is 1 or last, right with chance e/(1 + e)."""
    alarms, epsilon = 0, 1.0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 2])
        inserted = rng.random(300) < 0.5
        right = rng.random(300) < 1 / (1 + math.exp(-epsilon))
        table = canaries(inserted, np.where(inserted == right, 1, 1000), np.ones(300, dtype=int))
        found = audit_guarantee(table, NO_SCORES, unit="note", delta=1e-6, promised=epsilon)
        alarms += bool(headline(found)["alarm"])
        assert headline(found)["epsilon"] > 0.4
    assert alarms <= MOST_MISSES


def test_the_best_of_many_thresholds_is_judged_on_the_other_half():
    """Best threshold and counts from the same 20 scores make a blind attack look good; halves do not."""
    cheating, honest = 0, 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 3])
        score, member = rng.random(40), np.arange(40) < 20
        best = max(
            epsilon_lower_bound(**vars(Counts.of(score >= threshold, member)), confidence=0.5) for threshold in score
        )
        half = split_half_counts(score, member, seed)
        cheating += best > 0
        honest += epsilon_lower_bound(**vars(half), confidence=0.5) > 0
    assert cheating > honest + 5


def test_halves_need_two_of_each_kind():
    assert split_half_counts(np.arange(7.0), np.array([True] * 4 + [False] * 3), 0) is None
    counts = split_half_counts(np.array([3.0, 3, 3, 3, 0, 0, 0, 0]), np.array([True] * 4 + [False] * 4), 0)
    assert counts == Counts(tp=2, fn=0, fp=0, tn=2) and counts.correct == counts.trials == 4


def test_guesses_know_nothing_of_the_coins():
    table = canaries(np.array([True, False, True, False]), np.array([50, 50, 51, 51]))
    assert guesses(table).tolist() == [True, True, False, False]
    assert guesses(table.assign(inserted=~table["inserted"])).tolist() == [True, True, False, False]


# Against the real cohort ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_group_sizes_are_the_units_that_training_clips(unit):
    """What the trainer calls a unit (core.training.sampling.Units) is what a planted canary is counted as."""
    corpus = build(CorpusSpec(patients=10, population=0, notes_per_patient=2, canaries=24, canary_patients=0, seed=5))
    notes = corpus.training_notes()
    units = Units.build(unit, np.arange(len(notes)), notes["patient_id"].to_numpy())
    unit_of = np.empty(len(notes), dtype=int)
    for number in range(len(units)):
        unit_of[units.of(number)] = number
    planted = corpus.canaries[corpus.canaries["inserted"]]
    sizes = group_sizes(planted, unit)
    for canary, size in zip(planted["canary_id"], sizes, strict=True):
        assert len(set(unit_of[notes["patient_id"] == canary])) == size
    assert len(planted) and sizes.max() == (8 if unit == "note" else 1)


def lines(inserted: np.ndarray, ranks: np.ndarray) -> pd.DataFrame:
    return canaries(inserted, ranks, np.ones(len(inserted), dtype=int)).assign(form="random")


def test_a_tenth_of_the_random_canaries_is_guessed_and_nothing_said_of_the_others():
    inserted = np.arange(200) % 2 == 0
    table = lines(inserted, np.where(inserted, 1 + np.arange(200), 500 + np.arange(200)))
    found = audit_guarantee(table, NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    row = headline(found)
    assert row is not None and len(found) == 1
    assert (row["trials"], row["correct"]) == (20, 20)
    assert (row["tp"], row["fn"], row["fp"], row["tn"]) == (20, 80, 0, 100)
    assert row["epsilon"] == pytest.approx(one_run_epsilon(canaries=200, guesses=20, correct=20, delta=1e-5))
    assert row["ceiling"] == row["epsilon"] < ceiling(20), "the most at this δ, not at 0"
    both = audit_guarantee(pd.concat([perfect(48), table]), NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    assert headline(both)["audit"] == row["audit"] and len(further(both)) > 1
    alone = audit_guarantee(perfect(48), NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    assert set(alone["audit"]) <= set(both["audit"]), "the other canaries are judged as without them"
    few = audit_guarantee(pd.concat([perfect(48), table.head(50)]), NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    assert headline(few)["audit"] == headline(alone)["audit"], "too few to be the audit fixed beforehand"


def test_how_many_random_canaries_are_guessed_depends_on_their_number_alone():
    rng = np.random.default_rng(3)
    ties = lines(rng.random(205) < 0.5, rng.integers(1, 4, 205))
    chosen = surest(ties)
    assert chosen.sum() == 21
    assert ties.loc[chosen, "rank"].max() <= ties.loc[~chosen, "rank"].min()
    assert surest(ties.assign(inserted=~ties["inserted"])).tolist() == chosen.tolist()


def test_random_canaries_that_nobody_read_prove_something_in_at_most_one_of_twenty_audits():
    rng, proved = np.random.default_rng(11), 0
    for _ in range(200):
        table = lines(rng.random(400) < 0.5, rng.integers(1, 1001, 400))
        found = audit_guarantee(table, NO_SCORES, unit="note", delta=1e-5, promised=8.0)
        proved += float(headline(found)["epsilon"]) > 0
    assert proved <= stats.binom.ppf(0.999, 200, 0.05)


def test_looks_that_can_prove_nothing_do_not_share_the_error():
    few = lines(np.array([True, False, True, False]), np.array([1, 2, 3, 4]))  # one guess proves nothing at 95 %
    alone = audit_guarantee(perfect(48), NO_SCORES, unit="patient", delta=0.0, promised=math.inf)
    both = audit_guarantee(pd.concat([perfect(48), few]), NO_SCORES, unit="patient", delta=0.0, promised=math.inf)
    pd.testing.assert_frame_equal(both, alone)
    assert (both["ceiling"] > 0).all()


def test_the_threshold_is_fitted_on_the_other_half_alone():
    rng, found = np.random.default_rng(7), []
    for seed in range(300):
        counts = split_half_counts(rng.random(16), np.arange(16) < 8, seed)
        found.append((counts.tp - counts.fp) / 4)
    assert abs(np.mean(found)) < 4 * 0.3 / math.sqrt(300)  # blind scores: TPR − FPR is 0 on average


def test_only_patients_with_few_notes_count_where_a_note_is_protected():
    rng = np.random.default_rng(2)
    usual = patients(rng, 4.0, count=40, notes=2)
    many = patients(rng, 4.0, count=30, notes=5)
    many = many.assign(patient_id="Q" + many["patient_id"], note_id="Q" + many["note_id"])
    scores = pd.concat([usual, many], ignore_index=True)
    row = audit_guarantee(perfect(0), scores, unit="note", delta=0.0, promised=math.inf).iloc[0]
    assert row["group"] == 2 * 2 and row[["tp", "fn", "fp", "tn"]].sum() == 20, "half of the 40 with at most 2 notes"


def test_a_hundred_random_canaries_are_enough():
    inserted = np.arange(100) % 2 == 0
    table = pd.concat([perfect(48), lines(inserted, np.where(inserted, 1, 900))])
    found = audit_guarantee(table, NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    assert headline(found)["trials"] == 10 and "random words" in headline(found)["audit"]
