"""Figures of the battery's unlearning, on numbers whose answer is known."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from core.evaluation.memorisation.unlearning import UNLEARNED_COLUMNS, mean_place, places, unlearned_figures
from core.evaluation.stats.intervals import proportion_interval, wilson
from core.runs.store import DEMO, Workspace

SHIPPED_PLACES = [  # run, model, mean place and its interval, by an independent script
    ("gpt2-804b3c7f558b", "ascent", 0.4310, 0.3377, 0.5294),
    ("gpt2-804b3c7f558b", "difference", 0.4128, 0.3272, 0.5040),
    ("gpt2-1ea4fd58ffd0", "ascent", 0.3493, 0.2741, 0.4328),
    ("gpt2-1ea4fd58ffd0", "difference", 0.3450, 0.2702, 0.4283),
    ("gpt2-9c478ef93063", "original", 0.5203, 0.3825, 0.6551),
]
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
    assert found.loc[("original", "above")].tolist()[:3] == [0.5, *proportion_interval(2, 4)]
    assert found.loc[("original", "below")].tolist()[:3] == [0.25, *proportion_interval(1, 4)]
    assert found.loc[("original", "middle")].tolist()[:3] == [0.25, *proportion_interval(1, 4)]
    assert ("original", "reached") not in found.index
    taken = found.drop(index=("original", "perplexity"))
    assert set(taken["patients"]) == {4} and found.loc[("original", "perplexity"), "patients"] == 100, "held out"


def test_places_that_all_agree_still_have_an_interval():
    place = figures(standing(dict.fromkeys("ABCDEFGH", 9.0), np.zeros(40))).loc[("original", "place")]
    assert place["value"] == place["high"] == 1.0 and place["low"] == pytest.approx(0.8513, abs=1e-4), "Newcombe"


def test_the_interval_of_a_place_by_hand():
    """Three drawn (places 1, ½, ½) and two never seen, whom ⅓ and 1 of the drawn exceed: DeLong's two variances."""
    found = mean_place(standing({"A": 3.0, "B": 1.0, "C": 1.0}, [2.0, 0.0]))
    error = math.sqrt((1 / 12) / 3 + (2 / 9) / 2)  # of 1, ½, ½: variance 1/12; of ⅓ and 1: 2/9
    half = 12.706204736 * error / ((2 / 3) * (1 / 3))  # Student's t with one degree of freedom, on the logit scale
    assert found.value == pytest.approx(2 / 3)
    assert math.log(found.low / (1 - found.low)) == pytest.approx(math.log(2) - half)
    assert math.log(found.high / (1 - found.high)) == pytest.approx(math.log(2) + half)
    alone = mean_place(standing({"A": 1.0}, [2.0, 0.0]))
    assert (alone.value, alone.low, alone.high) == (0.5, *wilson(0.5, 1)), "one patient shows no spread"
    tied = mean_place(standing({"A": 1.0, "B": 1.0}, [1.0, 1.0, 1.0]))
    assert (tied.low, tied.high) == wilson(0.5, 2)


def test_the_interval_covers_also_where_all_patients_stand_at_one_place():
    """As after unlearning: the never-seen patients are then all that varies, and the drawn ones alone show nothing."""
    rng, truth = np.random.default_rng(5), norm.cdf(-0.4 / math.sqrt(1 + 0.1**2))
    found = [
        mean_place(standing({str(one): rng.normal(-0.4, 0.1) for one in range(20)}, rng.normal(size=60)))
        for _ in range(200)
    ]
    covered = [one.low <= truth <= one.high for one in found]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)
    assert np.mean([one.high - one.low for one in found]) < 0.3, "Wilson's with 20 trials is .38 wide"


@pytest.mark.parametrize(("run", "arm", "value", "low", "high"), SHIPPED_PLACES)
def test_the_places_of_the_methods_page_are_those_of_the_shipped_audits(run, arm, value, low, high):
    table = Workspace(DEMO, shared=()).audit(run).table("unlearned").set_index(["arm", "figure"])
    stored = table.loc[(arm, "place"), ["value", "low", "high"]].astype(float)
    assert stored.tolist() == pytest.approx([value, low, high], abs=5e-4)
    rows = Workspace(DEMO, shared=()).audit(run).table("unlearning_standing")
    made = mean_place(rows[rows["arm"] == arm])
    assert stored.tolist() == pytest.approx([made.value, made.low, made.high])


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
