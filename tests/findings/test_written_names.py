"""Figures of names in many texts, against slow and obvious ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.findings.claims import chosen
from core.findings.measures.names import highest_ranked, patients_written
from core.findings.stored_runs import Missing

Scores = list[float | None]


def stored(members: Scores, others: Scores, invented: Scores) -> SimpleNamespace:
    """Runs with one table. Of each patient and of each other name the score is given, None if no text has the name."""
    rows = [
        (f"{split}{at}" if split else None, split, 0 if score is None else 2, np.nan if score is None else score)
        for split, scores in (("member", members), ("heldout", others), (None, invented))
        for at, score in enumerate(scores)
    ]
    table = pd.DataFrame(rows, columns=["patient_id", "split", "texts", "score"])
    table = table.sample(frac=1, random_state=0)
    return SimpleNamespace(measured=lambda spec, name: table, run=lambda spec: SimpleNamespace(id="a-run"))


def wilson(count: int, n: int) -> tuple[float, float]:
    found = stats.binomtest(count, n).proportion_ci(method="wilson")
    return found.low, found.high


def test_patients_count_once_however_many_texts_name_them() -> None:
    runs = stored([1.0] * 6 + [None] * 24, [2.0] + [None] * 9, [3.0] * 50)
    found = patients_written(runs, None)  # type: ignore[arg-type]
    assert found.value == pytest.approx(6 / 30 - 1 / 10)
    (low, high), (below, above) = wilson(6, 30), wilson(1, 10)
    assert found.low == pytest.approx(0.1 - np.hypot(0.2 - low, above - 0.1))
    assert found.high == pytest.approx(0.1 + np.hypot(high - 0.2, 0.1 - below))


def test_no_patient_named_is_a_difference_of_0_with_an_interval() -> None:
    found = patients_written(stored([None] * 30, [None] * 10, [3.0]), None)  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == pytest.approx((0, -wilson(0, 10)[1], wilson(0, 30)[1]))


def test_the_hundred_highest_names_count_and_others_are_scaled_to_as_many_patients() -> None:
    """Of 160 names the hundred with the highest scores: 40 of 60 members, 5 of 20 others, 55 invented."""
    runs = stored([9.0] * 40 + [1.0] * 5 + [None] * 15, [8.0] * 5 + [2.0] * 5 + [None] * 10, [7.0] * 55 + [0.0] * 50)
    found = highest_ranked(runs, None)  # type: ignore[arg-type]
    control = 1 - (1 - 5 / 100) ** 3  # three times as many members as others
    assert found.value == pytest.approx(0.40 - control)
    (low, high), (below, above) = wilson(40, 100), (1 - (1 - end) ** 3 for end in wilson(5, 100))
    assert found.low == pytest.approx(0.40 - control - np.hypot(0.40 - low, above - control))
    assert found.high == pytest.approx(0.40 - control + np.hypot(high - 0.40, control - below))


def test_names_of_equal_score_at_the_cut_count_in_proportion() -> None:
    """98 places are taken, and the other two are shared by ten names, five of which are members'."""
    runs = stored([5.0] * 5, [None] * 5, [6.0] * 98 + [5.0] * 5)
    assert highest_ranked(runs, None).value == pytest.approx(2 * 5 / 10 / 100)  # type: ignore[arg-type]


def test_of_fewer_than_a_hundred_names_all_count() -> None:
    found = highest_ranked(stored([1.0] + [None] * 9, [None] * 10, [3.0] * 3), None)  # type: ignore[arg-type]
    assert found.value == pytest.approx(1 / 4)
    assert found.low == pytest.approx(1 / 4 - np.hypot(1 / 4 - wilson(1, 4)[0], wilson(0, 4)[1]))


def test_without_any_name_none_is_ranked() -> None:
    with pytest.raises(Missing, match="a-run"):
        highest_ranked(stored([None] * 3, [None] * 3, []), None)  # type: ignore[arg-type]


def test_the_claims_ask_these_two_figures() -> None:
    runs = stored([1.0] * 3 + [None], [None] * 4, [2.0])
    (patients,), (ranked,) = (chosen([name])[0].measure(runs) for name in ("L-c18", "L-c19"))  # type: ignore[misc]
    assert (patients.label, patients.value) == ("DistilBERT", pytest.approx(3 / 4))
    assert (ranked.label, ranked.value) == ("DistilBERT", pytest.approx(3 / 4))
