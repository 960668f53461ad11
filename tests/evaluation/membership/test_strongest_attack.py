"""The strongest of several attacks: chosen by patient, and an interval that holds whichever was chosen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.attacks.battery import REGISTRY
from core.attacks.membership.decision import IN_WORDS, in_words
from core.evaluation.membership.strongest_attack import (
    MEASURES,
    Strongest,
    interval_of,
    judged_by,
    scores_of,
    strongest,
    strongest_of,
    strongest_sentence,
)
from core.evaluation.membership.summary import figures
from core.evaluation.membership.units import units
from core.evaluation.stats import bootstrap
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import best_of, proportion_interval
from core.evaluation.stats.roc import roc


def scores(attack: str, values: list[float], member: list[bool], notes: int = 1) -> pd.DataFrame:
    """A scores table of one attack: every patient has so many notes, all with the patient's score."""
    patient = np.repeat(np.arange(len(values)), notes)
    frame = pd.DataFrame({"patient_id": [f"P{one}" for one in patient], "score": np.repeat(values, notes)})
    ids = frame.index.astype(str)
    split = np.where(np.repeat(member, notes), "member", "heldout")
    return frame.assign(attack=attack, note_id=ids, admission_id=ids, split=split, member=split == "member", tokens=10)


MEMBER = [True] * 10 + [False] * 10


def test_the_highest_auc_by_patient_is_taken_however_many_notes_there_are():
    better, worse = [*range(8, 18), *range(10)], [*range(2, 12), *range(10)]
    both = pd.concat([scores("worse", worse, MEMBER), scores("better", better, MEMBER, notes=7)], ignore_index=True)
    found = strongest(both, "auc", resamples=50)
    assert (found.attack, found.attacks, found.patients) == ("better", 2, 20), "patients are judged, not their notes"
    expected = roc(np.array(better[:10], float), np.array(better[10:], float)).auc
    assert found.interval.value == pytest.approx(expected) and found.interval.low <= expected <= found.interval.high


def test_an_attack_on_few_patients_does_not_win_by_chance():
    rng = np.random.default_rng(1)
    good = scores("good", [*rng.normal(1.5, 1, 200), *rng.normal(0, 1, 200)], [True] * 200 + [False] * 200)
    lucky = scores("lucky", [3, 4, 5, 6, 7, 8, 0, 1, 2, 2.5, 2.7, 5.5], [True] * 6 + [False] * 6)
    found = strongest(pd.concat([good, lucky], ignore_index=True), "auc", resamples=200)
    alone = strongest(lucky, "auc", resamples=200)
    assert alone.interval.value > found.interval.value, "its value is the highest"
    assert (found.attack, found.attacks, found.patients) == ("good", 2, 400)


def test_a_limit_is_for_the_attack_that_may_reach_most_not_for_the_one_that_certainly_does():
    """Of two attacks on the same patients the one with the wider interval may still reach more."""
    member = [True] * 60 + [False] * 60
    sharp = scores("sharp", [1.0] * 10 + [0.0] * 110, member)  # a few members stand out, all others are equal
    wide = scores("wide", [*np.linspace(0.05, 1.05, 60), *np.linspace(0, 1, 60)], member)
    few = scores("few", [1.0, 2.0, 3.0, 0.0, 0.5, 2.5], [True] * 3 + [False] * 3)
    found = strongest(pd.concat([sharp, wide, few], ignore_index=True), "auc", resamples=200)
    least, most = {"least": 0.0, "most": 1.0}, {}
    for name, table in (("sharp", sharp), ("wide", wide), ("few", few)):
        own = interval_of(units(table, "patient"), "auc", resamples=200, seed=0)
        most[name] = best_of(own, 3, **least)
    assert found.attack == "sharp" and most["wide"].high > most["sharp"].high
    assert found.interval == most["sharp"] and found.few == (("few", 6),)
    assert found.up_to == most["wide"].high < most["few"].high
    assert strongest(few, "auc", resamples=200).few == (), "on as many patients as any"


def test_an_attack_on_few_patients_breaks_a_limit_where_it_certainly_reaches_more():
    member = [True] * 200 + [False] * 200
    blind = scores("blind", list(np.random.default_rng(0).normal(size=400)), member)
    sure = scores("sure", [*range(60, 120), *range(60)], [True] * 60 + [False] * 60)
    found = strongest(pd.concat([blind, sure], ignore_index=True), "auc", resamples=200)
    assert found.attack == "sure" and found.interval.low > 0.9
    assert found.up_to == found.interval.high == 1 and found.few == (("sure", 120),)


