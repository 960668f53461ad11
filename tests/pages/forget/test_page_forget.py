"""The page Forget a patient: what is stored, who is offered, and that nothing is forgotten before somebody asks."""

from __future__ import annotations

import shutil
from html import escape
from types import SimpleNamespace

import pandas as pd
import pytest

from core.evaluation.forgetting import summary
from core.evaluation.wording import percent
from core.jobs.limits import Limits, User
from core.pipeline.forgetting import Comparison, forget, weights_folder
from core.runs.store import Workspace
from core.serving.server import Sampling, Stream
from pages.parts.forget import charts, data, live, prompt, sentences
from pages.parts.forget.data import current, offered
from pages.parts.pickers import linked_choice
from pages.parts.session import models, resources
from pages.parts.step.background import computing
from tests.pages.visit import said, visit

NAMED = {
    "original": "as trained",
    "ascent": "gradient ascent",
    "fine-tuning": "fine-tuned on the others",
    "difference": "both at once",
    "retrained": "trained again without them",
    "private": "DP",
    "public": "public model",
}


@pytest.fixture(scope="module")
def forgotten(smoke_workspace, smoke_specs, tmp_path_factory):
    """A data folder in which a patient was unlearned: the root, the run's id and the patient's."""
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("forgotten") / "data")
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["plain"].run_id)
    patient = str(workspace.corpus(run.spec.corpus).notes_of("member")["patient_id"].min())
    forget(run, patient, workspace, methods=["ascent"], samples=1)
    return root, run.id, patient


@pytest.fixture
def opened(forgotten, monkeypatch):
    root, run_id, patient = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    return visit("forget", run=run_id, out=patient)


def test_the_page_opens_with_the_stored_picture(opened, forgotten):
    root, run_id, patient = forgotten
    table = summary(Workspace(root, shared=()).audit(run_id).forgetting(patient)).set_index("arm")
    assert len(opened.get("plotly_chart")) == 1
    place = percent(table.loc["original", "percentile"])
    assert f"on patient {patient}'s notes, compared with the public model, than on those of **{place}**" in said(opened)
    assert f"gradient ascent **{percent(table.loc['ascent', 'percentile'])}**" in said(opened)
    assert "Train the model again without them to see where they belong" in said(opened)
    assert "What it cost: perplexity of held-out notes" in said(opened)
    assert [one.label for one in opened.button if one.key == "forget-now"] == ["Forget now"]  # two methods are left


def test_the_suggested_prompt_is_answered_by_every_model(opened, forgotten):
    root, run_id, patient = forgotten
    name = Workspace(root, shared=()).corpus(Workspace(root, shared=()).run(run_id).spec.corpus).patients
    name = name.set_index("patient_id")["full_name"][patient]
    (typed,) = opened.text_input
    assert typed.value == f"Patient: {name.split()[0]}"
    next(one for one in opened.button if one.label == "Ask").click().run()
    assert not opened.exception and not opened.error
    for heading in ("As trained", "Gradient ascent", "DP, ε = 8 per note"):
        assert f"**{heading}**" in said(opened)
    assert not any("No answer from" in one.value for one in opened.caption)
    written = [element for element in opened.get("html") if escape(typed.value) in str(element.proto)]
    assert len(written) == 9  # three samples of three models


def test_a_model_that_does_not_answer_in_time_is_not_asked_any_longer(data, smoke_specs, monkeypatch):
    """A request that is left in the queue would be computed for nobody, while others wait."""
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    stream = Stream(run.id, "Patient:", (0,), Sampling(), texts=["Ann"])
    busy = SimpleNamespace(generate=lambda *_, **how: stream)
    monkeypatch.setattr(resources, "server", lambda: busy)
    monkeypatch.setattr(prompt, "WAIT_SECONDS", 0.01)
    ((arm, texts, error, _),) = prompt._ask(None, {"original": run}, "Patient:")
    assert (arm, texts, error) == ("original", [], prompt.BUSY) and stream.cancelled


