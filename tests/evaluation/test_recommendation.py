"""Recommendations by hand: the worse end decides, nothing is recommended where nothing fits, known usefulness."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from core.evaluation.bootstrap import Interval
from core.evaluation.recommendation import (
    RISKS,
    UTILITY,
    Limits,
    costs,
    measure_text,
    measures,
    members_caught,
    recommend,
    utility_share,
)
from core.evaluation.statistics import proportion_interval
from core.runs.store import Workspace

COLUMNS = {"kind": "gpt2", "size": "tiny", "base": "assets", "corpus": "c"}


def found(*rows: tuple) -> pd.DataFrame:
    """Rows of (ε, seed, metric, value, low, high) as `measures` gives them."""
    names = ["epsilon", "seed", "metric", "value", "low", "high"]
    frame = pd.DataFrame(rows, columns=names).assign(arm="run", **COLUMNS)
    return frame.assign(run_id=[f"run-{e:g}-{s}" for e, s in zip(frame["epsilon"], frame["seed"], strict=True)])


SWEEP = found(
    (1.0, 0, "auc_loss", 0.51, 0.49, 0.53), (1.0, 0, UTILITY, 0.40, 0.35, 0.45),
    (8.0, 0, "auc_loss", 0.53, 0.51, 0.56), (8.0, 0, UTILITY, 0.70, 0.65, 0.75),
    (math.inf, 0, "auc_loss", 0.90, 0.85, 0.95), (math.inf, 0, UTILITY, 1.0, 1.0, 1.0),
)  # fmt: skip


def test_the_smallest_epsilon_that_meets_both_is_recommended():
    chosen = recommend(SWEEP, Limits({"auc_loss": 0.60}, 0.30))
    assert (chosen.epsilon, chosen.run_id) == (1.0, "run-1-0")
    chosen = recommend(SWEEP, Limits({"auc_loss": 0.60}, 0.60))
    assert (chosen.epsilon, chosen.run_id) == (8.0, "run-8-0")
    assert "The smallest ε that meets your limits here is 8" in chosen.sentences[0]


@pytest.mark.parametrize(
    ("auc", "utility", "epsilon"),
    [(0.56, 0.65, 8.0), (0.559, 0.65, None), (0.56, 0.651, None), (0.53, 0.35, 1.0), (0.529, 0.35, None)],
)
def test_the_worse_end_of_the_interval_decides(auc, utility, epsilon):
    assert recommend(SWEEP, Limits({"auc_loss": auc}, utility)).epsilon == epsilon


def test_where_nothing_meets_both_it_says_so_and_what_fails():
    chosen = recommend(SWEEP, Limits({"auc_loss": 0.54}, 0.60))
    assert chosen.epsilon is None and chosen.run_id is None
    assert chosen.sentences[0] == "None of these runs meets both your limits for risk and for usefulness."
    assert "Safe enough: ε = 1;" in chosen.sentences[1] and "keeps 35\u00a0%" in chosen.sentences[1]
    assert chosen.sentences[2] == "Useful enough: ε = 8, ∞ (no privacy)."
    nothing = recommend(SWEEP, Limits({"auc_loss": 0.40}, 0.30))
    assert "No ε here meets the limits for risk." in nothing.sentences


def test_training_without_privacy_is_never_recommended_without_saying_what_it_is():
    chosen = recommend(SWEEP, Limits({"auc_loss": 1.0}, 0.99))
    assert math.isinf(chosen.epsilon) and "promises nothing" in chosen.sentences[0]


def test_what_has_no_interval_or_was_not_measured_does_not_pass():
    unsure = found((1.0, 0, "auc_loss", 0.5, math.nan, math.nan), (1.0, 0, UTILITY, 0.9, 0.8, 1.0))
    assert recommend(unsure, Limits({"auc_loss": 0.9}, 0.1)).epsilon is None
    unmeasured = recommend(SWEEP, Limits({"auc_loss": 0.9, "members_caught": 0.9}, 0.1))
    assert unmeasured.epsilon is None
    no_plain = recommend(SWEEP[SWEEP["metric"] != UTILITY], Limits({"auc_loss": 0.9}, 0.1))
    assert "Usefulness needs a run without privacy" in no_plain.sentences[1]
    assert recommend(SWEEP.iloc[:0], Limits({"auc_loss": 0.9}, 0.1)).epsilon is None


def test_seeds_are_averaged_and_the_run_must_meet_the_limits_itself():
    rows = [(1.0, seed, "auc_loss", 0.50, 0.48, high) for seed, high in ((0, 0.52), (1, 0.60))]
    rows += [(1.0, seed, UTILITY, value, value - 0.01, value + 0.01) for seed, value in ((0, 0.50), (1, 0.505))]
    chosen = recommend(found(*rows), Limits({"auc_loss": 0.57}, 0.30))
    assert chosen.epsilon == 1.0, "the mean of the upper ends is 0.56"
    assert chosen.run_id == "run-1-0", "seed 1 is more useful and does not meet the limit by itself"
    none = found(*[(1.0, s, "auc_loss", 0.5, 0.48, h) for s, h in ((0, 0.58), (1, 0.58))],
                 *[(1.0, s, UTILITY, 0.5, 0.45, 0.55) for s in (0, 1)])  # fmt: skip
    assert recommend(none, Limits({"auc_loss": 0.57}, 0.3)).epsilon is None


@pytest.mark.parametrize("bad", [({}, 0.5), ({"nonsense": 0.5}, 0.5), ({"auc_loss": 1.5}, 0.5), ({"auc_loss": 0.5}, 2)])
def test_limits_that_make_no_sense_are_refused(bad):
    with pytest.raises(ValueError):
        Limits(*bad)


def losses(nats: list[float]) -> pd.DataFrame:
    index = [f"note-{n}" for n in range(len(nats))]
    return pd.DataFrame({"patient_id": index, "nats": nats, "tokens": [10] * len(nats)}, index=index)


def test_usefulness_by_hand():
    base, plain = losses([40.0] * 6), losses([20.0] * 6)
    assert utility_share(losses([30.0] * 6), base, plain) == Interval(0.5, 0.5, 0.5)
    assert utility_share(plain, base, plain).value == 1.0 and utility_share(base, base, plain).value == 0.0
    assert utility_share(losses([50.0] * 6), base, plain).value == -0.5, "worse than before training"
    assert math.isnan(utility_share(plain, base, base).value), "nothing was learned, nothing can be kept"
    with pytest.raises(ValueError, match="share none"):
        utility_share(plain.rename(index=lambda name: name + "x"), base, plain)


def test_members_caught_by_hand():
    # 10 members at 1 … 10, 10 others at 0.5 … 9.5: one other (9.5) may be accused, so members above 8.5 are caught.
    rows = [("member", float(n)) for n in range(1, 11)] + [("heldout", n - 0.5) for n in range(1, 11)]
    scores = pd.DataFrame(rows, columns=["split", "score"])
    scores = scores.assign(
        note_id=scores.index.astype(str), admission_id=scores.index.astype(str), patient_id=scores.index.astype(str),
        tokens=10, member=scores["split"] == "member",
    )  # fmt: skip
    caught = members_caught(scores, 0.10, resamples=50)
    assert caught.value == pytest.approx(0.2) and caught.low <= 0.2 <= caught.high
    everybody = members_caught(scores.assign(score=scores["score"] + 100 * scores["member"]), 0.10, resamples=50)
    assert everybody.value == 1 and everybody.low == pytest.approx(proportion_interval(10, 10)[0])


def test_runs_of_the_real_pipeline_have_every_measure(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    runs = [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]
    frame = measures(runs, workspace.run(smoke_specs["base"].run_id))
    assert set(frame["metric"]) == {*RISKS, UTILITY}
    plain = frame[(frame["run_id"] == runs[0].id) & (frame["metric"] == UTILITY)].iloc[0]
    assert (plain["value"], plain["low"], plain["high"]) == (1.0, 1.0, 1.0)
    excess = frame[(frame["run_id"] == runs[0].id) & (frame["metric"] == "direct_patients_excess")].iloc[0]
    at = runs[0].metrics.set_index(["metric", "arm"])["value"]
    assert excess["value"] == pytest.approx(at["direct_patients", "run"] - at["direct_patients", "heldout"])
    spent = costs(runs)
    assert (spent["tokens"] > 0).all() and (spent["seconds"] > 0).all() and len(spent) == 2
    assert set(recommend(frame, Limits({"auc_loss": 1.0}, 0.0)).table["epsilon"]) == {8.0, math.inf}


def test_numbers_are_written_plainly():
    assert measure_text("auc_loss", 0.514) == "0.51" and measure_text(UTILITY, 0.28) == "28\u00a0%"
    assert measure_text("full_name_patients_excess", -0.03) == "−3.0\u00a0%" and measure_text(UTILITY, math.nan) == "?"
