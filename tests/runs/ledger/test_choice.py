"""Released runs that were the best of several runs: what is entered, what it costs, and the chain of entries."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from core.corpus.tables import Corpus
from core.models.word_noise import WordNoise
from core.runs.ledger.choice import MOST_LETTERS, Choice, refuse_choice
from core.runs.ledger.entries import Ledger, LedgerBroken, Release
from core.runs.ledger.release_effect import effect
from core.runs.ledger.totals import DELTA, for_note, for_patient, promised, room_left, together
from core.runs.store import Workspace
from core.spec import VocabularySpec
from core.training.accounting.choosing import chosen_epsilon
from core.training.accounting.chosen_composition import Chosen, total_epsilon, total_patient_epsilon
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.privacy_loss import RDP_ORDERS, epsilon_of_divergences
from tests.runs.released import SMOKE, mechanism, release, vocabulary

SCORE = "loss on public notes"


def choice(trainings: float = 10, shape: float = 0.0) -> Choice:
    return Choice.of(trainings, shape, SCORE)


def best(number: int, sigma: float, unit: str = "note", trainings: float = 10, shape: float = 0.0) -> Release:
    return release(number, mechanism=mechanism(sigma, unit), choice=choice(trainings, shape))


@pytest.fixture
def copied(smoke_workspace: Path, smoke_specs, mark_secret, tmp_path: Path) -> Workspace:
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    return Workspace(tmp_path / "data", shared=())


# Totals --------------------------------------------------------------------------------------------------------------


def test_a_single_chosen_release_is_what_choosing_costs():
    one = best(1, 3.0)
    total = promised([one], "note")
    expected = chosen_epsilon(mechanism(3.0), 10)
    assert total.epsilon == one.epsilon() == total.added == expected > mechanism(3.0).epsilon()
    assert (total.accountant, total.choices) == ("rdp", 1)
    assert total.accounting() == "added up by Rényi divergences (RDP), because the run was chosen among several runs"


def test_two_chosen_releases_are_curves_added_by_hand_and_converted_once():
    """A Gaussian mechanism has the divergence λ/(2σ²). Logarithmic K: γ solves (1/γ − 1) / ln(1/γ) = E[K]."""
    orders, gamma = np.array(RDP_ORDERS), {}
    for trainings in (10, 40):
        low, high = 1e-12, 1.0
        for _ in range(200):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if (1 / middle - 1) / -math.log(middle) > trainings else (low, middle)
        gamma[trainings] = low
    curves = np.zeros(len(orders))
    for sigma, trainings in ((3.0, 10), (4.0, 40)):
        own = orders / (2 * sigma**2)
        repeated = ((1 - 1 / orders) * own + math.log(1 / gamma[trainings]) / orders).min()
        curves += own + repeated + math.log(trainings) / (orders - 1)
    by_hand = (curves + np.log((orders - 1) / orders) - (math.log(DELTA) + np.log(orders)) / (orders - 1)).min()
    total = promised([best(1, 3.0), best(2, 4.0, trainings=40)], "note")
    assert total.epsilon == pytest.approx(by_hand, rel=1e-9) and total.choices == 2
    assert total.epsilon < total.added and "2 of them were chosen" in total.accounting()


def test_unchosen_releases_join_by_their_divergences():
    releases = [best(1, 3.0), release(2, mechanism=mechanism(5.0))]
    total = promised(releases, "note").epsilon
    assert total == total_epsilon([mechanism(5.0)], [Chosen(mechanism(3.0), 10, 0.0)], DELTA)[0]
    without = [release(n, mechanism=mechanism(sigma)) for n, sigma in ((1, 3.0), (2, 5.0))]
    orders = np.array(RDP_ORDERS)
    unchosen = epsilon_of_divergences(orders / 18 + orders / 50, DELTA)
    assert promised(without, "note").accountant == "prv" and promised(without, "note").epsilon < unchosen < total
    assert "because one of them was chosen" in promised(releases, "note").accounting()
    with_one = promised([best(1, 3.0, trainings=1), releases[1]], "note").epsilon
    assert unchosen <= with_one < total, "one expected training costs no less than its Rényi divergences"


def test_more_trainings_make_every_total_larger():
    found = [promised([best(1, 3.0, trainings=k)], "note").epsilon for k in (1, 2, 5, 20, 1_000)]
    assert (np.diff(found) > 0).all()
    shapes = [promised([best(1, 3.0, shape=shape)], "note").epsilon for shape in (0.0, 1.0, 5.0)]
    assert (np.diff(shapes) > 0).all()


def test_a_choice_of_one_unit_leaves_the_other_units_own_total_alone():
    releases = [best(1, 3.0), release(2, mechanism=mechanism(4.0, "patient"))]
    assert promised(releases, "patient") == promised(releases[1:], "patient")
    assert promised(releases, "patient").accountant == "prv"


def test_several_notes_and_both_units_together_count_the_choice():
    notes = pd.DataFrame({"patient_id": ["a", "a", "a", "b"], "split": "member"})
    corpus = Corpus(SMOKE, pd.DataFrame(), notes, pd.DataFrame())
    releases = [best(1, 20.0), best(2, 30.0, "patient", trainings=5)]
    note, patient = promised(releases, "note"), promised(releases, "patient")
    three = total_patient_epsilon([], [Chosen(mechanism(20.0), 10, 0.0)], 3, DELTA)
    assert for_patient(releases, note, patient, 3) == (three + patient.epsilon, 2 * DELTA)
    assert three > mechanism(20.0).patient_epsilon(3, DELTA) and three > note.epsilon
    twice, share = group_epsilon(patient.epsilon, DELTA, 2)
    assert for_note(note, patient) == pytest.approx((note.epsilon + twice, DELTA + share))
    by_unit = {one.unit: one for one in together(releases, note, patient, corpus)}
    assert by_unit["patient"].epsilon == three + patient.epsilon and by_unit["note"].epsilon == note.epsilon + twice
    many = for_patient(releases, note, patient, 1_001)
    assert math.isinf(many[0]), "nothing finite is known, so nothing is promised"


def test_vocabularies_and_lost_promises_count_as_ever():
    words = release(2, vocabulary=vocabulary(epsilon=0.01, delta=1e-8, words=10))
    total = promised([best(1, 3.0), words], "note")
    left = total_epsilon([], [Chosen(mechanism(3.0), 10, 0.0)], DELTA - 1e-7)[0]
    assert total.epsilon == pytest.approx(left + 0.1)
    lost = promised([best(1, 3.0), release(2)], "note")
    assert math.isinf(lost.epsilon) and lost.if_independent == best(1, 3.0).epsilon()


def test_room_beside_a_choice_is_for_one_training():
    spent = [best(1, 5.0)]
    budget = 1.5 * promised(spent, "note").epsilon
    more = room_left(spent, "note", budget)
    after = promised([*spent, release(2, mechanism=more)], "note").epsilon
    assert 0.99 * budget < after <= budget
    assert promised([*spent, release(2, mechanism=more, choice=choice())], "note").epsilon > budget
    assert room_left(spent, "note", 0.9 * promised(spent, "note").epsilon) is None


def test_the_effect_shown_before_is_that_of_the_choice():
    notes = pd.DataFrame({"patient_id": ["a", "a", "b"], "split": "member"})
    corpus = Corpus(SMOKE, pd.DataFrame(), notes, pd.DataFrame())
    before = [release(1, mechanism=mechanism(20.0))]
    plain, chosen = (effect(before, one, corpus) for one in (release(2, mechanism=mechanism(20.0)), best(2, 20.0)))
    for one, other in zip(plain.changes, chosen.changes, strict=True):
        assert one.before == other.before and one.after[0] < other.after[0]
    assert chosen.changes[0].after[0] == promised([*before, best(2, 20.0)], "note").epsilon


# Entries -------------------------------------------------------------------------------------------------------------


def test_a_choice_is_entered_with_its_score(copied, smoke_specs):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    entered = ledger.enter(ledger.draft_run(run, "for a class", Choice.of(20, 1.0, "loss on\npublic \x07 notes")))
    assert entered.choice == Choice(trainings=20, shape=1.0, score="loss on public notes")
    assert entered.choice.text() == "best of 20 expected runs (η = 1), chosen by loss on public notes"
    (stored,) = ledger.releases()
    assert stored == entered and stored.epsilon() == chosen_epsilon(run.privacy, 20, shape=1.0) > run.privacy.epsilon()
    with pytest.raises(ValueError, match="already, as entry 1"):
        ledger.draft_run(run, "again, without the choice")


@pytest.mark.parametrize("change", ["fewer", "gone", "shape", "score"])
@pytest.mark.parametrize("later", [0, 1])
def test_an_edited_choice_breaks_the_chain(copied, smoke_specs, change, later):
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    ledger.enter(ledger.draft_run(run, "for a class", Choice.of(20, 1.0, SCORE)))
    for number in range(later):
        ledger.enter(ledger.draft_vocabulary(f"words {number}", vocabulary(), "a test"))
    path = ledger.folder / "0001.json"
    stored = json.loads(path.read_text())
    if change == "gone":
        del stored["choice"]
    else:
        stored["choice"] |= {"fewer": {"trainings": 2}, "shape": {"shape": 0.0}, "score": {"score": "x"}}[change]
    path.write_text(json.dumps(stored, indent=1))
    with pytest.raises(LedgerBroken, match="changed after it was written|newest"):
        ledger.releases()


def test_an_entry_without_a_choice_is_written_as_before_there_were_any(copied, smoke_specs):
    """Older versions refuse fields that they do not know: a ledger without a choice stays one that they can read."""
    ledger, run = Ledger.of(copied, SMOKE), copied.run(smoke_specs["dp"].run_id)
    ledger.enter(ledger.draft_run(run, "for a class"))
    stored = json.loads((ledger.folder / "0001.json").read_text())
    known = "number time cohort corpus kind name reason mechanism seed most_notes vocabulary headed previous"
    assert list(stored) == known.split()
    head = (ledger.folder / "head").read_bytes()
    other = copied.run(smoke_specs["plain"].run_id)
    ledger.enter(ledger.draft_run(other, "a mistake"))
    assert ledger.releases()[0].choice is None and (ledger.folder / "head").read_bytes() != head


def test_what_the_theorem_does_not_cover_is_refused_in_a_sentence(copied, smoke_specs):
    ledger, one = Ledger.of(copied, SMOKE), mechanism(2.0)
    with pytest.raises(ValueError, match="trained without privacy.*enter it without a choice"):
        ledger.draft_run(copied.run(smoke_specs["plain"].run_id), "x", choice())
    words = one.model_copy(update={"delta": 1e-3}).with_vocabulary(WordNoise.planned(VocabularySpec(epsilon=1.0)))
    public = one.model_copy(update={"noise_source": "public seed"})
    for wrong, notes, why in (
        (words, None, "vocabulary from the notes"),
        (one.replacing(), None, "cap on the notes"),
        (one, 5, "cap on the notes"),
        (public, None, "public seed"),
    ):
        with pytest.raises(ValueError, match=f"{why}.*Enter every run of the sweep"):
            refuse_choice("run", wrong, notes)
        with pytest.raises(ValidationError, match="cost is not known"):
            release(1, mechanism=wrong, most_notes=notes, choice=choice())
    with pytest.raises(ValidationError, match="cost is not known"):
        release(1, choice=choice())
    refuse_choice("run", mechanism(2.0, "patient"), 5)  # a cap is within the unit
    assert not ledger.folder.exists()


@pytest.mark.parametrize(
    ("trainings", "shape", "score", "why"),
    [
        (0.5, 0.0, SCORE, "choosing needs 1 to"),
        (math.nan, 0.0, SCORE, "choosing needs 1 to"),
        (10, -1.0, SCORE, "no finite sum"),
        (10, 0.0, " \n", "needs the score"),
        (10, 0.0, "x" * (MOST_LETTERS + 1), "at most 1,000 characters, not 1,001"),
    ],
)
def test_a_choice_that_says_too_little_is_refused(trainings, shape, score, why):
    with pytest.raises(ValueError, match=why):
        Choice.of(trainings, shape, score)
    if score == SCORE:
        with pytest.raises(ValidationError):
            Choice(trainings=trainings, shape=shape, score=score)
