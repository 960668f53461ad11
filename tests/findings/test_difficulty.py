"""The AUC among equally hard notes, against pairs counted one by one in every resample."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import patient_weights
from core.findings.measures.attacks import Side, auc, difference
from core.findings.measures.difficulty import auc_beyond, auc_within, spread_left, spread_ratio, tenths


def notes_of(seed: int, *, gain: float, spread: float, patients: int = 40, notes: int = 6) -> pd.DataFrame:
    """Notes with a difficulty of this spread; members' score better by `gain`. `calibrated` knows the difficulty."""
    rng = np.random.default_rng(seed)
    count = patients * notes
    owner = np.arange(count) // notes
    hardness, noise = spread * rng.normal(size=count), rng.normal(0, 0.5, count)
    member = owner % 2 == 0
    return pd.DataFrame(
        {
            "note_id": [f"N{at:04d}" for at in rng.permutation(count)],
            "admission_id": "A",
            "patient_id": [f"P{one:02d}" for one in owner],
            "split": np.where(member, "member", "heldout"),
            "tokens": 10,
            "score": gain * member + noise - hardness,
            "calibrated": gain * member + noise,
            "hardness": hardness,
        }
    )


def naive(rows: pd.DataFrame, groups: pd.Series, weight: dict[str, float]) -> float:
    right = pairs = 0.0
    for one in rows[rows["split"] == "member"].itertuples():
        for other in rows[rows["split"] == "heldout"].itertuples():
            if groups[one.note_id] == groups[other.note_id]:
                both = weight[one.patient_id] * weight[other.patient_id]
                right += both * ((one.score > other.score) + 0.5 * (one.score == other.score))
                pairs += both
    return right / pairs


def grouped(rows: pd.DataFrame) -> pd.Series:
    ordered = rows.set_index("note_id")["hardness"].sort_index()
    return pd.Series(tenths(ordered), index=ordered.index)


def test_only_pairs_of_one_group_count_in_every_resample() -> None:
    rows = notes_of(0, gain=1.0, spread=1.0, patients=20, notes=5)
    groups, judged = grouped(rows), units(rows)
    people = sorted(rows["patient_id"].unique())
    weights = np.vstack([np.ones(20), patient_weights(judged.patient_member, resamples=3, seed=1)])
    found = auc_within(groups.to_numpy())(judged, None)(weights)
    named = [dict(zip(people, row, strict=True)) for row in weights]
    assert found == pytest.approx([naive(rows, groups, one) for one in named])
    beyond = auc_beyond(groups.to_numpy())(judged, None)(weights)
    assert beyond == pytest.approx(auc(judged, None)(weights) - found)
    assert auc_within(np.zeros(100))(judged, None)(weights) == pytest.approx(auc(judged, None)(weights))
    with pytest.raises(ValueError, match="99 notes have a group, and 100 are judged"):
        auc_within(np.zeros(99))(judged, None)


def test_the_advantage_of_calibration_vanishes_among_equally_hard_notes() -> None:
    """By construction: with a spread of difficulty most of it comes from notes that differ, without one nothing."""
    rows = notes_of(1, gain=0.8, spread=2.0)
    sides = Side(rows.assign(score=rows["calibrated"]), "ratio base"), Side(rows, "loss")
    groups = grouped(rows).to_numpy()
    overall = difference(*sides, resamples=200)
    beyond = difference(*sides, auc_beyond(groups), resamples=200)
    assert overall.low > 0.1 and beyond.low > 0 and beyond.value > 0.5 * overall.value
    rows = notes_of(2, gain=0.8, spread=1e-6)
    sides = Side(rows.assign(score=rows["calibrated"]), "ratio base"), Side(rows, "loss")
    assert difference(*sides, auc_beyond(grouped(rows).to_numpy()), resamples=50).value == pytest.approx(0, abs=1e-6)


def test_tenths_are_of_equal_size_and_in_order() -> None:
    values = pd.Series(np.random.default_rng(3).permutation(100))
    found = tenths(values)
    assert np.bincount(found).tolist() == [10] * 10 and (found == values // 10).all()


def test_the_spread_that_is_left_is_that_of_the_notes_never_read() -> None:
    rows = notes_of(4, gain=5.0, spread=2.0)
    calibrated = rows.assign(score=rows["calibrated"]).sample(frac=1, random_state=0)
    found = spread_left(calibrated, rows)
    others = rows[rows["split"] == "heldout"]
    assert found.value == pytest.approx(others["calibrated"].std() / others["score"].std())
    assert found.low < found.value < found.high < 0.5
    drawn, rng = [], np.random.default_rng(5)
    by_patient = dict(tuple(others.groupby("patient_id")))
    for _ in range(1_000):
        one = pd.concat([by_patient[name] for name in rng.choice(sorted(by_patient), len(by_patient))])
        drawn.append(one["calibrated"].std() / one["score"].std())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(drawn, [0.02, 0.98])), abs=0.02)
    doubled = spread_left(rows.assign(score=2 * rows["score"] + 1_000), rows)
    assert (doubled.value, doubled.low, doubled.high) == pytest.approx((2, 2, 2))


def test_spreads_are_compared_between_other_notes_of_the_same_patients() -> None:
    rows = notes_of(4, gain=5.0, spread=2.0)
    more = pd.concat([rows.assign(score=3 * rows["score"] - 7), rows.assign(score=3 * rows["score"] - 7)])
    found = spread_ratio(more, rows)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))  # twice as many notes, equally often
    others = rows[rows["split"] == "heldout"]
    half = rows.groupby("patient_id").sample(frac=0.5, random_state=0)
    kept = half[half["split"] == "heldout"]["score"]
    assert spread_ratio(half, rows).value == pytest.approx(kept.std(ddof=0) / others["score"].std(ddof=0))
    gone = rows[rows["patient_id"] != others["patient_id"].iloc[0]]
    with pytest.raises(ValueError, match="different patients"):
        spread_ratio(gone, rows)
