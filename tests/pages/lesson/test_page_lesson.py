"""The lesson, driven without a browser: alone, by its link, and with a class."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation import wording
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from pages.parts.common import shell
from pages.parts.common.public_noise import SENTENCE
from pages.parts.lesson import classroom_view, picture
from pages.parts.lesson.figures import figures
from pages.parts.lesson.steps import COINCIDENCE, NO_EPSILON, PAIRS, SHARES, _bin, steps
from pages.parts.session import classroom, resources, rooms
from tests.pages.visit import ROOT, WAIT, said, visit


@pytest.fixture
def served(monkeypatch, leaky_workspace):
    """Runs whose model without privacy knows its patients by heart; and nobody's class."""
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    resources.forget_process()
    return leaky_workspace


def press(app, key: str):
    next(button for button in app.button if button.key == key).click().run()
    assert not app.exception
    return app


def link(app, name: str) -> str:
    """A parameter of the page's link; empty if the link lacks it."""
    value = app.query_params.get(name, "")
    return value if isinstance(value, str) else value[-1]


def answers(app) -> list[str]:
    return [button.label for button in app.button if button.key.startswith("lesson-") and button.key[-1].isdigit()]


def guess(app, label: str):
    next(button for button in app.button if button.label == label).click().run()
    assert not app.exception
    return app


def test_the_lesson_draws_whole_markers_at_nothing_and_ten_rows_on_a_screen():
    rows = [(f"row {n}", 0.0, 0.0, 0.01, "private") for n in range(10)]
    figure = picture.dots(pd.DataFrame(rows, columns=["what", "value", "low", "high", "arm"]), "share", shares=True)
    assert figure.layout.xaxis.range[0] < 0 and figure.data[0].cliponaxis is False, "a marker at 0 is not cut in half"
    assert figure.layout.height < 500


def test_a_step_is_predicted_looked_at_and_revealed(served):
    app = visit("lesson", step="1")
    assert answers(app) == [name for name, _ in SHARES]
    assert "Answer from these runs" not in said(app)
    guess(app, "nobody")
    assert "Your answer: **nobody**" in said(app) and "Answer from these runs" not in said(app)
    door = next(found for found in app.get("page_link") if found.proto.label == "Try it yourself")
    pair = {f"{side}={run.id}" for side, run in zip(("left", "right"), _pair(served), strict=True)}
    assert pair <= set(door.proto.query_string.split("&"))
    press(app, "lesson-show")
    assert "You guessed “nobody”. Answer from these runs: **more than half**" in said(app)
    assert link(app, "step") == "1" and link(app, "guesses") == "a----"
    assert link(app, "shown") == "1"


def _pair(data):
    runs = Workspace(data, shared=()).runs()
    plain = next(run for run in runs if run.spec.training.epochs and not run.spec.privacy.private)
    return plain, next(run for run in runs if run.spec.privacy.private)


def test_the_answers_are_the_runs_own_figures(served):
    metrics = _pair(served)[0].metrics.set_index(["metric", "arm"])
    found = steps(figures())
    assert len(found) == 5
    named = metrics.loc[("full_name_patients", "run"), "value"]
    assert found[0].right == _bin(named, SHARES)
    control = metrics.loc[("full_name_patients", "heldout"), "value"]
    assert found[0].picture["value"].tolist() == [named, control]
    assert found[0].picture["arm"].tolist() == ["run", "control"], "with a control, the chart has a legend"
    assert found[3].right == _bin(round(100 * metrics.loc[("auc_loss", "run"), "value"]), PAIRS)
    assert found[3].picture["value"].tolist()[0] == metrics.loc[("auc_loss", "run"), "value"]
    assert found[1].right in COINCIDENCE and found[4].right is None
    private = _pair(served)[1].metrics.set_index(["metric", "arm"])
    control = private.loc[("full_name_patients", "heldout")]
    leaks = private.loc[("full_name_patients", "run"), "low"] > control["high"]
    assert found[2].right == (NO_EPSILON if leaks else "ε = 8 per note")
    assert list(found[4].answers) == ["ε = 8 per note", "no privacy"]


def test_a_choice_of_epsilon_is_defended_with_its_own_figures(served):
    found = figures()
    plain, private = (steps(found, choice)[4].reveal for choice in ("no privacy", "ε = 8 per note"))
    assert "nothing limits" in plain and "attackers" in private and "nothing limits" not in private
    assert "from ε and δ alone" in private, "the report's first figure counts by the steps, and is lower"


