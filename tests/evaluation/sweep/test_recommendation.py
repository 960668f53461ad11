"""Recommendations by hand: the worse end decides, nothing is recommended where nothing fits, known usefulness."""

from __future__ import annotations

import math
from types import SimpleNamespace as Of

import pandas as pd
import pytest

from core.evaluation import registry
from core.evaluation.figures.limited import UTILITY
from core.evaluation.registry import limits, measure_text
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep import limit_measures
from core.evaluation.sweep.limit_measures import costs, losses_by_patient, measures, utility_share
from core.evaluation.sweep.limits import Limits, check_risks
from core.evaluation.sweep.recommendation import _best_run, attack_text, recommend
from core.runs.store import Workspace

COLUMNS = {"kind": "gpt2", "size": "tiny", "base": "assets", "corpus": "c"}


def found(*rows: tuple, unit: str = "note", attack: str = "loss", attacks: int = 1, few: str = "") -> pd.DataFrame:
    """Rows of (ε, seed, metric, value, low, high) as `measures` gives them."""
    names = ["epsilon", "seed", "metric", "value", "low", "high"]
    frame = pd.DataFrame(rows, columns=names).assign(arm="run", unit=unit, **COLUMNS)
    chosen = frame["metric"].isin(limits("strongest"))
    frame = frame.assign(
        attack=chosen.map({True: attack, False: ""}), attacks=chosen * attacks, few=chosen.map({True: few, False: ""})
    )
    who = "" if unit == "note" else f"-{unit}"
    return frame.assign(run_id=[f"run{who}-{e:g}-{s}" for e, s in zip(frame["epsilon"], frame["seed"], strict=True)])


SWEEP = found(
    (1.0, 0, "auc_loss", 0.51, 0.49, 0.53),
    (1.0, 0, UTILITY, 0.40, 0.35, 0.45),
    (8.0, 0, "auc_loss", 0.53, 0.51, 0.56),
    (8.0, 0, UTILITY, 0.70, 0.65, 0.75),
    (math.inf, 0, "auc_loss", 0.90, 0.85, 0.95),
    (math.inf, 0, UTILITY, 1.0, 1.0, 1.0),
)


def test_the_smallest_epsilon_that_meets_both_is_recommended():
    chosen = recommend(SWEEP, Limits({"auc_loss": 0.60}, 0.30))
    assert (chosen.epsilon, chosen.run_id) == (1.0, "run-1-0")
    chosen = recommend(SWEEP, Limits({"auc_loss": 0.60}, 0.60))
    assert (chosen.epsilon, chosen.run_id) == (8.0, "run-8-0")
    assert "The smallest ε that meets your limits here is 8 per note" in chosen.sentences[0]


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
    assert "Safe enough: ε = 1 per note;" in chosen.sentences[1] and "keeps 35\u00a0%" in chosen.sentences[1]
    assert chosen.sentences[2] == "Useful enough: ε = 8 per note, ∞ (no privacy)."
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
    none = found(
        *[(1.0, s, "auc_loss", 0.5, 0.48, h) for s, h in ((0, 0.58), (1, 0.58))],
        *[(1.0, s, UTILITY, 0.5, 0.45, 0.55) for s in (0, 1)],
    )
    assert recommend(none, Limits({"auc_loss": 0.57}, 0.3)).epsilon is None