def test_without_any_interval_the_highest_value_is_taken():
    one_other = [True] * 5 + [False]
    tables = [
        scores(name, [*values, 3], one_other) for name, values in (("a", [4, 5, 6, 7, 1]), ("b", [1, 1, 1, 1, 4]))
    ]
    found = strongest(pd.concat(tables, ignore_index=True), "auc", resamples=50)
    assert (found.attack, found.interval.value) == ("a", 0.8) and np.isnan(found.interval.low)


def test_notes_that_say_little_may_say_much_together():
    """By note 8 of 10 pairs may be right and by patient all: the patient counts."""
    rng = np.random.default_rng(0)
    frame = scores("loss", [0.5] * 10 + [0.0] * 10, MEMBER, notes=200)
    frame["score"] += rng.normal(0, 1, len(frame))
    by_note = interval_of(units(frame, "sample"), "auc", resamples=20, seed=0).value
    assert by_note < 0.7 and strongest(frame, "auc", resamples=20).interval.value == 1.0


def test_members_caught_and_leakage_by_hand():
    # 10 members at 1 … 10, 10 others at 0.5 … 9.5: one other (9.5) may be accused, so members above 8.5 are caught.
    table = scores("loss", [*np.arange(1.0, 11), *(np.arange(1.0, 11) - 0.5)], MEMBER)
    caught = strongest(table, "members_caught", resamples=50).interval
    assert caught.value == pytest.approx(0.2) and caught.low <= 0.2 <= caught.high
    everybody = strongest(table.assign(score=table["score"] + 100 * table["member"]), "members_caught", resamples=50)
    assert everybody.interval.value == 1 and everybody.interval.low == pytest.approx(proportion_interval(10, 10)[0])
    # The mean of the members is 5.5: 5 of them lie above it (6 … 10), and 4 others (6.5 … 9.5).
    assert strongest(table, "privacy_leakage", resamples=50).interval.value == pytest.approx(0.5 - 0.4)
    fitted = scores("attention", [1.0] * 4 + [-1.0] * 6 + [1.0] + [-1.0] * 9, MEMBER)
    leaked = strongest(fitted, "privacy_leakage", resamples=50).interval.value
    assert leaked == pytest.approx(0.4 - 0.1), "a fitted attack decides at log-odds 0"


def test_an_attack_on_one_side_alone_is_no_candidate():
    table = scores("loss", [1.0] * 10 + [0.0] * 10, MEMBER)
    half = scores("members only", [1.0] * 5, [True] * 5)
    found = strongest(pd.concat([table, half], ignore_index=True), "auc", resamples=20)
    assert found.attacks == 1 and strongest(half, "auc", resamples=20) is None


@pytest.mark.slow
def test_the_corrected_interval_holds_where_the_chosen_attacks_own_does_not():
    """Ten attacks that know nothing: the best of them has AUC 0.5, and seldom looks like it."""
    rng, held, naive, trials = np.random.default_rng(2), 0, 0, 40
    member = [True] * 30 + [False] * 20
    blind = pd.concat([scores(f"a{n}", [0.0] * 50, member) for n in range(10)], ignore_index=True)
    for _ in range(trials):
        table = blind.assign(score=rng.normal(size=len(blind)))
        found = strongest(table, "auc", resamples=300)
        own = interval_of(units(table[table["attack"] == found.attack], "patient"), "auc", resamples=300, seed=0)
        assert found.interval.value == own.value > 0.5 and found.interval.low < own.low < own.high < found.interval.high
        held += found.interval.low <= 0.5
        naive += own.low <= 0.5
    assert held >= 0.93 * trials, f"{held} of {trials}"
    assert naive < 0.90 * trials, f"{naive} of {trials}: were this high, nothing would need correcting"


