"""The first page: verdicts by fixed rules, ten facts that equal the annex, conditions, and what is open."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest

from core.common.formatting import promised_text, proved_text
from core.evaluation.guarantee.audit_guarantee import BY_CURVE, ONE_RUN, by_curve, headline_bound
from core.evaluation.guarantee.odds import group_sentence
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import build, first_page, short_names
from core.evaluation.report.glance import Subject, facts, subject_of, verdict
from core.evaluation.report.html import render
from core.evaluation.report.label import essentials, label, rows
from core.evaluation.report.tables import membership_by_note
from core.evaluation.report.what_follows import conditions, still_open
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import best_of
from core.runs.facts import UNKNOWN
from core.runs.store import DEMO, Workspace
from tests.evaluation.report.conftest import part

KEYS = [
    *("model", "guarantee", "guesses", "many_notes", "membership_patient", "membership_note", "written", "audit"),
    *("released", "useful"),
]


@pytest.fixture(scope="module")
def runs(workspace, smoke_specs):
    return [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]


@pytest.fixture(scope="module")
def report(workspace, runs):
    return build(workspace, runs, now=0.0)


def subject(runs, report, number: int, **model: object) -> Subject:
    run = runs[number]
    made = Subject.of(run, report.facts["names"][run.id], report.tables, 9)
    return replace(made, model=dict(made.model) | model)


def with_bound(made: Subject, **bound: object) -> Subject:
    row = {
        "run": made.run.id,
        "audit": "canaries planted once",
        "evidence": ONE_RUN,
        "looks": 1,
        "alarm": False,
        "epsilon": 0.0,
        "ceiling": 1.2598,
        "promised": 8.0,
    } | bound
    return replace(made, tables={**made.tables, "bounds": pd.DataFrame([row])})


def test_an_alarm_by_the_runs_own_curve_is_an_alarm(runs, report):
    made = with_bound(subject(runs, report, 1))
    rows = pd.concat([made.tables["bounds"]] * 2, ignore_index=True).assign(audit="canaries", correct=11, trials=12)
    curve = ["canaries, by the run's curve", BY_CURVE, 9.5, 12.0, True]  # as `with_curve` names it
    rows.loc[1, ["audit", "evidence", "epsilon", "ceiling", "alarm"]] = curve
    made = replace(made, tables={**made.tables, "bounds": rows})
    assert not made.bound()["alarm"] and made.alarmed
    told = {one["key"]: one["answer"] for one in facts(made, report.facts["cohort"], "")}
    both = "(audit: canaries; could prove at most ε = 1.25, by the run’s curve 12)"
    assert both in told["audit"], "still_open names the higher of the two"
    assert verdict(made)[0] == "alarm"
    page = part("attacks", "bounds", rows.to_dict("records"), {made.run.id: "B"})
    assert "9.5" in page and page.count("by the run&#39;s curve") == page.count("curve</td>") == 1, "once, in the annex"


def with_leak(made: Subject, found: str) -> Subject:
    rows = made.tables["controls"].copy()
    rows.loc[(rows["run"] == made.run.id) & (rows["metric"] == "direct_patients"), "verdict"] = found
    return replace(made, tables={**made.tables, "controls": rows})


def test_there_are_ten_facts_and_each_stands_on_the_page(report):
    assert [one["key"] for one in report.facts["glance"]] == KEYS
    page = render(report)
    for one in report.facts["glance"]:
        assert one["answer"] and f'id="{one["link"]}"' in page, one["key"]


def test_every_number_is_that_of_the_annex(runs, report):
    """Each figure is read again from the tables, by name."""
    told = {one["key"]: one["answer"] for one in report.facts["glance"]}
    run = runs[1].id
    strongest = report.tables["strongest"].set_index("run").loc[run]
    assert told["membership_patient"].startswith(f"AUC {strongest['value']:.3f} (95")
    assert f"public model: {strongest['base_value']:.3f}" in told["membership_patient"]
    quick = report.tables["controls"].set_index(["run", "metric"]).loc[(run, "auc_loss")]
    assert told["membership_note"].startswith(f"AUC {quick['value']:.3f} (95")
    assert f"public model: {quick['base_value']:.3f}" in told["membership_note"]
    most = report.facts["cohort"]["most_training_notes_of_a_patient"]
    assert told["many_notes"] == group_sentence(runs[1].privacy, most)
    bound = headline_bound(report.tables["bounds"].query("run == @run"))
    said = f"ε ≥ {proved_text(bound['epsilon'])}" if bound["epsilon"] > 0 else "no ε above 0"
    most = f"audit: {bound['audit']}; could prove at most ε = {proved_text(bound['ceiling'])}"
    curve = by_curve(report.tables["bounds"].query("run == @run"))
    most += f", by the run’s curve {proved_text(curve['ceiling'])}"
    assert told["audit"].startswith(f"No. Attacks on the finished model prove {said} ({most})")
    assert told["audit"].endswith(f"By accounting ε = {promised_text(runs[1].privacy.epsilon())}.")
    assert "floating-point" in told["guarantee"] and "secret key" in told["guarantee"]


def test_the_control_by_patient_is_the_loss_attack_on_the_public_model(workspace, runs, report):
    from core.evaluation.membership.strongest_attack import judged_by, scores_of, strongest_of

    base = workspace.find(runs[1].spec.base_spec())
    expected = strongest_of(judged_by(scores_of(base, None)), "auc").interval
    row = report.tables["strongest"].set_index("run").loc[runs[1].id]
    assert (row["base_value"], row["base_low"], row["base_high"]) == (expected.value, expected.low, expected.high)


def test_the_strongest_attack_by_note_is_widened_for_the_choice():
    ends = {"base_value": 0.5, "base_low": 0.4, "base_high": 0.6}
    quick = pd.DataFrame([{"run": "r", "metric": "auc_loss", "value": 0.5, "low": 0.45, "high": 0.55, "n": 7, **ends}])
    rows = [("r", "loss", "note", 0.6, 0.55, 0.65, 40), ("r", "b", "note", 0.7, 0.66, 0.74, 40)]
    rows += [("r", "b", "patient", 0.99, 0.9, 1.0, 9), ("other", "a", "note", 0.9, 0.8, 1.0, 40)]
    full = pd.DataFrame(rows, columns=["run", "attack", "level", "value", "low", "high", "n"])
    scores = pd.DataFrame({"attack": ["loss"] * 31 + ["public loss"] * 5})
    runs = [SimpleNamespace(id="r", figures_only=False, table=lambda name: {"scores": scores}[name])]
    (row,) = membership_by_note(full, quick, runs).to_dict("records")
    wide = best_of(Interval(0.7, 0.66, 0.74), 2, least=0, most=1)
    assert (row["attack"], row["attacks"], row["notes"], row["value"]) == ("b", 2, 40, 0.7)
    assert (row["low"], row["high"]) == (wide.low, wide.high) and row["low"] < 0.66
    (row,) = membership_by_note(full.query("attack != 'loss'"), quick, runs).to_dict("records")
    assert (row["attack"], row["attacks"]) == ("b", 2), "the quick audit's loss attack was tried, too"
    strong = quick.assign(value=0.9, low=0.88, high=0.92)
    (row,) = membership_by_note(full.query("attack != 'loss'"), strong, runs).to_dict("records")
    assert (row["attack"], row["value"], row["notes"]) == ("loss", 0.9, 31), "no weaker attack hides it"
    (row,) = membership_by_note(full.iloc[:0], quick, runs).to_dict("records")
    assert (row["attack"], row["attacks"], row["notes"], row["low"]) == ("loss", 1, 31, 0.45), "7 patients, 31 notes"


@pytest.mark.parametrize("name", ["distilbert-122b6e08bd48", "gpt2-3f543abb3a65"])
def test_a_quick_audit_by_note_is_told_with_its_notes(name):
    """4,192 notes of 430 patients, of a run with its scores and of one with figures only."""
    shipped = Workspace("nowhere", shared=(DEMO,))
    told = {one["key"]: one["answer"] for one in first_page(shipped, [shipped.run(name)]).facts["glance"]}
    assert "on 4,192 notes by the loss attack" in told["membership_note"]
    assert "on 430 patients by the loss attack" in told["membership_patient"]


def attacked(made: Subject, low: float, base_high: float, table: str = "strongest") -> Subject:
    """The subject with a strongest attack (by patient) whose interval begins at `low`; by no other a leak is found."""
    tables = {name: made.tables[name].copy() for name in ("strongest", "strongest_note", "controls")}
    for name in ("strongest", "strongest_note"):
        own = tables[name]["run"] == made.run.id
        tables[name].loc[own, ["low", "base_high"]] = (low, base_high) if name == table else (0.4, 0.6)
    tables["controls"].loc[tables["controls"]["metric"].str.startswith("exposure:"), "verdict"] = ""
    return replace(made, tables={**made.tables, **tables})


def test_an_attack_that_beats_coin_and_control_is_in_the_verdict(runs, report):
    plain, private = (with_leak(subject(runs, report, number), "cannot be told from its control") for number in (0, 1))
    private = with_bound(private)
    for low, control, found in ((0.61, 0.6, True), (0.59, 0.6, False), (0.49, 0.4, False), (0.61, math.nan, True)):
        assert (verdict(attacked(private, low, control))[0] == "recognised") is found, (low, control)
        assert ("can recognise what the model was trained on" in verdict(attacked(plain, low, control))[1]) is found
        by_note = attacked(private, low, control, "strongest_note")
        assert (verdict(by_note)[0] == "recognised") is found, "a guarantee for a note is about notes"
    secrets = attacked(private, 0.4, 0.6)
    leaky = secrets.tables["controls"].copy()
    leaky.loc[leaky["metric"].str.startswith("exposure:"), "verdict"] = "exceeds its control"
    assert verdict(secrets)[0] == "guaranteed"
    assert verdict(replace(secrets, tables={**secrets.tables, "controls": leaky}))[0] == "recognised"
    public = replace(private, model=dict(private.model) | {"noise_source": "public seed"})
    assert verdict(attacked(public, 0.9, 0.5))[1].startswith(
        "An attack can recognise what the model was trained on (right in "
    )
    for value, how in (
        (0.534, "right in 53 of 100 pairs, 51 to 60; a coin: 50"),
        (0.999, "right in 999 of 1,000 pairs, "),
    ):
        near = attacked(public, 0.51, 0.5)
        own = near.tables["strongest"]["run"] == near.run.id
        near.tables["strongest"].loc[own, ["value", "high"]] = value, max(value, 0.6)
        assert how in verdict(near)[1], "slightly better than a coin is told from certainty"
    few = attacked(plain, math.nan, 0.5)
    assert "too few patients to tell" in verdict(few)[1] and "found nothing" not in verdict(few)[1]
    close = attacked(public, 0.504, 0.5)
    close.tables["strongest"].loc[close.tables["strongest"]["run"] == close.run.id, ["value", "high"]] = 0.534, 0.564
    assert "right in 534 of 1,000 pairs, 504 to 564; a coin: 500" in verdict(close)[1], "the interval excludes the coin"


def test_verdicts(runs, report):
    plain, private = (attacked(subject(runs, report, number), 0.4, 0.6) for number in (0, 1))
    calm = with_leak(with_bound(private), "cannot be told from its control")
    assert verdict(calm)[0] == "guaranteed"
    assert verdict(calm)[1].startswith("Guaranteed for each note alone.")
    by_patient = replace(calm, model=dict(calm.model) | {"unit": "patient"})
    assert verdict(by_patient)[1].startswith("Guaranteed for each patient.")
    assert verdict(with_leak(calm, "exceeds its control"))[0] == "leaks"
    assert verdict(with_bound(calm, alarm=True, epsilon=9.0))[0] == "alarm"
    public = replace(calm, model=dict(calm.model) | {"noise_source": "public seed"})
    assert verdict(public)[0] == "not promised" and not public.protected
    assert verdict(replace(calm, model=dict(calm.model) | {"epsilon": 933.0}))[0] == "empty"
    assert verdict(replace(calm, model=dict(calm.model) | {"right_guesses_counted": 1.0}))[0] == "empty"
    key, said = verdict(with_leak(plain, "exceeds its control"))
    assert key == "unprotected" and "writes identifiers of its patients" in said
    assert "that is no protection" in verdict(with_leak(plain, "cannot be told from its control"))[1]


def test_a_public_seed_is_never_told_as_a_guarantee(runs, report):
    public = subject(runs, report, 1, noise_source="public seed")
    told = {one["key"]: one["answer"] for one in facts(public, report.facts["cohort"], "")}
    assert told["guarantee"].startswith("Nothing. Its noise came from a public seed")
    assert told["guesses"].startswith("If its noise were secret") and told["many_notes"].startswith("If its noise")
    assert "Do not release it as a private model" in conditions(public, Decision())[0]


def test_an_alarm_reaches_every_fact_about_the_guarantee_and_the_conditions(runs, report):
    """Nothing on the page may promise what an attack contradicts, nor say how to release the model."""
    made = with_bound(subject(runs, report, 1), alarm=True, epsilon=9.5)
    assert made.protected and not made.holds
    told = {one["key"]: one["answer"] for one in facts(made, report.facts["cohort"], "")}
    assert told["guarantee"].startswith("Nothing. An attack proves more than the guarantee allows")
    assert told["audit"].startswith(
        "Yes. Attacks on the finished model prove ε ≥ 9.5 (audit: canaries planted once; could"
    )
    assert all(told[key].startswith("If no attack contradicted its guarantee, ") for key in ("guesses", "many_notes"))
    lines = conditions(made, Decision(access="api"))
    assert lines[0].startswith("None: do not release it.") and not any("ledger" in line for line in lines)
    found = label(made)
    line = dict(essentials(found, alarmed=True))
    assert not found["promised"] and rows(found, alarmed=True)[0][2] == line["status"] == "contradicted by an attack"
    assert line["noise"] == "noise from a secret key", "that is still so"
    page = render(replace(report, facts=report.facts | {"subject": report.facts["subject"] | {"verdict": "alarm"}}))
    assert page.count("contradicted by an attack") == 2, "in the line of the first page and in the label's table"


def test_a_guarantee_per_patient_holds_for_all_notes(runs, report):
    per_patient = subject(runs, report, 1, unit="patient")
    told = {one["key"]: one["answer"] for one in facts(per_patient, report.facts["cohort"], "")}
    assert told["many_notes"].startswith("The same guarantee: all notes of a patient")
    assert not any("patient with the most notes" in line for line in conditions(per_patient, Decision()))


@pytest.mark.parametrize(
    ("access", "words"), [("weights", "no output filter"), ("api", "only query"), ("filtered api", "can be evaded")]
)
def test_conditions_depend_on_how_the_model_is_given(runs, report, access, words):
    told = conditions(subject(runs, report, 1), Decision(access=access))
    assert any(words in line for line in told) and not any("Decide who receives" in line for line in told)
    assert told[0].startswith("Enter the release in the ledger") and any("ε does not cover" in line for line in told)


def test_what_is_open_shrinks_with_what_is_known(runs, report):
    about = with_bound(subject(runs, report, 1))
    everything = " ".join(still_open(about, Decision(), audited=False, recommended=False))
    assert (
        "python -m core audit" in everything
        and "its strongest audit (canaries planted once) could contradict only an ε below 1.25" in everything
    )
    tiny = " ".join(still_open(with_bound(about, ceiling=0.0), Decision(), audited=False, recommended=False))
    assert "could contradict no ε. python" in tiny and "below 0" not in tiny
    assert "who receives the model" in everything and "none were given" in everything
    filled = Decision.model_validate(
        {name: "x" for name in ("recipient", "knowledge", "cost", "accepted", "owner")}
        | {"access": "api", "review": "2027-01-01", "expires": "2028-01-01", "approvers": [{"name": "N", "role": ""}]}
    )
    about = with_bound(about, ceiling=9.0)
    lira, hipaa = still_open(about, filled, audited=True, recommended=True)
    assert lira.endswith(f"python -m core shadows {about.run.id}") and "identifiers were not looked for" in hipaa
    attacked = pd.DataFrame({"run": [about.run.id], "attack": ["lira"]})
    about = replace(about, tables={**about.tables, "attacks": attacked})
    assert still_open(about, filled, audited=True, recommended=True) == [hipaa]


def test_the_subject_is_the_wanted_run_or_the_best_protected(runs):
    assert subject_of(runs).id == runs[1].id and subject_of(runs, runs[0].id).id == runs[0].id
    sources = [SimpleNamespace(id=name, noise_source=name) for name in (None, "public seed", "secret")]
    assert subject_of(sources[:2]).id == "public seed" and subject_of(sources).id == "secret"
    assert subject_of(sources[:1]).id is None
    with pytest.raises(ValueError, match="not among the runs"):
        subject_of(runs, "gpt2-000000000000")


def test_a_defended_run_is_told_by_the_notes_that_it_read():
    """The shipped run on deduplicated notes read 2,686 of its cohort's 2,925 training notes."""
    shipped = Workspace("nowhere", shared=(DEMO,))
    runs = [shipped.run(name) for name in ("gpt2-2aaf20f0b5fd", "gpt2-e6402c657f03")]
    made = first_page(shipped, runs)
    cohort, told = made.facts["cohort"], {one["key"]: one["answer"] for one in made.facts["glance"]}
    assert (cohort["training_notes"], cohort["most_training_notes_of_a_patient"]) == (2_686, 33)
    assert "trained on 2,686 notes" in told["model"]
    names = ["A: no privacy, deduplicated", "B: no privacy, scrubbed (recall 95 %)"]
    assert list(made.facts["names"].values()) == names, "two runs have two names"


