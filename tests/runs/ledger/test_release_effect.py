"""What an entry does to the totals, before it is written."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.runs.ledger.release_effect import Change, Effect, effect
from core.runs.ledger.totals import DELTA, promised
from tests.runs.released import SMOKE, mechanism, release, vocabulary

NOTES = pd.DataFrame({"patient_id": ["a", "a", "a", "b"], "split": "member"})
COHORT = Corpus(SMOKE, pd.DataFrame(), NOTES, pd.DataFrame())


def told(releases, draft):
    found = effect(releases, draft, COHORT)
    return {(one.unit, one.combined): (one.before, one.after) for one in found.changes}, found


def test_the_first_release_speaks_of_its_unit_and_of_the_patient():
    draft = release(1, mechanism=mechanism(20.0))
    changes, found = told([], draft)
    spent = mechanism(20.0).epsilon()
    assert changes == {
        ("note", False): (None, (spent, DELTA)),
        ("patient", True): (None, pytest.approx((mechanism(20.0).patient_epsilon(3, DELTA), DELTA))),
    }
    assert found.reasons == () and found.over(spent * 1.01) == [] and found.over(spent * 0.99) == ["note"]
    assert found.sentences()[0] == (
        "For one note, by what is released per note: nothing released → ε = 0.162 at δ = 10⁻⁵."
    )
    assert "For the patient with the most notes (3), by everything: nothing released →" in found.sentences()[1]


def test_a_total_that_bounds_nothing_is_called_empty_before_it_is_entered():
    _, found = told([], release(1, mechanism=mechanism(0.2)))
    note, patient = found.changes
    assert note.after[0] <= 100 < patient.after[0] < math.inf
    assert patient.sentence().endswith(", in practice nothing.") and "nothing." not in note.sentence()


def test_before_and_after_are_the_ledgers_own_totals_with_and_without_the_entry():
    entered = [release(1, mechanism=mechanism(20.0)), release(2, vocabulary=vocabulary(unit="patient"))]
    draft = release(3, mechanism=mechanism(30.0))
    changes, _ = told(entered, draft)
    for unit in ("note", "patient"):
        both = [(promised(some, unit).epsilon, DELTA) for some in (entered, [*entered, draft])]
        assert changes[unit, False] == tuple(both)
    assert changes["patient", False][0] == changes["patient", False][1], "the other unit's own total stays"
    assert changes["patient", True][0][0] < changes["patient", True][1][0], "and yet a patient is promised less"


def test_a_release_that_ends_every_promise_says_so_and_why():
    """A run without privacy, and an entry of an older version that shares a public seed."""
    entered = [release(1, mechanism=mechanism(20.0))]
    public = mechanism(20.0).model_copy(update={"noise_source": "public seed"})
    for draft, why in ((release(2), "without privacy"), (release(2, mechanism=public), "public seed")):
        changes, found = told(entered, draft)
        assert changes["note", False][0][0] < math.inf == changes["note", False][1][0]
        assert changes["patient", False] == (None, (math.inf, DELTA))
        assert len(found.reasons) == 1 and why in found.reasons[0] and set(found.over(10.0)) == {"note", "patient"}
        assert "→ ε = ∞ (nothing is promised)." in found.sentences()[0]


def test_a_total_that_equals_the_budget_is_within_it():
    at = Effect((Change("note", "one note", None, (2.0, 1e-5)),), ())
    assert at.over(2.0) == [] and at.over(1.999) == ["note"]