def test_only_secret_noise_makes_the_lessons_epsilon_a_promise(served, monkeypatch):
    private = steps(figures(), "ε = 8 per note")[4].reveal
    assert "- Guarantee if its noise were secret: " in private and SENTENCE in private
    assert SENTENCE not in steps(figures(), "no privacy")[4].reveal
    assert "once the noise is secret" in steps(figures())[2].why
    monkeypatch.setattr(Run, "noise_source", property(lambda run: "secret" if run.spec.privacy.private else None))
    found = steps(figures(), "ε = 8 per note")
    assert "- Guarantee: " in found[4].reveal and SENTENCE not in found[4].reveal and "once the" not in found[2].why


def test_a_link_to_the_last_step_defends_the_choice_that_it_holds(served):
    app = visit("lesson", step="5", guesses="----b", shown="5")
    assert "You chose **no privacy**" in said(app) and "nothing limits" in said(app)


def test_bins_end_where_they_say():
    assert [_bin(value, SHARES) for value in (0.0, 0.001, 0.1, 0.1001, 0.25, 0.5, 0.51, 1.0)] == [
        "nobody",
        "up to 10 in 100",
        "up to 10 in 100",
        "10 to 25 in 100",
        "10 to 25 in 100",
        "25 to 50 in 100",
        "more than half",
        "more than half",
    ]


def test_every_step_opens_a_page_that_there_is(served):
    for step in steps(figures()):
        assert step.looks and all(place.page in shell.pages() for place in step.looks)
        assert step.right is None or step.right in step.answers
        assert not step.picture.empty and step.picture["what"].is_unique


def test_one_held_out_patient_is_one_patient(served):
    """The cohort has four patients, three of them members."""
    found = steps(figures())
    assert "the notes of 3 patients" in found[0].question
    assert "One further patient was held out" in found[1].question


def test_whoever_decides_can_go_and_read_what_they_would_sign(served):
    plain, private = _pair(served)
    for choice, run in (("no privacy", plain), ("ε = 8 per note", private)):
        looks = steps(figures(), choice)[4].looks
        assert {place.page for place in looks} == {"tradeoff", "report", "ledger"}
        assert {"runs": run.id} in [place.query for place in looks]


def test_notes_that_a_student_brought_are_not_what_a_class_is_asked_about(served, monkeypatch):
    real = Workspace.runs

    def brought(self):
        """Every run, as if it read notes that somebody brought."""
        corpora = {"corpus": CORPUS_PRESETS["smoke"].model_copy(update={"imported": "0" * 12})}
        return [replace(run, spec=run.spec.model_copy(update=corpora)) for run in real(self)]

    monkeypatch.setattr(Workspace, "runs", brought)
    assert figures() is None


def test_every_step_is_drawn_and_the_ends_stop(served):
    app = visit("lesson", step="1")
    for number in range(1, 6):
        assert any(header.value.startswith(f"{number}. ") for header in app.header)
        press(app, f"lesson-{number}-show")
        assert len(app.get("plotly_chart")) == 1
        press(app, "lesson-next")
    assert next(button for button in app.button if button.key == "lesson-next").disabled
    assert link(app, "shown") == "12345" and link(app, "step") == "6"
    press(app, "lesson-back")
    assert link(app, "step") == "5"