def test_an_epsilon_per_patient_comes_before_one_per_note():
    useful = [(8.0, 0, "auc_strongest", 0.52, 0.48, 0.56), (8.0, 0, UTILITY, 0.30, 0.28, 0.32)]
    patient = found(*useful, unit="patient")
    note = found(*[(1.0, *row[1:]) for row in useful])
    both = pd.concat([note, patient], ignore_index=True)
    chosen = recommend(both, Limits({"auc_strongest": 0.6}, 0.2))
    assert (chosen.unit, chosen.epsilon, chosen.run_id) == ("patient", 8.0, "run-patient-8-0")
    assert chosen.sentences[0].startswith("The only ε per patient measured here, 8, meets your limits: ")
    assert chosen.sentences[1].startswith("ε = 8 per patient protects all notes"), "after a sentence about the noise"
    assert "preferred to ε = 1 per note, which also meets your limits" in chosen.sentences[1], "the table shows both"
    more = [found(*[(epsilon, *row[1:]) for row in useful]) for epsilon in (3.0, 0.5, 10.0)]
    all_smaller = recommend(pd.concat([both, *more], ignore_index=True), Limits({"auc_strongest": 0.6}, 0.2))
    named = "preferred to ε = 0.5 per note, 1 per note, 3 per note, which also meet your limits but protect only one"
    assert named in all_smaller.sentences[1], "every one that the table shows as met; the larger needs no reason"
    weaker = found(*[(20.0, *row[1:]) for row in useful], unit="patient")
    of_two = recommend(pd.concat([both, weaker], ignore_index=True), Limits({"auc_strongest": 0.6}, 0.2))
    assert of_two.sentences[0].startswith("The smallest ε per patient that meets your limits here is 8: ")
    assert list(chosen.table["unit"].drop_duplicates()) == ["patient", "note"], "two units share no row"
    larger = pd.concat([found(*[(10.0, *row[1:]) for row in useful]), patient], ignore_index=True)
    assert "preferred" not in " ".join(recommend(larger, Limits({"auc_strongest": 0.6}, 0.2)).sentences)
    failing = pd.concat([note, patient.replace({"low": {0.28: 0.1}})], ignore_index=True)
    assert recommend(failing, Limits({"auc_strongest": 0.6}, 0.2)).unit == "note"


def audited(*rows: tuple) -> pd.DataFrame:
    return found(*rows, attack="rmia", attacks=10)


def test_a_full_audit_is_not_averaged_with_the_loss_attack_alone():
    gains = [(8.0, seed, UTILITY, 0.3, 0.28, 0.32) for seed in (0, 1)]
    mixed = pd.concat(
        [
            audited((8.0, 0, "auc_strongest", 0.70, 0.64, 0.76)),
            found((8.0, 1, "auc_strongest", 0.50, 0.44, 0.56), *gains),
        ],
        ignore_index=True,
    )
    chosen = recommend(mixed, Limits({"auc_strongest": 0.72}, 0.2))
    row = chosen.table[chosen.table["measure"] == "auc_strongest"].iloc[0]
    assert (row["value"], row["high"], row["attack"], row["attacks"]) == (0.70, 0.76, "rmia", 10)
    assert chosen.epsilon is None, "the mean of both, 0.60 (0.54 to 0.66), would have passed"
    wider = recommend(mixed, Limits({"auc_strongest": 0.8}, 0.2))
    assert wider.run_id == "run-8-0", "the run that faced the full audit"
    assert "strongest of 10 membership attacks" in wider.sentences[1] and "(RMIA)" in wider.sentences[1]


def test_no_larger_epsilon_passes_for_having_been_attacked_less():
    gains = [(epsilon, 0, UTILITY, 0.3, 0.28, 0.32) for epsilon in (2.0, 8.0, 10.0)]
    weak = [(epsilon, 0, "auc_strongest", 0.5, 0.46, 0.54) for epsilon in (2.0, 10.0)]
    sweep = pd.concat([audited((8.0, 0, "auc_strongest", 0.6, 0.54, 0.66)), found(*weak, *gains)], ignore_index=True)
    chosen = recommend(sweep, Limits({"auc_strongest": 0.6}, 0.2))
    met = chosen.table[chosen.table["measure"] == "auc_strongest"].set_index("epsilon")["met"]
    assert met.to_dict() == {2.0: True, 8.0: False, 10.0: False}
    assert chosen.epsilon == 2.0 and "Only the loss attack" in chosen.sentences[1]
    ten = chosen.table[(chosen.table["epsilon"] == 10.0) & (chosen.table["measure"] == "auc_strongest")].iloc[0]
    assert attack_text(ten) == "the loss attack alone; a smaller ε fails under a full audit", (
        "0.54 is below 0.6 and does not pass"
    )
    assert recommend(sweep, Limits({"auc_strongest": 0.7}, 0.2)).table["met"].all()


def test_attacks_on_too_few_patients_are_named():
    rows = [(8.0, 0, "auc_strongest", 0.55, 0.52, 0.58), (8.0, 0, UTILITY, 0.70, 0.65, 0.75)]
    table = found(*rows, attack="rmia", attacks=10, few="neighbourhood (33 patients)")
    chosen = recommend(table, Limits({"auc_strongest": 0.60}, 0.30))
    assert "Too few patients were scored by neighbourhood (33 patients) to bound" in chosen.sentences[2]
    row = chosen.table[chosen.table["measure"] == "auc_strongest"].iloc[0]
    assert attack_text(row).endswith("; not bounded: neighbourhood (33 patients)")
    assert len(recommend(table.assign(few=""), Limits({"auc_strongest": 0.60}, 0.30)).sentences) == 3


