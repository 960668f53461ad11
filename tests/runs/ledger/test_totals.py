"""What releases promise together: sums with known answers."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.runs.ledger.entries import Release
from core.runs.ledger.totals import DELTA, for_note, for_patient, most_notes, promised, room_left, together
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.mechanism import Mechanism
from tests.runs.released import SMOKE, mechanism, release, vocabulary


def classroom(sigma: float, unit: str = "note") -> Mechanism:
    """46 steps on the classroom's 2,925 notes, 256 a step."""
    return mechanism(sigma, unit).model_copy(update={"sample_rate": 256 / 2925, "steps": 46})


def cohort(*sizes: int) -> Corpus:
    """Patients with so many notes each; nothing but whose a note is."""
    whose = [f"p{number}" for number, size in enumerate(sizes) for _ in range(size)]
    notes = pd.DataFrame({"patient_id": whose, "split": "member"})
    return Corpus(SMOKE, pd.DataFrame(), notes, pd.DataFrame())


def test_nothing_released_is_nothing_promised_away():
    total = promised([], "note", DELTA)
    assert (total.epsilon, total.releases, total.reasons) == (0.0, 0, ())


def test_twice_the_same_mechanism_is_twice_the_steps():
    total = promised([release(n, mechanism=mechanism(2.0)) for n in (1, 2)], "note", DELTA)
    doubled = mechanism(2.0).model_copy(update={"steps": 2})
    assert total.epsilon == doubled.epsilon() < total.added == pytest.approx(2 * mechanism(2.0).epsilon())


def test_a_run_without_privacy_makes_every_total_infinite():
    total = promised([release(1, mechanism=mechanism(2.0)), release(2)], "note", DELTA)
    assert math.isinf(total.epsilon) and total.if_independent == mechanism(2.0).epsilon()
    assert "release 2 was trained without privacy" in total.reasons[0]
    assert math.isinf(promised([release(1)], "patient", DELTA).epsilon)


def test_a_run_with_a_public_seed_promises_nothing_to_anybody():
    """Entries of versions that knew public seeds only: with one seed or with two, each noise can be drawn again."""
    secret = [release(n, mechanism=mechanism(sigma)) for n, sigma in ((1, 2.0), (2, 3.0))]
    drawn = mechanism(3.0).model_copy(update={"noise_source": "public seed"})
    for unit in ("note", "patient"):
        total = promised([secret[0], release(2, mechanism=drawn)], unit, DELTA)
        assert math.isinf(total.epsilon) and len(total.reasons) == 1
        assert "release 2 took its noise from a public seed" in total.reasons[0]
    own = promised([secret[0], release(2, mechanism=drawn)], "note", DELTA)
    alone = promised(secret, "note", DELTA)
    assert alone.reasons == () and alone.epsilon == own.if_independent


def test_units_have_totals_of_their_own():
    both = [release(1, mechanism=mechanism(2.0)), release(2, mechanism=mechanism(3.0, "patient"))]
    note, patient = promised(both, "note", DELTA), promised(both, "patient", DELTA)
    assert note.epsilon == mechanism(2.0).epsilon() and patient.epsilon == mechanism(3.0).epsilon()
    three = mechanism(2.0).patient_epsilon(3, DELTA)
    assert for_patient(both, note, patient, 3) == (three + patient.epsilon, 2 * DELTA)
    twice, twice_delta = group_epsilon(patient.epsilon, DELTA, 2)
    assert for_note(note, patient) == pytest.approx((note.epsilon + twice, DELTA + twice_delta))
    only = promised(both[1:], "note", DELTA)
    assert for_patient(both[1:], only, patient, 3) == (patient.epsilon, DELTA), "no note-level release costs nothing"


def test_both_units_releases_are_told_together_as_by_hand():
    """ε₁ = ε₂ = 7.98 at 10⁻⁵: one note has 3ε and (2 + e^ε)δ, a patient with many notes nothing."""
    both = [release(1, mechanism=classroom(0.75)), release(2, mechanism=classroom(0.75, "patient"))]
    totals = [promised(both, unit) for unit in ("note", "patient")]
    own = totals[0].epsilon
    patient, note = together(both, *totals, cohort(3, 34))
    assert (note.unit, note.notes, patient.unit, patient.notes) == ("note", None, "patient", 34)
    assert note.epsilon == pytest.approx(3 * own) == pytest.approx(23.94, abs=0.01)
    assert note.delta == pytest.approx((2 + math.exp(own)) * DELTA) == pytest.approx(0.029, abs=5e-4)
    assert note.sentence() == "For one note, everything together promises ε = 24 at δ = 0.03."
    whom = "the patient with the most notes (34)"
    assert patient.sentence() == f"For {whom}, everything together promises nothing at all."