def test_an_epsilon_of_a_guarantee_is_rounded_up_everywhere(runs, report):
    """A name “ε = 9.99” beside a label “ε = 10” understates the promise by its rounding."""
    run = runs[1]
    for epsilon, said in ((9.991, "ε = 10"), (9_996.2, "ε = 9,997")):
        close = SimpleNamespace(epsilon=lambda at=epsilon: at, unit="note")
        names = short_names([SimpleNamespace(id=run.id, spec=run.spec, privacy=close)])
        assert names == {run.id: f"A: {said} per note"}
        rows = report.tables["models"].query("run == @run.id").assign(epsilon=epsilon).to_dict("records")
        assert f"{said} per note" in part("models", "glance", rows, [], [], {run.id: "A"})
        assert f"{said}, δ" in part("models", "guarantees", rows, {run.id: "A"})
        entry = {"number": 1, "time": "", "kind": "model", "name": run.id, "unit": "note", "reason": "", "chosen": ""}
        ledger = part("basis", "ledger", [entry | {"epsilon": epsilon}])
        assert f"{said.removeprefix('ε = ')} per note" in ledger


def test_the_answer_on_epsilon_has_both_attackers_and_no_epsilon_without_privacy(runs, report):
    def answer(made: Subject) -> str:
        told = facts(made, report.facts["cohort"], "")
        return next(one["answer"] for one in told if one["key"] == "audit")

    proof = {"run": runs[1].id, "canaries": 5000, "seed": 0, "proved": 2.11, "ceiling": 10.1, "promised": 8.0}
    proof |= {"proved_by_curve": 3.38, "alarm": False, "can_alarm": True}
    made = with_bound(subject(runs, report, 1))
    seen = replace(made, tables={**made.tables, "planted": pd.DataFrame([proof])})
    assert answer(seen) == (
        "No. Attacks on the finished model prove no ε above 0 (audit: canaries planted once; could prove at "
        "most ε = 1.25). An attacker who sees every step of such a training proves ε ≥ 2.11 (could prove at most "
        "ε = 10.1), and by its curve ε ≥ 3.38. By accounting ε = 8."
    )
    alone = replace(seen, tables={**seen.tables, "bounds": seen.tables["bounds"].iloc[:0]})
    assert answer(alone).startswith("No. An attacker who sees every step"), "not “not tested”"
    broken = pd.DataFrame([proof | {"alarm": True, "proved": 9.0}])
    assert answer(replace(alone, tables={**alone.tables, "planted": broken})).startswith("Yes. An attacker who sees")
    plain = with_bound(subject(runs, report, 0), epsilon=3.2, promised=math.inf)
    assert answer(plain).startswith("No: without differential privacy there is no ε to contradict. Attacks on the")
    assert "ε ≥ 3.2" in answer(plain) and "By accounting" not in answer(plain)


