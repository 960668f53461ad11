"""What a report says of releases that were the best of several runs."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from importlib.resources import files

import jsonschema
import pandas as pd
import pytest

from core.common.formatting import promised_text, time_text
from core.corpus.tables import Corpus
from core.evaluation.guarantee.audit_guarantee import BY_CURVE
from core.evaluation.guarantee.odds import group_sentence
from core.evaluation.report import tables
from core.evaluation.report.facts import Report, build, choices_of, outline
from core.evaluation.report.findings import LONGEST, promised_facts, released_beside
from core.evaluation.report.glance import ONE_TRAINING, Subject, verdict
from core.evaluation.report.glance import facts as ten_facts
from core.evaluation.report.html import render
from core.evaluation.report.label import essentials, rows
from core.evaluation.report.tables import bounds, ledger_table
from core.evaluation.wording import ALL_RIGHT, NEARLY_ALL, most_right_guesses, right_of_100
from core.runs.ledger.choice import Choice
from core.runs.ledger.entries import Ledger
from core.runs.ledger.totals import DELTA, promised
from core.runs.store import Workspace
from core.training.accounting.choosing import chosen_epsilon
from core.training.accounting.chosen_composition import Chosen, total_patient_epsilon
from tests.runs.released import SMOKE, mechanism, release

NOTES = pd.DataFrame({"patient_id": ["a", "a", "b"], "split": "member"})
COHORT = Corpus(SMOKE, pd.DataFrame(), NOTES, pd.DataFrame())
BEST = release(1, mechanism=mechanism(3.0), choice=Choice.of(10, 0.0, "loss on public notes"))


def test_totals_name_their_accountant_and_each_choice():
    told = promised_facts([BEST, release(2, mechanism=mechanism(5.0))], COHORT, DELTA)
    total = promised([BEST, release(2, mechanism=mechanism(5.0))], "note")
    note = told["totals"]["note"]
    assert note == {"releases": 2, "epsilon": total.epsilon, "accountant": "rdp", "choices": 1}
    alone = promised_text(chosen_epsilon(mechanism(3.0), 10))
    assert told["sentences"] == [
        f"For the patient with the most notes (2), everything together promises ε = "
        f"{promised_text(told['together'][0]['epsilon'])} at δ = 10⁻⁵.",
        f"Everything released of this cohort so far promises ε = {promised_text(total.epsilon)} at δ = 10⁻⁵ for one "
        "note. Added up by Rényi divergences (RDP), because one of them was chosen among several runs.",
        "release 1 was released as the best of 10 expected runs (η = 0), chosen by loss on public notes: with the "
        f"choice it has ε = {alone} at δ = 10⁻⁵ per note on its own.",
    ]
    without = promised_facts([release(1, mechanism=mechanism(3.0))], COHORT, DELTA)
    assert without["sentences"][1].endswith("for one note. Composed by PRV.") and len(without["sentences"]) == 2


def test_the_json_of_a_choice_follows_the_schema():
    schema = json.loads((files("core.evaluation.report") / "report.schema.json").read_text(encoding="utf-8"))
    told = promised_facts([BEST], COHORT, DELTA)
    checker = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **schema["properties"]["promised"]})
    assert list(checker.iter_errors(told)) == []
    del told["totals"]["note"]["accountant"]
    assert len(list(checker.iter_errors(told))) == 1


def test_the_table_of_releases_has_the_choice_and_its_cost():
    table = ledger_table([BEST, release(2, mechanism=mechanism(5.0))])
    assert table["chosen"].tolist() == ["best of 10 expected runs (η = 0), chosen by loss on public notes", ""]
    assert table["epsilon"].tolist() == [
        pytest.approx(chosen_epsilon(mechanism(3.0), 10)),
        pytest.approx(mechanism(5.0).epsilon()),
    ]


# A run that is entered as the best of several ------------------------------------------------------------------------


def entered(root, folder, spec, choice: Choice | None) -> Report:
    """The report on a run that was entered into a copy's ledger."""
    shutil.copytree(root, folder)
    workspace = Workspace(folder, shared=())
    run = workspace.run(spec.run_id)
    ledger = Ledger.of(workspace, run.spec.corpus)
    ledger.enter(ledger.draft_run(run, "a test", choice))
    return build(workspace, [run], now=0.0)


