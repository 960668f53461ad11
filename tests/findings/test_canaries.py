"""Exposure and loss of planted canaries, against means and intervals by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.findings.measures.canaries import (
    copies_apart,
    exposure_difference,
    losses_apart,
    mean_exposure_difference,
    planted_minus_left_out,
    pooled_copies_apart,
    pooled_exposure_difference,
    pooled_losses_apart,
)
from core.findings.stored_runs import Missing


def canary_runs(**exposures: list[float]) -> SimpleNamespace:
    """Runs with the same six canaries, of which the fourth was left out and the last is a patient."""
    fixed = {
        "canary_id": ["a", "b", "c", "d", "e", "f"],
        "form": ["HS", "HS", "HSH", "HS", "HS", "patient"],
        "insertions": [1, 4, 4, 8, 4, 1],
        "inserted": [True, True, True, False, True, True],
        "reference_size": 1_024,
    }
    tables = {name: pd.DataFrame({**fixed, "exposure": [*bits, 9.9]}) for name, bits in exposures.items()}
    return SimpleNamespace(run=lambda name: SimpleNamespace(table=lambda _: tables[name]))


def test_exposures_are_compared_by_canary_form_and_copies() -> None:
    """The difference of the same canaries; others, forms and canaries left out do not count. Student's t by hand."""
    runs = canary_runs(one=[1, 2, 9, 9, 3], other=[5, 5, 0, 0, 6])
    found, canaries = exposure_difference(runs, "one", "other", form="HS")  # type: ignore[arg-type]
    assert canaries == 3
    half = stats.t.ppf(0.975, 2) * np.std([-4, -3, -3], ddof=1) / np.sqrt(3)
    assert (found.value, found.high - found.value) == pytest.approx((-10 / 3, half))
    found, canaries = exposure_difference(runs, "one", "other", least=2)  # type: ignore[arg-type]
    assert (found.value, canaries) == (pytest.approx((-3 + 9 - 3) / 3), 3)
    with pytest.raises(Missing, match="HHSHH"):
        exposure_difference(runs, "one", "other", form="HHSHH")  # type: ignore[arg-type]
    with pytest.raises(Missing, match="16 times"):
        exposure_difference(runs, "one", "other", least=16)  # type: ignore[arg-type]


def test_planted_canaries_are_compared_with_those_left_out() -> None:
    """Two means and their intervals by hand: three canaries planted four times, and all that were left out."""
    runs = canary_runs(one=[1, 2, 9, 0.5, 4])
    tables = runs.run("one").table("canaries")
    twice = pd.concat([tables, tables.assign(canary_id=tables["canary_id"] + "2")]).reset_index(drop=True)
    twice.loc[9, "exposure"] = 1.5  # the second canary that was left out
    runs = SimpleNamespace(run=lambda name: SimpleNamespace(table=lambda _: twice))
    found, canaries = planted_minus_left_out(runs, "one", 4)  # type: ignore[arg-type]
    planted, left_out = [2, 9, 4] * 2, [0.5, 1.5]
    half = [stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) / np.sqrt(len(x)) for x in (planted, left_out)]
    assert canaries == 6
    assert (found.value, found.low) == pytest.approx((4.0, 4.0 - np.hypot(*half)))
    assert half[1] > 1, "those left out have 1 bit on average, and none can have less than 0"
    assert found.high == pytest.approx(4.0 + np.hypot(half[0], 1))
    for copies in (8, 2):
        with pytest.raises(Missing):
            planted_minus_left_out(runs, "one", copies)  # type: ignore[arg-type]


def test_canaries_of_many_copies_are_compared_with_those_of_few() -> None:
    """Two means and their intervals by hand: three canaries planted four times, and two that were planted once."""
    rows = canary_runs(one=[3, 6, 9, 0.5, 4]).run("one").table("canaries")
    rows = pd.concat([rows, rows.iloc[:1].assign(canary_id="g", exposure=3.5)], ignore_index=True)
    runs = SimpleNamespace(run=lambda name: SimpleNamespace(table=lambda _: rows))
    found, canaries = copies_apart(runs, "one", 4, 1)  # type: ignore[arg-type]
    few = stats.t.ppf(0.975, 1) * np.std([3, 3.5], ddof=1) / np.sqrt(2)
    many = stats.t.ppf(0.975, 2) * np.std([6, 9, 4], ddof=1) / np.sqrt(3)
    assert (canaries, found.value) == (2, pytest.approx(19 / 3 - 3.25))
    low, high = max(0, 19 / 3 - many), min(10, 19 / 3 + many)
    assert found.low == pytest.approx(found.value - np.hypot(19 / 3 - low, min(few, 10 - 3.25)))
    assert found.high == pytest.approx(found.value + np.hypot(high - 19 / 3, min(few, 3.25)))
    for copies in ((4, 2), (2, 1), (8, 1)):
        with pytest.raises(Missing, match="no canary was planted"):
            copies_apart(runs, "one", *copies)  # type: ignore[arg-type]


def test_canaries_of_one_rank_are_no_certainty() -> None:
    """Three planted canaries of 10 bits: Wilson allows others of 0 bits, as Student's t does not."""
    runs = canary_runs(one=[1, 10, 10, 1, 10], other=[1, 6, 6, 1, 6])
    share = 3 / (3 + stats.norm.isf(0.025) ** 2)
    found, canaries = exposure_difference(runs, "one", "other", least=4)  # type: ignore[arg-type]
    assert (canaries, found.value) == (3, pytest.approx(4))
    assert found.low == pytest.approx(4 * share - 10 * (1 - share))
    assert found.high == pytest.approx(4 * share + 10 * (1 - share))


