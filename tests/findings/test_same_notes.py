"""Two runs are compared only on what both scored: the same held-out notes, as many claims about each patient."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.attacks.membership.decision import LOSS
from core.evaluation.sweep.limit_measures import losses_by_patient
from core.findings.measures.tables import accuracy_difference, perplexity_ratio
from core.findings.stored_runs import Missing
from core.tasks.inference import TASK as INFERENCE

PATIENTS, NOTES = 6, 3
REFUSED = "the runs one and other did not score the same held-out notes"


def scores() -> pd.DataFrame:
    """Scores of notes of six held-out patients and one member."""
    where = [(patient, note) for patient in range(PATIENTS + 1) for note in range(NOTES)]
    return pd.DataFrame(
        {
            "note_id": [f"N{patient}-{note}" for patient, note in where],
            "patient_id": [f"P{patient}" for patient, _ in where],
            "split": ["heldout" if patient < PATIENTS else "member" for patient, _ in where],
            "attack": LOSS,
            "tokens": [10 + note for _, note in where],
            "score": np.random.default_rng(0).normal(-3.0, 0.5, len(where)),
        }
    )


def answers() -> pd.DataFrame:
    return pd.DataFrame(
        {"patient_id": [f"P{n}" for n in range(PATIENTS)], "task": INFERENCE, "trials": 4, "correct": 3}
    )


def of_two(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> Any:
    """What `StoredRuns.run` gives of two runs, by their names in place of specs."""
    tables = {"one": one, "other": other}
    return SimpleNamespace(
        run=lambda name: SimpleNamespace(
            id=name, figures_only="heldout_losses" in tables[name], table=tables[name].__getitem__
        )
    )


def of_scores(one: pd.DataFrame, other: pd.DataFrame) -> Any:
    return of_two({"scores": one}, {"scores": other})


def sums(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """What a run with figures only has of the same scores."""
    return {"heldout_losses": losses_by_patient(rows)}


def without(column: str, name: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda rows: rows[rows[column] != name]


def longer(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(tokens=rows["tokens"] + (rows["note_id"] == "N3-1"))


@pytest.mark.parametrize("change", [without("note_id", "N3-1"), without("patient_id", "P3"), longer])
def test_a_ratio_of_perplexities_on_different_notes_is_refused(change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """A note less, a patient less, or a note cut elsewhere; of single notes and of sums by patient."""
    one, other = scores(), change(scores())
    for runs in (
        of_scores(one, other),
        of_two(sums(one), {"scores": other}),
        of_two({"scores": one}, sums(other)),
        of_two(sums(other), sums(one)),
    ):
        with pytest.raises(Missing, match=REFUSED):
            perplexity_ratio(runs, "one", "other")  # type: ignore[arg-type]


def test_as_many_other_notes_are_refused_where_notes_have_ids() -> None:
    one = scores()
    other = one.assign(note_id=one["note_id"].replace("N3-1", "N3-9"))
    with pytest.raises(Missing, match=REFUSED):
        perplexity_ratio(of_scores(one, other), "one", "other")  # type: ignore[arg-type]
    found = perplexity_ratio(of_two(sums(one), {"scores": other}), "one", "other")  # type: ignore[arg-type]
    assert found.value == pytest.approx(1.0), "sums by patient do not say which notes they are of"


def test_neither_order_nor_members_matter() -> None:
    one = scores()
    other = without("patient_id", f"P{PATIENTS}")(one).iloc[::-1].assign(score=lambda rows: rows["score"] - np.log(2))
    found = perplexity_ratio(of_scores(other, one), "one", "other")  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_a_difference_of_accuracies_needs_as_many_claims_about_each_patient() -> None:
    one, fewer = answers(), answers().assign(trials=[4, 4, 4, 3, 4, 4])
    worse = one.assign(correct=2)
    same = of_two({"utility": one}, {"utility": worse})
    assert accuracy_difference(same, "one", "other").value == pytest.approx(0.25)  # type: ignore[arg-type]
    for other in (fewer, one[one["patient_id"] != "P3"]):
        with pytest.raises(Missing, match="the runs one and other did not judge as many claims about each held-out"):
            accuracy_difference(of_two({"utility": one}, {"utility": other}), "one", "other")  # type: ignore[arg-type]