def test_guesses_that_round_to_all_are_not_called_uncomputed(runs, report):
    """Of 100 guesses 99.99999 is a computed limit; 1 with a noise too small for any numerical answer is none."""
    dp = subject(runs, report, 1, right_guesses_counted=0.9999999, right_guesses_promised=0.9999999)

    def answer(made: Subject) -> str:
        told = facts(made, report.facts["cohort"], "")
        return next(one["answer"] for one in told if one["key"] == "guesses")

    assert "on average more than 99.9999 may be right by" in answer(dp)
    assert "alone more than 99.9999." in answer(dp) and "no bound" not in answer(dp)
    tiny = dp.run.privacy.model_copy(update={"noise_multiplier": 1e-6})
    known = {"id": dp.run.id, "spec": dp.run.spec, "metrics": dp.run.metrics, "note_cap": None}
    hopeless = replace(dp, run=SimpleNamespace(**known, privacy=tiny))
    assert "no bound could be computed" in answer(hopeless)


def test_what_was_not_looked_for_is_not_called_absent(runs, report):
    """Uploaded patients of whom no value is known: neither a leak nor its absence was measured."""
    made = attacked(with_bound(subject(runs, report, 1)), 0.4, 0.6)
    controls, hipaa = made.tables["controls"], made.tables["hipaa"].copy()
    hipaa.loc[hipaa["number"] <= 2, ["tested", "note"]] = ["no", UNKNOWN]
    unmeasured = controls[controls["metric"] != "direct_patients"]
    alone = controls.assign(verdict=controls["verdict"].where(controls["metric"] != "direct_patients", ""))
    for frame in (unmeasured, alone):
        told = verdict(replace(made, tables={**made.tables, "controls": frame}))
        assert told[0] == "guaranteed" and told[1].endswith("What it writes was not measured.")
    lines = still_open(
        replace(made, tables={**made.tables, "hipaa": hipaa}), Decision(), audited=True, recommended=True
    )
    counted = [line for line in lines if "were not looked for" in line]
    fields = len(made.rows("hipaa", tested="no"))
    assert counted[0].startswith(f"{fields} of HIPAA") and counted[1].startswith("2 more")