def test_canaries_of_several_hospitals_are_pooled() -> None:
    """Three differences of one hospital and two of another, whose third has none of this form; t by hand."""
    first = canary_runs(one=[1, 2, 9, 9, 3], other=[5, 5, 0, 0, 6])
    second = canary_runs(three=[2, 2, 9, 9, 3], four=[8, 5, 0, 0, 6])
    table = second.run("three").table("canaries")
    table.loc[4, "inserted"] = False
    second.run("four").table("canaries").loc[4, "inserted"] = False
    runs = SimpleNamespace(run=lambda name: (first if name in ("one", "other") else second).run(name))
    pairs = [("one", "other"), ("three", "four")]
    found, canaries = pooled_exposure_difference(runs, pairs, form="HS")  # type: ignore[arg-type]
    apart = [-4, -3, -3, -6, -3]
    half = stats.t.ppf(0.975, 4) * np.std(apart, ddof=1) / np.sqrt(5)
    assert canaries == 5 and (found.value, found.high - found.value) == pytest.approx((-3.8, half))
    alone, every_form = pooled_exposure_difference(runs, pairs[:1])  # type: ignore[arg-type]
    assert every_form == 4 and alone.value == pytest.approx(np.mean([-4, -3, 9, -3]))
    with pytest.raises(Missing, match="HHSHH"):
        pooled_exposure_difference(runs, pairs, form="HHSHH")  # type: ignore[arg-type]


def test_the_same_canaries_of_several_trainings_are_averaged() -> None:
    """Each canary's mean difference over two trainings is one unit; t by hand."""
    runs = canary_runs(one=[1, 2, 9, 9, 3], other=[5, 5, 5, 0, 6], three=[2, 2, 9, 9, 3], four=[8, 5, 10, 0, 6])
    pairs = [("one", "other"), ("three", "four")]
    found, canaries = mean_exposure_difference(runs, pairs, least=1)  # type: ignore[arg-type]
    apart = [-5, -3, 1.5, -3]
    half = stats.t.ppf(0.975, 3) * np.std(apart, ddof=1) / 2
    assert canaries == 4 and (found.value, found.high - found.value) == pytest.approx((-2.375, half))
    assert mean_exposure_difference(runs, pairs, least=4)[1] == 3  # type: ignore[arg-type]
    with pytest.raises(Missing, match="8 times"):
        mean_exposure_difference(runs, pairs, least=8)  # type: ignore[arg-type]
    runs.run("four").table("canaries").loc[4, "inserted"] = False
    with pytest.raises(Missing, match="not the same ones"):
        mean_exposure_difference(runs, pairs)  # type: ignore[arg-type]


def test_copies_of_several_hospitals_are_pooled_by_form() -> None:
    """Canaries of one form planted four times and once, of two hospitals together; t by hand."""
    runs = canary_runs(one=[3, 6, 9, 1, 4], other=[4, 7, 0, 1, 5])
    for name, losses in {"one": [9.0, 4, 2, 70, 3, 50], "other": [8.0, 5, 1, 70, 2, 50]}.items():
        table = runs.run(name).table("canaries")
        table["loss"] = losses
    both = ["one", "other"]
    found, canaries = pooled_losses_apart(runs, both, 4, 1, form="HS")  # type: ignore[arg-type]
    halves = [
        stats.t.ppf(0.975, len(side) - 1) * np.std(side, ddof=1) / np.sqrt(len(side)) for side in ([4, 3, 5, 2], [9, 8])
    ]
    assert (canaries, found.value) == (2, 3.5 - 8.5) and found.high - found.value == pytest.approx(np.hypot(*halves))
    bits, canaries = pooled_copies_apart(runs, both, 4, 1, form="HS")  # type: ignore[arg-type]
    assert (canaries, bits.value) == (2, np.mean([6, 4, 7, 5]) - 3.5)
    with pytest.raises(Missing, match="HSH"):
        pooled_copies_apart(runs, both, 4, 1, form="HSH")  # type: ignore[arg-type]


def test_losses_have_no_end() -> None:
    """Equal ranks, other losses: three canaries planted four times against two planted once."""
    rows = canary_runs(one=[10, 10, 10, 1, 10]).run("one").table("canaries").assign(loss=[9.0, 4, 2, 70, 3, 50])
    rows = pd.concat([rows, rows.iloc[:1].assign(canary_id="g", loss=8.0)], ignore_index=True)
    runs = SimpleNamespace(run=lambda name: SimpleNamespace(table=lambda _: rows))
    found, canaries = losses_apart(runs, "one", 4, 1)  # type: ignore[arg-type]
    halves = [
        stats.t.ppf(0.975, len(x) - 1) * np.std(x, ddof=1) / np.sqrt(len(x)) for x in ([4.0, 2.0, 3.0], [9.0, 8.0])
    ]
    assert (canaries, found.value) == (2, pytest.approx(3 - 8.5))
    assert (found.low, found.high) == pytest.approx((-5.5 - np.hypot(*halves), -5.5 + np.hypot(*halves)))
    assert copies_apart(runs, "one", 4, 1)[0].value == 0  # type: ignore[arg-type]
    with pytest.raises(Missing, match="no canary was planted"):
        losses_apart(runs, "one", 4, 2)  # type: ignore[arg-type]