def test_runs_that_judge_the_same_patients_share_their_resamples(monkeypatch):
    """A family of runs has 4 figures a run, each with 1,000 resamples: drawn once for all of them."""
    rng, asked = np.random.default_rng(5), []
    tables = [scores("loss", list(rng.normal(size=20)), MEMBER, notes=3) for _ in range(6)]
    really = bootstrap._drawn
    monkeypatch.setattr(bootstrap, "_drawn", lambda *a: asked.append(1) or really(*a))
    bootstrap._kept.cache_clear()
    found = [strongest_of(judged_by(table), measure, resamples=40) for table in tables for measure in MEASURES]
    assert len(asked) == 1, "members and others are the same patients in all six"
    monkeypatch.setattr(bootstrap, "_KEPT_CELLS", 0)
    afresh = [strongest(table, measure, resamples=40) for table in tables for measure in MEASURES]
    assert len(asked) == 1 + len(found) and afresh == found, "draws of a large cohort are not kept; the same figures"


def test_it_says_what_was_tried():
    many = strongest_sentence(Strongest("rmia", Interval(0.97, 0.95, 0.99), 10, 430))
    assert (
        "strongest of 10 membership attacks" in many
        and "reference models (RMIA), picks" in many
        and "97" in many
        and "0.95 to 0.99" in many
    )
    alone = strongest_sentence(Strongest("loss", Interval(0.52, 0.46, 0.58), 1, 430))
    assert "the loss attack picks" in alone and "a full audit may find a stronger one" in alone
    assert "evaluated on 430 patients" in many, "an AUC of 1 from 15 patients says less than one from 430"
    high = strongest_sentence(Strongest("min-k", Interval(0.9993, 0.9976, 1.0), 10, 430))
    assert "AUC 0.999, 95\u00a0% interval 0.998 to 1.000" in high, "an AUC lies within its interval as it is written"
    assert set(MEASURES) == {"auc", "members_caught", "privacy_leakage"}


def test_the_full_audit_goes_before_the_quick_one(smoke_workspace, smoke_specs):
    from core.runs.store import Workspace

    workspace = Workspace(smoke_workspace, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    assert set(scores_of(run, None)["attack"]) == {"loss"} == set(scores_of(run, workspace.audit(run.id))["attack"])

    class Audit:
        def __init__(self, *attacks: str):
            self.scores = pd.concat([scores(attack, [1.0, 0.0], [True, False]) for attack in attacks])

        def table(self, name: str) -> pd.DataFrame:
            assert name == "scores"
            return self.scores

    full = scores_of(run, Audit("loss", "rmia"))
    assert set(full["attack"]) == {"loss", "rmia"} and len(full) == 4, "the audit's own loss attack counts"
    some = scores_of(run, Audit("rmia"))
    assert len(some) == 2 + len(scores_of(run, None)) and set(some["attack"]) == {"loss", "rmia"}


def test_an_audit_of_a_weak_attack_alone_does_not_hide_the_strong_quick_one(smoke_workspace, smoke_specs):
    """`audit --suite full --attack NAME` stores that attack's scores only; a limit must not pass because of it."""
    from core.runs.store import Workspace

    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    quick = scores_of(run, None)

    class Audit:
        def table(self, name: str) -> pd.DataFrame:
            return quick.assign(attack="attention", score=0.0)

    alone, beside = (strongest(scores_of(run, audit), "auc") for audit in (None, Audit()))
    assert alone.interval.value > 0.6, "a model without privacy leaks"
    assert (beside.attack, beside.interval.value, beside.attacks) == ("loss", alone.interval.value, 2)


def test_a_sentence_names_every_membership_attack_in_words():
    """In brackets stands the name that tables have, so that it can be found there; “the loss attack” is its own."""
    scoring = {name for name, attack in REGISTRY.items() if "scores" in attack.tables}
    assert scoring == set(IN_WORDS)
    for name, words in IN_WORDS.items():
        named = words.replace("\u00a0", " ").lower()
        assert named.endswith(f"({name})") or named == f"the {name} attack"
    assert in_words("of tomorrow") == "the attack “of tomorrow”"


def test_a_certain_precision_rests_on_patients_and_not_on_their_notes():
    judged = units(scores("attention", [1.0] * 4 + [-1.0] * 16, [True] * 10 + [False] * 10, notes=7))
    one = next(one for one in figures(judged, own=0.0, resamples=20, seed=0) if one.metric == "precision")
    assert (one.value, one.low) == (1.0, pytest.approx(proportion_interval(4, 4)[0]))