def test_limits_of_the_loss_attack_by_note_say_what_they_are():
    assert "loss attack on single notes" in recommend(SWEEP, Limits({"auc_loss": 0.6}, 0.3)).sentences[1]


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


def test_runs_of_the_real_pipeline_have_every_measure(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    runs = [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]
    audits = {run.id: workspace.audit(run.id) for run in runs}
    frame = measures(runs, workspace.run(smoke_specs["base"].run_id), audits)
    assert set(frame["metric"]) == {*limits(), UTILITY}
    plain = frame[(frame["run_id"] == runs[0].id) & (frame["metric"] == UTILITY)].iloc[0]
    assert (plain["value"], plain["low"], plain["high"]) == (1.0, 1.0, 1.0)
    excess = frame[(frame["run_id"] == runs[0].id) & (frame["metric"] == "direct_patients_excess")].iloc[0]
    at = runs[0].metrics.set_index(["metric", "arm"])["value"]
    assert excess["value"] == pytest.approx(at["direct_patients", "run"] - at["direct_patients", "heldout"])
    attacked = frame[frame["metric"].isin(limits("strongest"))]
    assert (attacked["attack"] == "loss").all() and (attacked["attacks"] == 1).all(), "no full audit of these runs"
    assert (attacked["patients"] == 24).all(), "17 members and 7 held-out patients, not their notes"
    spent = costs(runs)
    assert (spent["tokens"] > 0).all() and (spent["seconds"] > 0).all() and len(spent) == 2
    assert set(recommend(frame, Limits({"auc_loss": 1.0}, 0.0)).table["epsilon"]) == {8.0, math.inf}


def test_numbers_are_written_plainly():
    assert measure_text("auc_loss", 0.514) == "0.51" == measure_text("auc_strongest", 0.514)
    assert measure_text(UTILITY, 0.28) == "28\u00a0%"
    assert measure_text("full_name_patients_excess", -0.03) == "−3.0\u00a0%" and measure_text(UTILITY, math.nan) == "?"


def test_the_run_to_take_is_the_most_useful_by_the_worse_end():
    rows = [("wide", UTILITY, 0.9, 0.5, True), ("narrow", UTILITY, 0.8, 0.7, True)]
    runs = pd.DataFrame(rows, columns=["run_id", "measure", "value", "low", "met"])
    assert _best_run(runs, {UTILITY: 0.4}) == "narrow"


def test_both_ends_of_a_limits_range_are_allowed():
    limited = registry.limits()
    assert limited
    for name in limited:
        for end in registry.limit_range(name):
            check_risks({name: end})  # raises ValueError for a limit that is not allowed


def test_usefulness_is_measured_on_held_out_notes_alone():

    scores = pd.DataFrame(
        {
            "patient_id": ["A", "X", "X"],
            "split": ["member", "heldout", "heldout"],
            "score": [-1.0, -2.0, -3.0],
            "tokens": 10,
        }
    )
    assert losses_by_patient(scores).to_numpy().tolist() == [["X", 20, 50.0]]


def test_a_run_on_other_notes_is_no_reference_for_usefulness(monkeypatch):

    def run(name, other=False):
        spec = Of(vocabulary=None, is_base=False, on_other_notes=other, privacy=Of(private=False), training=Of(seed=0))
        return Of(id=name, spec=spec, figures_only=False)

    nats = {"plain": 10.0, "other": 2.0, "base": 20.0}

    def frame(name):
        return pd.DataFrame({"patient_id": list("XYZ"), "nats": nats[name], "tokens": 10}, index=list("abc"))

    monkeypatch.setattr(limit_measures, "settings", lambda runs: pd.DataFrame({"run_id": [one.id for one in runs]}))
    monkeypatch.setattr(limit_measures, "heldout_losses", lambda run, summed: frame(run.id))
    monkeypatch.setattr(limit_measures, "risks_of", lambda run, audit: {})
    found = limit_measures.measures([run("plain"), run("other", other=True)], run("base"), {}).set_index("run_id")
    assert found.loc["plain", "value"] == 1.0