@pytest.fixture(scope="module")
def chosen(root, smoke_specs, tmp_path_factory):
    choice = Choice.of(10, 0.0, "loss on public notes")
    return entered(root, tmp_path_factory.mktemp("chosen") / "data", smoke_specs["dp"], choice)


def test_everything_in_the_report_has_the_epsilon_that_the_ledger_has(root, chosen, smoke_specs):
    """ε = 8 of one training; as the best of 10, label, names, facts, bounds and record say what the ledger says."""
    alone = Workspace(root, shared=()).run(smoke_specs["dp"].run_id).privacy
    epsilon = chosen_epsilon(alone, 10)
    assert epsilon > alone.epsilon() + 1
    told, tables = json.loads(chosen.to_json()), chosen.tables
    assert told["label"]["epsilon"] == epsilon and told["label"]["promised"]
    assert tables["ledger"]["epsilon"].tolist() == tables["models"]["epsilon"].tolist() == [epsilon]
    loss = told["deployment_record"]["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {"epsilon": epsilon, "delta": alone.delta}
    assert "released as the best of 10 expected runs" in loss["privacy_parameters_details"]
    said = f"ε = {promised_text(epsilon)}"
    facts = {one["key"]: one["answer"] for one in told["glance"]}
    assert facts["guarantee"].startswith(f"{said} at δ = 0.001 for one note, as the best of 10 expected runs")
    assert right_of_100(most_right_guesses(epsilon, alone.delta)) == ALL_RIGHT and told["subject"]["verdict"] == "empty"
    assert f"{NEARLY_ALL} may be right by (ε, δ)" in facts["guesses"] and ONE_TRAINING in facts["guesses"]
    most = told["cohort"]["most_training_notes_of_a_patient"]
    whole = total_patient_epsilon([], [Chosen(alone, 10, 0.0)], most, alone.delta)
    together = pd.DataFrame(told["promised"]["together"]).set_index("unit").loc["patient"]
    assert most > 1 and facts["many_notes"] == group_sentence(Chosen(alone, 10, 0.0), most)
    assert together["notes"] == most and promised_text(whole) in facts["many_notes"]
    assert told["names"] == {told["subject"]["run"]: f"A: {said} per note"}
    assert tables["bounds"]["promised"].eq(epsilon).all() and not tables["bounds"]["alarm"].any()
    front = render(chosen).partition('<div class="annex">')[0]
    assert said in front and f"ε = {promised_text(alone.epsilon())}" not in front.replace(said, "")
    assert f"({promised_text(epsilon)}, 0.001)-differential privacy" in " ".join(told["verdict"][0]["sentences"])


def test_right_guesses_of_a_small_choice_are_those_of_its_epsilon(root, smoke_specs):
    run = Workspace(root, shared=()).run(smoke_specs["dp"].run_id)
    mild = Choice.of(1.2, 0.0, "loss on public notes")
    report = build(Workspace(root, shared=()), [run], now=0.0)
    promised_right = most_right_guesses(mild.best_of(run.privacy).epsilon(), run.privacy.delta)
    model = {"right_guesses_promised": promised_right, "right_guesses_counted": math.nan}
    about = Subject.of(run, "A", report.tables, 1, mild)
    about = replace(about, model=dict(about.model) | model)
    told = {one["key"]: one["answer"] for one in ten_facts(about, report.facts["cohort"], "")}
    assert f"at most {right_of_100(promised_right)} are right by (ε, δ)" in told["guesses"]
    assert "nan" not in " ".join(told.values()) and verdict(about)[0] != "empty"


def test_what_is_known_of_a_single_training_only_is_left_out_and_said(chosen):
    made = chosen.facts["label"]
    assert "mu" not in made and "curve" not in made and chosen.facts["label_picture"] == {}
    assert chosen.tables["models"]["right_guesses_counted"].isna().all()
    assert BY_CURVE not in set(chosen.tables["bounds"]["evidence"]) and chosen.facts["bounds_by_curve"] == []
    printed = {key: text for key, _, text in rows(made)}
    assert "mu" not in printed and printed["choice"] == f"The {made['choice']}. ε includes the choice. {ONE_TRAINING}"
    assert dict(essentials(made))["choice"] == "best of 10 expected runs"
    assert any("except by the choice" in line for line in made["not_protected"])
    page = render(chosen)
    assert "Trade-off curve of the training" not in page and "by the run’s own curve" not in page
    assert ONE_TRAINING in " ".join(chosen.facts["verdict"][0]["sentences"])
    schema = json.loads((files("core.evaluation.report") / "report.schema.json").read_text(encoding="utf-8"))
    told = json.loads(chosen.to_json())
    assert list(jsonschema.Draft202012Validator(schema).iter_errors(told)) == []
    told["label"]["mu"] = 1.0
    assert len(list(jsonschema.Draft202012Validator(schema).iter_errors(told))) == 1


def test_a_bound_above_one_training_but_below_the_choice_is_no_alarm(root, smoke_specs):
    """The theorem bounds the release with its choice, so only a bound above that contradicts it."""
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    choice = Choice.of(10, 0.0, "loss on public notes")
    alone, whole = run.privacy.epsilon(), choice.best_of(run.privacy).epsilon()
    audits = {run.id: workspace.audit(run.id)}
    plain = bounds([run], audits)
    assert plain["promised"].eq(alone).all() and BY_CURVE in set(plain["evidence"])
    for proved, alarm in ((alone + 0.5, False), (whole + 0.1, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tables, "stored_bounds", lambda *_, proved=proved: plain.assign(epsilon=proved, alarm=True))
            found = bounds([run], audits, {run.id: choice})
        assert found["promised"].eq(whole).all() and found["alarm"].eq(alarm).all() and len(found) == len(plain) - 1


def test_a_run_entered_without_a_choice_keeps_its_own_epsilon(root, smoke_specs, tmp_path):
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    before, after = build(workspace, [run], now=0.0), entered(root, tmp_path / "data", smoke_specs["dp"], None)
    assert after.facts["label"] == before.facts["label"] and "mu" in before.facts["label"]
    assert after.facts["names"] == before.facts["names"]
    same = [one for one in after.facts["glance"] if one["key"] != "released"]
    assert same == [one for one in before.facts["glance"] if one["key"] != "released"]
    pd.testing.assert_frame_equal(after.tables["models"], before.tables["models"])


def test_the_choice_of_an_earlier_training_is_not_that_of_the_run(root, smoke_specs):
    run = Workspace(root, shared=()).run(smoke_specs["dp"].run_id)
    choice = Choice.of(10, 0.0, "loss on public notes")
    again = run.privacy.model_copy(update={"training": "c" * 16})
    for mechanism_, known in ((run.privacy, {run.id: choice}), (again, {})):
        entry = release(1, mechanism=mechanism_, choice=choice).model_copy(update={"name": run.id, "time": 2e10})
        assert choices_of([run], [entry]) == known


def test_the_page_s_outline_has_the_choice_too(chosen, root, smoke_specs, tmp_path):
    entered(root, tmp_path / "data", smoke_specs["dp"], Choice.of(10, 0.0, "loss on public notes"))
    workspace = Workspace(tmp_path / "data", shared=())
    quick = outline(workspace, [workspace.run(smoke_specs["dp"].run_id)])
    assert quick.facts["names"] == chosen.facts["names"]
    pd.testing.assert_frame_equal(quick.tables["models"], chosen.tables["models"])


# What else was released ----------------------------------------------------------------------------------------------


def test_the_run_itself_is_not_among_what_else_was_released(root, smoke_specs):
    run = Workspace(root, shared=()).run(smoke_specs["dp"].run_id)
    own = release(2, mechanism=run.privacy).model_copy(update={"name": run.id, "time": 2e10})
    other = release(1, mechanism=mechanism(5.0))
    told = promised_facts([other, own], COHORT, DELTA)["sentences"]
    assert released_beside(run, [own], told) == "Nothing else: this model is entry 2 of the ledger, which has no other."
    assert released_beside(run, [other, own], told).startswith(
        "1 other release. This model is entry 2 of the ledger; the totals include it. For the patient with the most"
    )
    assert released_beside(run, [other], told) == " ".join(told[:3]), "not entered: everything is something else"
    long = released_beside(run, [other], ["A score. " * 100])
    assert len(long) <= LONGEST and long.endswith("…"), "the first page has room for a sentence"


def test_the_report_s_date_is_written_out(root, smoke_specs):
    workspace = Workspace(root, shared=())
    page = render(build(workspace, [workspace.run(smoke_specs["dp"].run_id)], now=1_795_668_035.0))
    assert "Made 26 November 2026, 04:40 UTC by" in page and time_text("2026-11-26T06:38:55+02:00").endswith(
        "04:38 UTC"
    )