def test_what_is_told_together_is_what_a_units_own_total_leaves_out():
    corpus = cohort(3)

    def told(*releases: Release) -> dict[str, float]:
        totals = [promised(releases, unit) for unit in ("note", "patient")]
        return {one.unit: one.epsilon for one in together(releases, *totals, corpus)}

    strong = mechanism(20.0).epsilon()
    assert told() == {} and told(release(1)) == {}, "nothing is left out: all is said"
    assert told(release(1, mechanism=mechanism(20.0))) == {"patient": mechanism(20.0).patient_epsilon(3, 1e-5)}
    assert told(release(1, mechanism=mechanism(20.0, "patient"))) == pytest.approx({"note": 2 * strong})
    used_up = release(1, vocabulary=vocabulary(delta=1e-6, words=20))
    patients = release(2, mechanism=mechanism(20.0, "patient"))
    assert told(used_up, patients) == {"note": math.inf, "patient": math.inf}, "the patients' total alone is finite"


def test_the_most_notes_of_a_patient_are_those_that_a_release_may_have_read():
    corpus = cohort(2, 70)
    runs = [release(n, mechanism=mechanism(2.0), most_notes=most) for n, most in ((1, 5), (2, 60))]
    assert [most_notes(runs[:1], corpus), most_notes(runs, corpus)] == [5, 60]
    assert most_notes([*runs, release(3, vocabulary=vocabulary())], corpus) == 70, "an entry that does not say"
    assert most_notes([release(1, mechanism=mechanism(2.0, "patient"), most_notes=60), runs[0]], corpus) == 5


def test_what_fits_beside_a_vocabulary_keeps_the_whole_total_within_the_budget():
    words = release(2, vocabulary=vocabulary(epsilon=2.0, delta=1e-10, words=3))
    spent = [release(1, mechanism=classroom(2.55)), words]
    assert promised(spent, "note").epsilon == pytest.approx(7.0, abs=0.01)
    more = room_left(spent, "note", 8.0)
    after = promised([*spent, release(3, mechanism=more)], "note").epsilon
    assert 0.99 * 8.0 < after <= 8.0 and more.delta == DELTA
    assert 0 < more.epsilon() < 2.0, "6 of the 8 are the vocabulary's"
    alone = room_left(spent[:1], "note", 8.0)
    assert promised([spent[0], release(3, mechanism=alone)], "note").epsilon == pytest.approx(8.0, rel=0.01)


def test_where_vocabularies_have_used_a_budget_up_nothing_fits():
    spent = [release(1, mechanism=classroom(2.55)), release(2, vocabulary=vocabulary(epsilon=2.0, words=3))]
    assert room_left(spent, "note", 6.0) is None and room_left(spent, "note", 6.5) is None
    other = release(2, vocabulary=vocabulary(epsilon=2.0, words=3, unit="patient"))
    assert room_left([spent[0], other], "note", 6.0) is not None, "the other unit's words are not this one's"
    for releases in (spent[1:], [spent[0], release(2)], [spent[0], release(2, vocabulary=vocabulary(delta=1e-6))]):
        with pytest.raises(ValueError, match="room for one note"):
            room_left(releases, "note", 8.0)


def test_a_vocabulary_adds_by_basic_composition():
    words = vocabulary(epsilon=0.01, delta=1e-8, words=10)
    assert words.guarantee() == pytest.approx((0.1, 1e-7))  # kε; (k−1)ε/2 is small, so kδ
    total = promised([release(1, mechanism=mechanism(2.0)), release(2, vocabulary=words)], "note", DELTA)
    left = mechanism(2.0).model_copy(update={"delta": DELTA - 1e-7})
    assert total.epsilon == pytest.approx(left.epsilon() + 0.1)
    spent = promised([release(1, vocabulary=vocabulary(delta=1e-6, words=20))], "note", DELTA)
    assert math.isinf(spent.epsilon) and "vocabularies alone" in spent.reasons[0]


def test_a_word_said_often_costs_more_delta_than_row_h1_counts():
    words = vocabulary(epsilon=1.0, delta=1e-12, words=20)
    assert words.guarantee() == pytest.approx((20.0, 1e-12 * math.exp(9.5) / 4))
    assert words.guarantee()[1] > 20 * 1e-12
    assert vocabulary(epsilon=10.0, delta=1e-6, words=100).guarantee()[1] == 1.0


def test_a_bad_delta_is_refused():
    with pytest.raises(ValueError, match="δ"):
        promised([], "note", 0.0)


def test_a_vocabulary_released_by_itself_grows_with_the_notes_of_a_patient():
    words = vocabulary(epsilon=0.01, delta=1e-8, words=10)
    both = [release(1, mechanism=mechanism(2.0)), release(2, vocabulary=words)]
    note, patient = promised(both, "note", DELTA), promised(both, "patient", DELTA)
    spent, share = group_epsilon(*words.guarantee(), 3)
    assert spent == pytest.approx(0.3) and share > 3e-7
    run = mechanism(2.0).patient_epsilon(3, DELTA)
    assert for_patient(both, note, patient, 3) == pytest.approx((run + spent, DELTA + share))
