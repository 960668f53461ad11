"""A part of the reference, and a weight that is estimated without members, on tables with known answers."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.attacks.membership.decision import LOSS
from core.findings.measures.attacks import Side, difference
from core.findings.measures.weights import (
    fitted_weight,
    less_reference,
    ratio_with_reference_of,
    reference_scores,
    weighted_minus_loss,
    weighted_sides,
)
from core.findings.stored_runs import Missing

RATIO = "ratio population"


def tables(weight: float, *, patients: int = 30, notes: int = 5) -> tuple[pd.DataFrame, pd.Series]:
    """The loss's scores, which are `weight` · the reference's, noise, and 0.5 more for members; and the reference's."""
    rng = np.random.default_rng(3)
    count = patients * notes
    owner = np.arange(count) // notes
    split = np.array(["member", "heldout", "population"])[owner % 3]
    names = [f"N{at:03d}" for at in rng.permutation(count)]
    reference = pd.Series(rng.normal(-2, 1, count), index=names, name="score")
    score = weight * reference.to_numpy() + rng.normal(0, 0.3, count) + 0.5 * (split == "member")
    rows = pd.DataFrame(
        {
            "note_id": names,
            "admission_id": names,
            "patient_id": [f"P{one:02d}" for one in owner],
            "split": split,
            "tokens": 10,
            "score": score,
        }
    )
    return rows, reference


def runs_of(loss: pd.DataFrame, reference: pd.Series, quick: pd.DataFrame | None = None) -> SimpleNamespace:
    ratio = loss.assign(score=loss["score"].to_numpy() - reference[loss["note_id"]].to_numpy())
    stored = {LOSS: loss, RATIO: ratio.sample(frac=1, random_state=0)}
    return SimpleNamespace(scores=lambda spec, attack: stored[attack], quick_scores=lambda spec: quick)


def test_the_reference_is_what_the_ratio_has_less_than_the_loss() -> None:
    loss, reference = tables(0.4)
    found = reference_scores(runs_of(loss, reference), None, RATIO)  # type: ignore[arg-type]
    pd.testing.assert_series_equal(found.sort_index(), reference.sort_index(), check_names=False)
    half = less_reference(loss, reference.drop(loss["note_id"][0]), 0.5)
    assert len(half) == len(loss) - 1, "a note without the reference's score is left out"
    assert half["score"].to_numpy() == pytest.approx(loss["score"][1:] - reference[loss["note_id"][1:]].to_numpy() / 2)


def test_the_weight_is_the_slope_over_the_population_alone() -> None:
    """By the textbook's formula; members' and held-out patients' scores may be anything."""
    loss, reference = tables(0.4)
    population = loss[loss["split"] == "population"]
    x = reference[population["note_id"]].to_numpy()
    slope = np.cov(x, population["score"])[0, 1] / np.var(x, ddof=1)
    assert fitted_weight(loss, reference) == pytest.approx(slope) == pytest.approx(0.4, abs=0.1)
    judged = loss["split"] != "population"
    other = loss.assign(score=loss["score"].where(~judged, 99.0))
    assert fitted_weight(other, reference) == pytest.approx(slope)
    with pytest.raises(Missing, match="too few"):
        fitted_weight(loss[judged], reference)


def test_where_all_of_the_reference_is_too_much_a_part_of_it_helps() -> None:
    loss, reference = tables(0.4)
    runs = runs_of(loss, reference)
    found = {weight: weighted_minus_loss(runs, None, RATIO, weight) for weight in (0.0, 0.4, 1.0, None)}  # type: ignore[arg-type]
    assert (found[0.0].value, found[0.0].low, found[0.0].high) == (0, 0, 0)
    assert found[0.4].low > 0 > found[1.0].value
    assert found[None].value == pytest.approx(found[0.4].value, abs=0.02)
    ratio = runs.scores(None, RATIO)
    assert found[1.0] == difference(Side(ratio, RATIO), Side(loss, LOSS))
    estimated = weighted_sides(runs, None, RATIO, None)[1]  # type: ignore[arg-type]
    expected = less_reference(loss, reference, fitted_weight(loss, reference))
    assert estimated["score"].to_numpy() == pytest.approx(expected["score"].to_numpy())


def test_another_run_is_attacked_with_the_reference_of_the_audited_one() -> None:
    """A quick audit has no population, and its loss is its own."""
    loss, reference = tables(1.0)
    judged = loss[loss["split"] != "population"]
    quick = judged.assign(score=judged["score"] + np.random.default_rng(4).normal(0, 0.2, len(judged)))
    runs = runs_of(loss, reference, quick)
    found = ratio_with_reference_of(runs, "other", "audited", RATIO)  # type: ignore[arg-type]
    ratio = quick.assign(score=quick["score"].to_numpy() - reference[quick["note_id"]].to_numpy())
    expected = difference(Side(ratio, RATIO), Side(quick, LOSS))
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))
    assert found.value > 0.1