def test_a_computation_of_another_page_is_waited_for(monkeypatch):
    """The pages that compute in this process take turns, and a page that waits in vain says that the server is busy."""
    monkeypatch.setattr(prompt, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(prompt, "_drawn", lambda found, arm, text: ["Ann"])
    with computing(lambda done, of: None):
        assert prompt._unlearned(None, "ascent", "Patient:") == ([], prompt.BUSY)
    assert prompt._unlearned(None, "ascent", "Patient:") == (["Ann"], "")
    assert not models.turn().locked()


def test_an_older_link_opens_its_patient_and_a_new_choice_replaces_them(forgotten, monkeypatch):
    root, run_id, _ = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    members = Workspace(root, shared=()).corpus(Workspace(root, shared=()).run(run_id).spec.corpus).notes_of("member")
    *_, before, after = sorted(set(members["patient_id"]))
    app = visit("forget", run=run_id, patient=before)
    box = app.selectbox(key=f"forget-patient-{run_id}")
    assert box.value == before
    box.set_value(after).run()
    assert app.selectbox(key=f"forget-patient-{run_id}").value == after
    assert app.query_params["out"] in (after, [after])


@pytest.mark.parametrize("older", [True, False])
def test_back_to_an_address_without_a_choice_shows_the_patient_it_opened_with(forgotten, monkeypatch, older):
    root, run_id, patient = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    members = Workspace(root, shared=()).corpus(Workspace(root, shared=()).run(run_id).spec.corpus).notes_of("member")
    *_, linked, other = sorted(set(members["patient_id"]) - {patient})
    app, key = visit("forget", run=run_id, **({"patient": linked} if older else {})), f"forget-patient-{run_id}"
    start = app.selectbox(key=key).value
    app.selectbox(key=key).set_value(other).run()
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    del app.query_params["out"]
    assert app.run().selectbox(key=key).value == start != other
    app.query_params["out"] = other
    assert app.run().selectbox(key=key).value == other, "Forward"
    assert not app.exception


def test_the_patient_that_was_picked_is_there_again_after_another_page(forgotten, monkeypatch):
    root, run_id, patient = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    members = Workspace(root, shared=()).corpus(Workspace(root, shared=()).run(run_id).spec.corpus).notes_of("member")
    other = sorted(set(members["patient_id"]) - {patient})[-1]
    app, key = visit("forget", run=run_id), f"forget-patient-{run_id}"
    app.selectbox(key=key).set_value(other).run()
    app.switch_page("pages/glossary.py").run()
    app.query_params.clear()
    app.switch_page("pages/forget.py").run()
    assert not app.exception and app.selectbox(key=key).value == other


def test_someone_who_is_no_member_is_refused_in_a_sentence(forgotten, monkeypatch):
    root, run_id, _ = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    app = visit("forget", run=run_id, patient="<b>nobody</b>")
    assert "is not in this model's training data" in app.info[0].value and "<b>" not in app.info[0].value
    assert not app.get("plotly_chart")


def test_a_patient_nobody_forgot_yet_shows_a_button_and_no_figure(forgotten, monkeypatch):
    root, run_id, patient = forgotten
    monkeypatch.setenv("PHILAB_DATA", str(root))
    members = Workspace(root, shared=()).corpus(Workspace(root, shared=()).run(run_id).spec.corpus).notes_of("member")
    other = sorted(set(members["patient_id"]) - {patient})[0]
    app = visit("forget", run=run_id, out=other)
    assert f"Nothing has been measured for patient {other} yet" in said(app) and not app.get("plotly_chart")
    assert {"forget-now", "forget-retrain"} <= {one.key for one in app.button}


def test_without_a_run_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert "There is no trained model with weights yet" in visit("forget").info[0].value


def test_figures_of_another_private_run_are_not_shown_under_this_ones_name(data, smoke_specs):
    workspace = Workspace(data, shared=())
    plain, private = (workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp"))
    rows = pd.DataFrame({"arm": ["original", "private"], "run_id": [plain.id, "gpt2-another"]})
    shown, notes = current(Comparison(plain, "P1", None, private), rows, rows)
    assert shown["arm"].tolist() == notes["arm"].tolist() == ["original"]
    rows.loc[1, "run_id"] = private.id
    assert current(Comparison(plain, "P1", None, private), rows, rows)[0]["arm"].tolist() == ["original", "private"]


def test_a_user_has_one_forgetting_at_a_time(data, smoke_specs, monkeypatch):
    run = Workspace(data, shared=()).run(smoke_specs["plain"].run_id)
    monkeypatch.setattr(live.Work, "start", lambda work: setattr(work, "active", True))
    monkeypatch.setattr(live.monitor, "engine", lambda: SimpleNamespace(limits=Limits(), queue_closed=False))
    monkeypatch.setattr(live.resources, "every_workspace", lambda: Workspace(data, shared=()))
    works = {}
    monkeypatch.setattr(live, "_works", lambda: works)
    names = iter(["ada", "ada", "bob", "bob"])
    monkeypatch.setattr(live.instructor, "user", lambda: User(next(names)))
    monkeypatch.setattr(live.st, "session_state", {})
    live.start(run, "P1")
    live.start(run, "P2")
    assert list(works) == [(run.id, "P1")] and "Wait for that" in live.refusal() and not live.refusal()
    live.start(run, "P2")
    assert list(works) == [(run.id, "P1"), (run.id, "P2")]
    works[run.id, "P1"].active = False
    live.start(run, "P2")
    assert list(works) == [(run.id, "P2")], "what has ended is dropped, and nothing begins twice"


def test_only_plain_runs_with_weights_are_offered(data, smoke_specs, monkeypatch):
    monkeypatch.setattr("pages.parts.session.owner.workspace", lambda: Workspace(data, shared=()))
    assert [run.id for run in offered(Workspace(data, shared=()).runs())] == [smoke_specs["plain"].run_id]


def test_what_one_user_forgets_changes_no_page_for_others(tmp_path, monkeypatch):
    """Shipped comparisons come first. A folder in which no model has been judged yet is no comparison."""
    folders = {name: tmp_path / name for name in ("own", "waiting", "shipped", "empty")}
    for name, inside in (("own", "own"), ("waiting", "waiting"), ("shipped", "shipped/shared")):
        (folders[name] if name == "own" else tmp_path / inside).joinpath("forget/P1").mkdir(parents=True)
    for done in (folders["own"], folders["shipped"] / "shared"):
        (done / "forget/P1/attacks.json").write_text("[]")
    audits = {name: SimpleNamespace(folder=folder, shared=(folder / "shared",)) for name, folder in folders.items()}
    monkeypatch.setattr("pages.parts.session.owner.workspace", lambda: SimpleNamespace(audit=audits.__getitem__))
    spec = SimpleNamespace(
        is_base=False, privacy=SimpleNamespace(private=False), on_other_notes=False, model=SimpleNamespace(kind="gpt2")
    )
    runs = [SimpleNamespace(id=name, has_model=True, spec=spec) for name in ("waiting", "own", "empty", "shipped")]
    assert [run.id for run in offered(runs)] == ["shipped", "waiting", "own", "empty"]
    assert [bool(data.why_first(run, runs)) for run in runs] == [False, False, False, True], "own: maybe only begun"


def test_while_models_are_made_nobody_is_asked_to_press_a_button():
    nothing = pd.DataFrame(columns=["arm"])
    assert "Press **Forget now**" in sentences.headline(nothing, "P1", NAMED)
    assert "as soon as the first model is scored" in sentences.headline(nothing, "P1", NAMED, going=True)


def test_a_fault_in_the_live_work_is_said_and_logged(forgotten, monkeypatch, caplog):
    def fault(*_, **how):
        raise KeyError("split")

    monkeypatch.setattr("core.pipeline.forgetting.forget", fault)
    root, run_id, patient = forgotten
    workspace = Workspace(root, shared=())
    work = live.Work(workspace.run(run_id), patient, workspace, User("a student"))
    work._work()
    assert work.error.startswith("Forgetting stopped because of an unexpected error (KeyError). Try again")
    assert "in fault" in caplog.text


def test_the_live_work_says_how_long_its_part_takes(forgotten, monkeypatch):
    """By hand: the first report is at 20 of 100; 40 more took 8 seconds, so the 40 left take 8."""
    root, run_id, patient = forgotten
    workspace = Workspace(root, shared=())
    work = live.Work(workspace.run(run_id), patient, workspace, User("a student"))
    assert live._doing(work, NAMED, 3) == "Waiting for its turn …"
    clock = SimpleNamespace(monotonic=lambda: clock.now)
    monkeypatch.setattr(live, "time", clock)

    def doing(now, *reported, later=0):
        clock.now = now
        work._report(*reported)
        return live._doing(work, NAMED, later)

    assert doing(100, "ascent", "reading notes", 20, 100, later=1).endswith("reading notes; then 1 more model")
    said_then = "Gradient ascent: reading notes · 8 s left; then 2 more models"
    assert doing(108, "ascent", "reading notes", 60, 100, later=2) == said_then
    doing(200, "ascent", "unlearning", 0, 10)
    assert doing(206, "ascent", "unlearning", 5, 10) == "Gradient ascent: unlearning · 6 s left or less"
    doing(206, "public", "reading notes", 10, 10)
    doing(300, "public", "reading notes", 0, 100)  # a second pass over the same notes
    assert doing(306, "public", "reading notes", 10, 100) == "Public model: reading notes · 54 s left"
    assert doing(306, "ascent", "writing texts", 0, 7) == "Gradient ascent: writing texts"


def test_the_live_work_can_be_cancelled_and_says_so(forgotten, smoke_specs, caplog):
    root, run_id, patient = forgotten
    workspace = Workspace(root, shared=())
    corpus = workspace.corpus(smoke_specs["plain"].corpus)
    other = sorted(set(corpus.notes_of("member")["patient_id"]) - {patient})[1]
    work = live.Work(workspace.run(run_id), other, workspace, User("a student"))
    report = work._report

    def cancel_at_once(*told):
        report(*told)
        work.cancel()

    work._report = cancel_at_once
    work.active = True
    work._work()
    assert not work.active and "cancelled" in work.error and "Traceback" not in caplog.text
    assert not weights_folder(workspace, run_id, other, "ascent").exists()


# Sentences -----------------------------------------------------------------------------------------------------------


def table(**gains):
    rows = [(arm, gain, 0.5, 0.4, 0.6, 100, 1.0, 0.5, 5.0, 3.0) for arm, gain in gains.items()]
    columns = ["arm", "gain", "percentile", "low", "high", "compared", "mean", "spread", "perplexity", "seconds"]
    return pd.DataFrame(rows, columns=columns)


def test_the_verdict_names_which_side_each_method_is_on():
    """By hand: retrained is at 0, so 2.0 is +2 standard deviations, 0.5 −1, and 1.1 +0.2."""
    told = sentences.verdict(table(original=3.0, ascent=0.5, difference=1.1, retrained=1.0), "P1", NAMED)
    assert "gradient ascent (−1.00): **their notes are now predicted too badly**" in told
    assert "both at once (+0.20): **their notes are predicted about as well as by that model**" in told
    told = sentences.verdict(table(original=3.0, **{"fine-tuning": 2.0}, retrained=1.0), "P1", NAMED)
    assert "fine-tuned on the others (+2.00): **their notes are still predicted too well**" in told
    assert sentences.verdict(table(original=3.0, retrained=1.0), "P1", NAMED) == ""


def test_the_picture_has_a_row_for_each_model_and_the_patient_at_their_place():
    notes = pd.DataFrame(
        [(arm, "P1", True, 2.0) for arm in ("original", "retrained")]
        + [(arm, f"H{place}", False, float(place)) for arm in ("original", "retrained") for place in range(3)],
        columns=["arm", "patient_id", "forgotten", "gain"],
    )
    figure = charts.places(notes, table(public=0.0, original=2.0, retrained=1.5), "P1", NAMED)
    diamonds = [trace for trace in figure.data if trace.marker.symbol == "diamond" and trace.x[0] is not None]
    assert [trace.x[0] for trace in diamonds] == [1.0, 2.0]  # from the bottom: retrained, as trained
    named = {trace.marker.color: trace.name for trace in figure.data if trace.marker.symbol == "diamond"}
    for trace in diamonds:
        assert "P1, " in named[trace.marker.color], "the legend has the colour of every diamond"
    assert list(figure.layout.yaxis.ticktext) == ["trained again<br>without them: 50\u00a0%", "as trained: 50\u00a0%"]
    assert figure.layout.showlegend is False, "on a phone its six lines would come before the picture"


@pytest.mark.parametrize("made", [[], ["ascent"], ["ascent", "fine-tuning"]])
def test_rows_keep_their_height_while_models_are_made(made):
    """The axis takes 110 pixels, two lines of its title among them; a picture of one row had 102 in all."""
    none = pd.DataFrame(columns=["arm", "patient_id", "forgotten", "gain"])
    figure = charts.places(none, table(**dict.fromkeys(["original", *made], 1.0)), "P1", NAMED)
    assert figure.layout.height >= 110 + 40 * (1 + len(made))


def test_names_say_which_private_run_it_is(data, smoke_specs):
    workspace = Workspace(data, shared=())
    plain, private = (workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp"))
    assert sentences.names(Comparison(plain, "P1", None, private))["private"] == "DP, ε = 8 per note"


TOLD = {
    "arms": [
        {"arm": "retrained", "place": 0.5},
        {"arm": "original", "place": 0.99, "odd": 1.0, "patients": 8, "low": 0.68, "high": 1.0},
        {"arm": "ascent", "place": 0.41, "odd": 0.75, "patients": 8, "low": 0.4, "high": 0.93},
    ]
}


def test_the_test_beside_retrained_models_is_told_in_counts_and_drawn_with_its_chance():
    told = sentences.against_retrained(TOLD, NAMED)
    assert "It was: gradient ascent **6 of 8**." in told and "41\u00a0% (gradient ascent), where 50\u00a0%" in told
    figure = charts.told_apart(TOLD, NAMED)
    assert list(figure.data[0].x) == [0.75, 1.0] and list(figure.data[0].y) == ["gradient ascent", "as trained"]
    assert figure.layout.shapes[0].x0 == pytest.approx(1 / 3)


def test_a_patient_whom_others_resemble_is_compared_with_patients_never_seen():
    """A retrained model that has not read them still places them above EASY: the share is of held-out patients."""
    found = table(original=3.0, ascent=1.0, retrained=1.0)
    found["percentile"] = 0.93
    assert sentences.verdict(found, "P1", NAMED).endswith("on those of 93\u00a0% of held-out patients.")
    assert "gradient ascent **93\u00a0%** (3\u00a0s)" in sentences.headline(found, "P1", NAMED)


def test_texts_are_counted_in_one_or_several():
    assert sentences.texts_about(1) == "1 text of this model's audit contains a detail of this patient."
    assert sentences.texts_about(1_600) == "1,600 texts of this model's audit contain a detail of this patient."


def test_axis_titles_are_in_lines_that_a_phone_shows_whole():
    picture = charts.places(
        pd.DataFrame(columns=["arm", "patient_id", "forgotten", "gain"]), table(public=0.0), "P1", {}
    )
    for figure in (picture, charts.told_apart(TOLD, NAMED)):
        lines = figure.layout.xaxis.title.text.split("<br>")
        assert len(lines) == 2 and all(len(line) <= 30 for line in lines)
    assert "at most 150" in sentences.HOW


def test_the_page_says_why_it_opens_with_this_model(monkeypatch):
    """It opens with a stored comparison, on another model than Patients opens with."""
    first, other = SimpleNamespace(id="first"), SimpleNamespace(id="other")
    monkeypatch.setattr(data, "_shipped", lambda run: run is first)
    assert data.why_first(first, [first, other]).startswith("Results of unlearning are stored for this model.")
    assert not data.why_first(other, [first, other]) and not data.why_first(first, [first])


def test_models_without_weights_are_named(forgotten, monkeypatch, tmp_path):
    root, run_id, patient = forgotten
    bare = shutil.copytree(root, tmp_path / "bare")
    shutil.rmtree(weights_folder(Workspace(bare, shared=()), run_id, patient, "ascent"))
    monkeypatch.setenv("PHILAB_DATA", str(bare))
    app = visit("forget", run=run_id, out=patient)
    next(one for one in app.button if one.label == "Ask").click().run()
    (named,) = [one.value for one in app.caption if "No answer from" in one.value]
    assert "gradient ascent" in named and "DP" not in named
    assert "**Forget now** makes" in named and "Train again" not in named
