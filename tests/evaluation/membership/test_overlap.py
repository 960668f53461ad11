"""Who is caught by which attack: a worked example, a naive oracle, and thresholds that accuse no more than allowed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.membership.overlap import overlap
from core.evaluation.stats.intervals import proportion_interval


def rows(attack: str, scores: dict[str, float], members: set[str], notes: int = 1) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (attack, f"{patient}-{note}", patient, "member" if patient in members else "heldout", value)
            for patient, value in scores.items()
            for note in range(notes)
        ],
        columns=["attack", "note_id", "patient_id", "split", "score"],
    )


def test_a_worked_example():
    others = {f"H{number}": float(number) for number in range(10)}  # at 10 %: the threshold is 8, one is accused
    members = {"A": 9.5, "B": 8.5, "C": 8.0, "D": -1.0}
    flipped = {**{name: -value for name, value in others.items()}, "A": 5.0, "B": -5.0, "C": -0.5, "D": 0.0}
    both = pd.concat([rows("one", {**others, **members}, set(members)), rows("two", flipped, set(members), notes=2)])
    found = overlap(both, ["one", "two"])
    assert found is not None
    assert found.accused["one"][found.accused["one"]].index.tolist() == ["A", "B", "H9"]
    assert found.accused["two"][found.accused["two"]].index.tolist() == ["A", "C", "D", "H0"]
    assert found.group(True).index.tolist() == ["A", "B", "C", "D"] and found.group(False).index[0] == "H0"
    said, share = found.at_least(1, member=True)
    assert said == 4 and share.value == share.high == 1.0 and share.low <= proportion_interval(4, 4)[0]
    assert found.at_least(2, member=True)[0] == 1 and found.at_least(2, member=False)[0] == 0
    assert found.at_least(1, member=False)[0] == 2


@pytest.mark.parametrize("accused", [0.05, 0.10, 0.5])
def test_no_attack_accuses_more_than_allowed_and_a_lower_threshold_would(accused):
    rng = np.random.default_rng(1)
    names = [f"P{number:03d}" for number in range(90)]
    members = set(names[:50])
    scores = {name: float(value) for name, value in zip(names, rng.integers(0, 30, 90), strict=True)}  # with ties
    found = overlap(rows("loss", scores, members), ["loss"], accused=accused)
    assert found is not None
    said = found.accused["loss"]
    wrong = said[~found.member]
    assert wrong.mean() <= accused
    lower = max(scores[name] for name in wrong.index[~wrong])  # the next threshold accuses this one, too
    assert sum(scores[name] >= lower for name in wrong.index) > accused * len(wrong)
    assert said[found.member].tolist() == [scores[name] > lower for name in said[found.member].index]


def test_each_resample_sets_its_thresholds_anew():
    rng = np.random.default_rng(2)
    names = [f"P{number:02d}" for number in range(60)]
    members = set(names[:40])
    tables = {attack: dict(zip(names, rng.normal(size=60).round(1), strict=True)) for attack in ("one", "two")}
    found = overlap(pd.concat([rows(name, table, members) for name, table in tables.items()]), ["one", "two"])
    assert found is not None
    for weights, counts in list(zip(found.weights, found.counts, strict=True))[:20]:
        expected = dict.fromkeys(found.accused.index, 0)
        for table in tables.values():
            drawn = [
                table[name]
                for name, times in zip(found.accused.index, weights, strict=True)
                for _ in range(int(times))
                if name not in members
            ]
            threshold = min(value for value in drawn if sum(other > value for other in drawn) <= 2)
            for name in expected:
                expected[name] += table[name] > threshold
        assert counts.tolist() == list(expected.values())


def test_intervals_hold_the_true_share():
    """Two attacks whose scores are one normal draw each: at 10 %, at least one accuses 1 − Φ(z − 1)² of the members."""
    truth = 1 - stats.norm.cdf(stats.norm.isf(0.10) - 1.0) ** 2
    rng, held = np.random.default_rng(4), 0
    names = [f"P{number:03d}" for number in range(300)]
    for _ in range(120):
        tables = []
        for attack in ("one", "two"):
            values = rng.normal(size=300) + (np.arange(300) < 200)
            tables.append(rows(attack, dict(zip(names, values, strict=True)), set(names[:200])))
        found = overlap(pd.concat(tables), ["one", "two"])
        assert found is not None
        share = found.at_least(1, member=True)[1]
        held += share.low <= truth <= share.high
    assert held / 120 >= 0.89  # 95 % are 114; below 107 once in 1,000


def test_only_patients_that_every_attack_scored_are_compared():
    members = {"A", "B"}
    one = rows("one", {"A": 1.0, "B": 2.0, "H1": 0.0, "H2": 3.0}, members)
    two = rows("two", {"A": 1.0, "H1": 0.0}, members)
    found = overlap(pd.concat([one, two]), ["one", "two"])
    assert found is not None and found.accused.index.tolist() == ["A", "H1"]
    assert overlap(one, ["one", "missing"]) is None
    assert overlap(rows("one", {"A": 1.0}, members), ["one"]) is None
