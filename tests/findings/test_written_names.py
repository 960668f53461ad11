"""Figures of names in many texts, against slow and obvious ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.findings.claims import chosen
from core.findings.measures.names import highest_ranked, linked, patients_written
from core.findings.stored_runs import Missing
from core.spec import RunSpec

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


def pairs(rows: list[tuple[str, int, int, float]]) -> SimpleNamespace:
    """Runs with one table of texts with a name and a condition: (split, paired, right, chance) of each patient."""
    table = pd.DataFrame(rows, columns=["split", "paired", "right", "chance"])
    table.insert(0, "patient_id", [f"P{at}" for at in range(len(rows))])
    return SimpleNamespace(measured=lambda spec, name: table, run=lambda spec: SimpleNamespace(id="a-run"))


def test_a_link_is_what_members_have_more_often_than_others() -> None:
    """Of 40 texts about members 24 are right, where 10 would be by chance; held-out patients do not count."""
    rows = [("member", 3, 2, 0.5)] * 8 + [("member", 2, 1, 0.75)] * 8 + [("member", 0, 0, 0.0)] * 4
    found = linked(pairs([*rows, ("heldout", 50, 50, 1.0)]), None)  # type: ignore[arg-type]
    assert found.value == pytest.approx((24 - 10) / 40)
    rng, more, of = np.random.default_rng(0), np.repeat([1.5, 0.25], 8), np.repeat([3, 2], 8)
    drawn = rng.integers(16, size=(20_000, 16))
    means = more[drawn].sum(axis=1) / of[drawn].sum(axis=1)
    assert [found.low, found.high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.02)


def test_without_a_pair_nothing_is_linked() -> None:
    with pytest.raises(Missing, match="a-run"):
        linked(pairs([("member", 0, 0, 0.0), ("heldout", 2, 1, 0.5)]), None)  # type: ignore[arg-type]


def test_the_claims_of_inserted_names_ask_the_longer_texts() -> None:
    """The table of the longer texts alone answers."""
    names = stored([1.0] * 3 + [None], [None] * 4, [2.0]).measured(None, "")
    asked = names.assign(paired=[2, *[0] * (len(names) - 1)], right=0, chance=0.5)

    def measured(spec: RunSpec, name: str) -> pd.DataFrame:
        assert spec.corpus.variant == "name-insertion" and name == "written links"
        return asked

    runs = SimpleNamespace(measured=measured, run=lambda spec: SimpleNamespace(id="a-run"))
    (patients,), (ranked,) = (chosen([name])[0].measure(runs) for name in ("L-c20", "L-c21"))  # type: ignore[misc]
    assert patients.value == ranked.value == pytest.approx(3 / 4)
    asked = asked.assign(split="member", paired=2, right=1)
    (link,) = chosen(["L-c22"])[0].measure(runs)  # type: ignore[arg-type]
    assert link.value == pytest.approx((1 - 0.5) / 2)
