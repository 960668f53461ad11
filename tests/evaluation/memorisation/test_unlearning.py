"""Figures of the battery's unlearning, on numbers whose answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.evaluation.memorisation.unlearning import UNLEARNED_COLUMNS, places, unlearned_figures
from core.evaluation.stats.intervals import proportion_interval, wilson

NOBODY = pd.DataFrame(columns=["drawn", "arm", "steps", "reached", "loss", "stop_loss"])


def standing(own: dict[str, float], others, arm: str = "original", nats: float = 2.0) -> pd.DataFrame:
    """Each patient of `own` with one note of that gain, and never-seen patients with the gains `others`."""
    rows = []
    for patient, gain in own.items():
        rows.append((patient, arm, "n", patient, True, 1, nats, gain))
        rows += [(patient, arm, "", f"H{place}", False, 1, nats, one) for place, one in enumerate(others)]
    names = ["drawn", "arm", "note_id", "patient_id", "forgotten", "tokens", "nats", "gain"]
    return pd.DataFrame(rows, columns=names)


def figures(table: pd.DataFrame, steps: pd.DataFrame = NOBODY) -> pd.DataFrame:
    return unlearned_figures(table, steps, resamples=50).set_index(["arm", "figure"])


def test_places_and_both_ends_are_counted():
    others = np.arange(100.0)
    table = standing({"A": 1e3, "B": 98.5, "C": 49.5, "D": -1.0}, others)  # 1, .99, .5 and 0
    assert places(table)["percentile"].tolist() == [1.0, 0.99, 0.5, 0.0]
    found = figures(table)
    place = found.loc[("original", "place")]
    assert place["value"] == pytest.approx(0.6225)
    assert (place["low"], place["high"]) == wilson(0.6225, 4)
    assert found.loc[("original", "above")].tolist()[:3] == [0.5, *proportion_interval(2, 4)]
    assert found.loc[("original", "below")].tolist()[:3] == [0.25, *proportion_interval(1, 4)]
    assert found.loc[("original", "middle")].tolist()[:3] == [0.25, *proportion_interval(1, 4)]
    assert ("original", "reached") not in found.index
    taken = found.drop(index=("original", "perplexity"))
    assert set(taken["patients"]) == {4} and found.loc[("original", "perplexity"), "patients"] == 100, "held out"


def test_places_that_all_agree_still_have_an_interval():
    place = figures(standing(dict.fromkeys("ABCDEFGH", 9.0), np.zeros(40))).loc[("original", "place")]
    assert place["value"] == place["high"] == 1.0 and 0.5 < place["low"] < 0.8


def test_perplexity_and_reached_are_those_of_each_arm():
    table = pd.concat(
        [
            standing({"A": 0.0, "B": 0.0}, np.zeros(3), nats=np.log(5.0)),
            standing({"A": 0.0}, np.zeros(3), "ascent", nats=np.log(6.0)),
            standing({"B": 0.0}, np.zeros(3), "ascent", nats=np.log(24.0)),
        ]
    )
    steps = pd.DataFrame({"drawn": ["A", "B"], "arm": "ascent", "reached": [True, False]})
    found = figures(table, steps)
    assert found.loc[("original", "perplexity"), "value"] == pytest.approx(5.0)
    assert found.loc[("ascent", "perplexity"), "value"] == pytest.approx(12.0), "the geometric mean of 6 and 24"
    assert found.loc[("ascent", "reached")].tolist()[:3] == [0.5, *proportion_interval(1, 2)]
    assert found.reset_index().columns.tolist() == list(UNLEARNED_COLUMNS)


@pytest.mark.parametrize(("many", "share"), [(129, 7 / 130), (10, 1 / 11), (5, 1 / 6)])
def test_a_place_is_one_of_the_ranks(many, share):
    """Patients in every gap between the never-seen: the share beyond .95 is that of the ranks, not 5 %."""
    own = {str(gap): gap - 0.5 for gap in range(many + 1)}
    found = figures(standing(own, np.arange(float(many))))
    assert found.loc[("original", "above"), "value"] == found.loc[("original", "below"), "value"]
    assert found.loc[("original", "above"), "value"] == pytest.approx(share)


def test_patients_never_read_are_anywhere():
    """Null: gains of drawn patients and of the control come from one distribution."""
    rng = np.random.default_rng(3)
    found = [
        figures(standing({str(one): rng.normal() for one in range(20)}, rng.normal(size=129)))["value"]["original"]
        for _ in range(60)
    ]
    mean = pd.concat(found, axis=1).mean(axis=1)
    assert mean["place"] == pytest.approx(0.5, abs=0.04)
    assert mean["middle"] == pytest.approx(0.5, abs=0.04)
    assert mean["above"] == pytest.approx(0.05, abs=0.02) and mean["below"] == pytest.approx(0.05, abs=0.02)


def test_a_place_of_exactly_95_percent_is_not_above():
    found = figures(standing({"A": 18.5, "B": 0.5}, np.arange(20.0)))  # places 19 / 20 and 1 / 20
    assert found.loc[("original", "above"), "value"] == found.loc[("original", "below"), "value"] == 0.0
