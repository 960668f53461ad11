"""Where leaks begin: known curves, what cannot be said, and how often chance alone is called a leak."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.evaluation.sweep.waking import ATTACKS, first_leaking, waking, wakings

EPSILONS = (1.0, 8.0, 100.0, 1_000.0, math.inf)


def curve(metric: str, lows: list[float], *, control: float = 0.1, epsilons=EPSILONS, arm="heldout") -> pd.DataFrame:
    """Points of one figure with these lower ends, and a control whose interval ends at `control`."""
    rows = [(epsilon, metric, "run", low + 0.05, low, low + 0.1) for epsilon, low in zip(epsilons, lows, strict=True)]
    rows += [(epsilon, metric, arm, control / 2, 0.0, control) for epsilon in epsilons]
    frame = pd.DataFrame(rows, columns=["epsilon", "metric", "arm", "value", "low", "high"])
    return frame.assign(kind="gpt2", size="tiny", base="clinical", corpus="c")


def test_a_leak_begins_between_the_last_quiet_epsilon_and_the_first_from_which_on_it_stays():
    found = waking(curve("full_name_patients", [0.0, 0.0, 0.05, 0.2, 0.4]), "full_name_patients")
    assert (found.epsilon, found.below, found.largest, found.plain) == (1_000.0, 100.0, 1_000.0, True)
    assert found.interval == (100.0, 1_000.0)
    assert found.sentence() == "between ε = 100 and 1,000"


def test_a_single_early_excess_is_not_where_it_begins():
    found = waking(curve("full_name_patients", [0.0, 0.3, 0.0, 0.2, 0.4]), "full_name_patients")
    assert (found.epsilon, found.below) == (1_000.0, 100.0)
    assert found.above == (8.0, 1_000.0, math.inf), "the early excess is drawn as what it is"


def test_at_the_smallest_epsilon_nothing_is_known_below():
    found = waking(curve("full_name_patients", [0.2, 0.3, 0.4, 0.5, 0.6]), "full_name_patients")
    assert (found.epsilon, found.below, found.interval) == (1.0, None, (0.0, 1.0))
    assert found.sentence() == "at or below the smallest measured ε = 1"


@pytest.mark.parametrize(("last", "ending"), [(0.5, ", but one found without privacy"), (0.0, ", nor without privacy")])
def test_a_leak_that_does_not_begin_is_said_with_the_largest_measured(last, ending):
    found = waking(curve("full_name_patients", [0.0, 0.0, 0.0, 0.0, last]), "full_name_patients")
    assert found.epsilon is None and found.interval == (1_000.0, math.inf)
    assert found.sentence() == f"no leak found up to the largest measured ε = 1,000{ending}"


def test_training_without_privacy_alone_has_no_beginning():
    assert waking(curve("full_name_patients", [0.5], epsilons=(math.inf,)), "full_name_patients") is None


def test_an_auc_must_also_exceed_a_coin_toss():
    below = curve("auc_loss", [0.46] * 5, control=0.45, arm="base")
    above = curve("auc_loss", [0.51] * 5, control=0.45, arm="base")
    assert waking(below, "auc_loss").epsilon is None and waking(above, "auc_loss").epsilon == EPSILONS[0]


def test_without_an_interval_or_a_control_nothing_is_called_a_leak():
    points = curve("full_name_patients", [0.5] * 5)
    assert waking(points, "full_name_patients").judged == EPSILONS
    for lacking in (points[points["arm"] == "run"], points.assign(low=math.nan)):
        found = waking(lacking, "full_name_patients")
        assert (found.epsilon, found.plain, found.judged) == (None, None, ())
    partly = points.assign(low=points["low"].where(points["epsilon"] != 8.0))
    assert 8.0 in EPSILONS and 8.0 not in waking(partly, "full_name_patients").judged


def test_the_first_attack_of_several_to_begin():
    points = pd.concat(
        [
            curve("full_name_patients", [0.0, 0.0, 0.0, 0.2, 0.4]),
            curve("auc_loss", [0.5, 0.5, 0.7, 0.8, 0.9], control=0.55, arm="base"),
            curve("exposure:2", [0.0, 0.0, 0.0, 0.0, 3.0]),
            curve("exposure:8", [0.0, 0.0, 0.0, 3.0, 9.0]),
        ]
    )
    assert [(one.attack.name, one.metric, one.epsilon) for one in wakings(points)] == [
        ("full names", "full_name_patients", 1_000.0),
        ("membership by note, loss attack", "auc_loss", 100.0),
        ("canaries", "exposure:8", 1_000.0),
    ]
    assert first_leaking(points).metric == "auc_loss"
    assert first_leaking(points[points["metric"] == "exposure:2"]).epsilon is None
    assert first_leaking(points[points["metric"] == "known_words"]) is None


def test_names_in_texts_come_before_patients_named():
    points = pd.concat([curve("full_name_patients", [0.0] * 5), curve("texts_with_name", [0.5] * 5)])
    assert wakings(points, ATTACKS[:1])[0].metric == "texts_with_name"


def test_two_curves_are_refused():
    points = curve("full_name_patients", [0.0] * 5)
    with pytest.raises(ValueError, match="one curve"):
        waking(pd.concat([points, points.assign(corpus="d")]), "full_name_patients")


def test_chance_is_called_a_leak_somewhere_along_a_curve_at_most_as_often_as_at_one_epsilon():
    """8 ε without any leak; figure and control normal. For equal spreads P(Z > 2·1.96/√2) = .0028, at most .025."""
    rng, epsilons, trials = np.random.default_rng(0), tuple(float(2**k) for k in range(8)), 1_000
    called = 0
    for _ in range(trials):
        value, control = rng.normal(size=(2, len(epsilons)))
        rows = [(e, "toy", "run", v, v - 1.96, v + 1.96) for e, v in zip(epsilons, value, strict=True)]
        rows += [(e, "toy", "heldout", c, c - 1.96, c + 1.96) for e, c in zip(epsilons, control, strict=True)]
        frame = pd.DataFrame(rows, columns=["epsilon", "metric", "arm", "value", "low", "high"])
        called += waking(frame, "toy", ATTACKS[0]).epsilon is not None
    assert called <= 0.008 * trials


def test_where_it_cannot_be_told_nothing_was_measured():
    points = curve("exposure", [math.nan, 0.0, 3.0, 4.0, math.nan])
    found = waking(points, "exposure")
    assert (found.epsilon, found.below, found.plain, found.judged) == (100.0, 8.0, None, (8.0, 100.0, 1_000.0))
    unknown = waking(points.assign(low=math.nan), "exposure")
    assert unknown.sentence().startswith("cannot be judged") and unknown.judged == ()
    names = curve("full_name_patients", [0.5] * 5)
    alone = waking(names[names["arm"] == "run"], "full_name_patients")
    assert alone.sentence().startswith("cannot be judged"), "no control and no blind guess"