def test_nan_is_no_number_of_the_first_page(runs, report):
    bare = subject(runs, report, 0)
    rows = bare.tables["strongest"].assign(base_value=math.nan)
    empty = bare.tables["controls"].iloc[:0]
    told = facts(
        replace(bare, tables={**bare.tables, "strongest": rows, "controls": empty, "strongest_note": empty}),
        report.facts["cohort"],
        "",
    )
    answers = {one["key"]: one["answer"] for one in told}
    assert "nan" not in " ".join(answers.values()).lower()
    assert answers["written"] == answers["useful"] == answers["membership_note"] == "Not measured."


def test_terms_of_the_page_are_explained_and_no_others(workspace, smoke_specs, report):
    """A private run's page has ε, δ, μ, its accountant and the attack by name; one without privacy has no μ."""

    def key(page: str) -> str:
        return page.partition('<p class="key soft">')[2].partition("</p>")[0]

    private = key(render(report))
    explained = set(re.findall(r"<b>([^<]+)</b>", private)) - {"Key:"}
    assert {"ε", "δ", "μ", "AUC", "perplexity"} <= explained and len(explained & {"PRV", "RDP"}) == 1
    assert "how much one note can change" in private
    plain = key(render(build(workspace, [workspace.run(smoke_specs["plain"].run_id)], now=0.0)))
    assert "<b>AUC</b>" in plain and not {"<b>μ</b>", "<b>PRV</b>", "<b>RDP</b>"} & set(re.findall("<b>.*?</b>", plain))