def test_without_runs_the_lesson_says_what_to_train(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    app = visit("lesson", step="1")
    assert "needs two models of the same patients" in app.info[0].value


def bars(app) -> str:
    return "\n".join(element.proto.body for element in app.get("html") if 'class="bars"' in element.proto.body)


def test_the_presenter_sees_what_the_class_predicts(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    students = [
        guess(visit("lesson", step="1", screen="page", room=code.lower()), label)
        for label in ("nobody", "nobody", "more than half")
    ]
    host.run()
    assert "3 browsers joined" in said(host) and "3 predictions so far" in said(host)
    assert not bars(host), "not even on the projector, unless the presenter wants it"
    host.toggle(key="hide_bars").set_value(False).run()
    assert "3 predictions" in bars(host)
    assert "<td>nobody</td><td><i style='width:100%'></i></td><td>2</td>" in bars(host)
    assert "✓" not in bars(host), "the answer is not given away"
    assert "The bars appear with the answer" in said(students[0]) and not bars(students[0])
    press(students[0], "lesson-show")
    assert "<td>more than half ✓</td>" in bars(students[0])
    assert "class-reset" not in {button.key for button in students[0].button}


def test_a_page_that_is_loaded_anew_counts_nobody_twice(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    guess(visit("lesson", step="1", screen="page", room=code), "nobody")
    visit("lesson", step="1", screen="page", room=code, round="0", guesses="a----")
    host.run()
    assert "1 prediction so far" in said(host) and "1 browser joined" in said(host)


def test_a_presenter_who_loads_the_page_anew_is_still_the_presenter(served):
    host = press(visit("lesson", step="1"), "class-open")
    code, key = link(host, "room"), link(host, "host")
    again = visit("lesson", step="1", screen="page", room=code, host=key)
    assert "class-reset" in {button.key for button in again.button}
    (rehearsal,) = [link.proto for link in again.get("link_button")]
    assert rehearsal.label == "View as a student" and rehearsal.url.startswith("lesson?room=")
    assert "0 browsers joined" in said(again)
    impostor = visit("lesson", step="1", screen="page", room=code, host="A" * 12)
    assert "class-reset" not in {button.key for button in impostor.button}


def test_when_the_presenter_begins_again_everybody_does(served):
    host = press(visit("lesson", step="1"), "class-open")
    student = guess(visit("lesson", step="1", screen="page", room=link(host, "room")), "nobody")
    press(host, "class-reset")
    assert "0 answered all three questions" in said(host)
    student.run()
    assert "Your answer" not in said(student) and "guesses" not in student.query_params
    assert "step" not in student.query_params, "from the start, with the three questions"
    guess(press(student, "lesson-next"), "more than half")
    press(host, "lesson-next")
    assert "1 prediction so far" in said(host)


def test_a_presenter_who_leads_takes_the_class_along_and_holds_the_answer_back(served):
    host = press(visit("lesson", step="1"), "class-open")
    student = guess(visit("lesson", step="1", screen="page", room=link(host, "room")), "nobody")
    skipped = [
        press(visit("lesson", step="1", screen=screen, room=link(host, "room")), "lesson-1-show")
        for screen in ("page", "vote")
    ]
    host.toggle(key="class-lead").set_value(True).run()
    assert not host.exception
    student.run()
    assert "The presenter will show the answer." in [one.value for one in student.caption]
    assert "lesson-show" not in {button.key for button in student.button}
    for late in (*skipped, visit("lesson", step="1", screen="page", room=link(host, "room"))):
        late.run()
        assert "lesson-1-show" not in {button.key for button in late.button}, "it would show nothing"
        assert "Answer from these runs" not in said(guess(late, "nobody"))
    assert "4 predictions so far" in said(host.run()), "who skipped the question before can still vote"

    silent = visit("lesson", step="1", screen="page", room=link(host, "room"))
    press(host, "lesson-1-show")
    assert "Answer from these runs" in said(silent.run()) and not answers(silent), "who did not vote sees it, too"
    student.run()
    assert "Answer from these runs" in said(student) and "You guessed “nobody”" in said(student)
    press(host, "lesson-next")
    moves = classroom.classroom().counts(link(host, "room")).lead.number
    host.run()
    assert classroom.classroom().counts(link(host, "room")).lead.number == moves, "to look again is no move"
    student.run()
    assert link(student, "step") == "2" and "2. " in student.header[0].value
    press(student, "lesson-back")
    student.run()
    assert link(student, "step") == "1", "who looks back is not pulled away again"

    host.toggle(key="class-lead").set_value(False).run()
    guess(student, "Next")
    guess(student, next(label for label in answers(student)))
    assert "lesson-show" in {button.key for button in student.button}, "everyone goes their own way again"


def test_a_presenter_with_uploads_takes_the_class_to_the_page_alone(served, monkeypatch):
    code, key = classroom.classroom().open()
    rooms = classroom.classroom()
    host = visit("patients", room=code, host=key, patient="P0001")
    host.toggle(key="class-lead").set_value(True).run()
    assert ("patient", "P0001") in rooms.counts(code).lead.query
    press(host, "class-everybody")
    sent = rooms.counts(code).sent
    assert (
        sent.exact
        and dict(sent.query).items() >= {"patient": "P0001", "run": host.selectbox(key="pick_run").value}.items()
    )
    assert not {"room", "host"} & set(dict(sent.query))
    host.toggle(key="class-lead").set_value(False).run()
    upload = SimpleNamespace(digest="0123456789ab")
    monkeypatch.setattr("core.runs.uploads.records.uploads", lambda data, owner: [upload])
    press(host, "class-everybody")
    assert rooms.counts(code).sent.query == () and rooms.counts(code).sent.number > sent.number
    host.toggle(key="class-lead").set_value(True).run()
    assert rooms.counts(code).lead.query == () and rooms.counts(code).lead.page == "patients"


def test_a_countdown_runs_for_everyone(served, monkeypatch):
    clock = SimpleNamespace(time=lambda: clock.now, now=time.time())
    monkeypatch.setattr(rooms, "time", clock)
    monkeypatch.setattr(classroom_view, "time", clock)
    host = press(visit("lesson", step="1"), "class-open")
    student = guess(visit("lesson", step="1", screen="page", room=link(host, "room")), "nobody")
    assert "seconds left" not in said(host)
    press(host, "timer-60")
    clock.now += 12.5
    for app in (host.run(), student.run()):
        assert any("**48 seconds left**" in one.value for one in app.markdown)
    assert "timer-60" not in {button.key for button in student.button}


def test_only_the_presenter_leads(served):
    code, key = classroom.classroom().open()
    rooms = classroom.classroom()
    rooms.lead(code, "playground", [("left", "gpt2-1")])
    first = rooms.counts(code).lead
    rooms.lead(code, "playground", [("left", "gpt2-1")])
    assert rooms.counts(code).lead == first, "the same place is no move"
    student = visit("lesson", step="1", screen="page", room=code)
    assert "class-lead" not in {toggle.key for toggle in student.toggle}
    rooms.lead(code, "lesson", [("step", "<b>")])
    assert rooms.counts(code).lead.number == first.number + 1
    student.run()
    assert not student.exception and "step" not in student.query_params, "no place of that name: the start"
    rooms.release(code)
    assert rooms.counts(code).lead is None


def test_a_page_that_is_loaded_anew_after_the_class_began_again_begins_again_too(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    press(host, "class-reset")
    late = visit("lesson", step="1", screen="page", room=code, round="0", guesses="a----", shown="1")
    assert not {"step", "guesses"} & set(late.query_params) and link(late, "round") == "1"
    assert "Guess first" in said(press(late, "lesson-next"))


def test_who_leaves_a_class_stays_out(served):
    host = press(visit("lesson", step="1"), "class-open")
    student = visit("lesson", step="1", screen="page", room=link(host, "room"))
    press(student, "class-leave")
    student.run()
    assert "room" not in student.query_params and "class-open" in {button.key for button in student.button}


def test_what_a_student_asks_is_counted_for_the_class(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    student = visit("playground", room=code, samples="4", seed="0")
    student.pills(key="chips").set_value("Patient:").run()
    assert not student.exception
    host.run()
    drawn = "\n".join(element.proto.body for element in host.get("html"))
    answer = student.session_state["tries"][-1].answers[0]
    assert f"<b>{answer.samples_with_leak}</b> of 4" in drawn and answer.samples_with_leak > 0
    assert "Patient:" not in drawn, "no prompt is kept"


def test_large_type_is_one_switch(served):
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    app.query_params["presenter"] = "1"
    app.run().switch_page("pages/lesson.py").run()
    assert app.toggle(key="presenter").value
    assert any("html { font-size" in element.proto.body for element in app.get("html"))
    app.toggle(key="presenter").set_value(False).run()
    assert not any("html { font-size" in element.proto.body for element in app.get("html"))


def test_membership_is_told_by_patient_and_not_by_note_alone(served):
    """The loss attack on one note is the weakest view: the answer and the defence name the patient's, too."""
    found = figures()
    strongest = found.strongest()
    assert (strongest.attack, strongest.attacks) == ("loss", 1), "the quick audit alone"
    answered, defended = (step.reveal for step in steps(found, "no privacy")[3:5])
    right, of = wording.pairs_of(strongest.interval.value)
    for told in (answered, defended):
        assert f"the loss attack is right in {right:,} of {of:,} pairs of patients" in told
        assert "a full audit may find a stronger one" in told
        assert f", evaluated on {strongest.patients:,} patients; one run)" in told
    assert found.strongest(0.123) is None
