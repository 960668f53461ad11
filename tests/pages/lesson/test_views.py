"""The lesson's other views: full screen for a projector, and voting on a phone."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.lesson import classroom_link
from pages.parts.lesson.phrases import first_sentence
from pages.parts.session import classroom
from tests.pages.lesson.test_page_lesson import bars, guess, link, press, served
from tests.pages.visit import WAIT, said, visit

__all__ = ["served"]  # the fixture


def keys(app) -> set[str]:
    return {button.key for button in app.button}


def test_who_joins_a_class_votes_and_can_see_the_page(served):
    host = press(visit("lesson", step="1"), "class-open")
    student = visit("lesson", room=link(host, "room"), step="1")
    assert "step 1 of 5" in said(student) and "Guess first" not in said(student)
    guess(student, "nobody")
    assert "You voted “nobody”. Your vote is counted." in student.success[0].value
    assert not bars(student) and "Answer from these runs" not in said(student)
    press(student, "see-page")
    assert "Your answer: **nobody**" in said(student) and link(student, "screen") == "page"
    press(student, "see-vote")
    assert student.success and link(student, "screen") == "vote"


def test_a_vote_waits_for_the_presenter_who_leads_and_a_late_one_does_not_count(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    student, late = (visit("lesson", room=code, step="1") for _ in range(2))
    guess(student, "nobody")
    assert any("Students set their own pace" in caption.value for caption in host.caption)
    host.toggle(key="class-lead").set_value(True).run()
    assert not any("Students set their own pace" in caption.value for caption in host.caption)
    student.run()
    assert "lesson-show" not in keys(student) and "lesson-next" not in keys(student)
    assert any("when the presenter shows them" in one.value for one in student.caption)
    press(host, "screen-enter")
    press(host, "lesson-show")
    student.run()
    assert "You voted “nobody”" in said(student) and "more than half ✓" in bars(student)
    guess(late, "up to 10 in 100")  # its button was still on the screen
    assert "<td>up to 10 in 100</td><td><i style='width:0%'></i></td><td>0</td>" in bars(late)


@pytest.mark.parametrize(("led", "draws_again"), [(True, True), (False, False)])
def test_a_phone_is_drawn_again_when_the_presenter_stops_leading(led, draws_again, served):
    """Back and Next depend on it. The look every two seconds is a fragment, which a test can only call."""

    def look(code: str, *, led: bool) -> None:
        import streamlit as st

        from pages.parts.lesson import classroom_view
        from pages.parts.session import classroom

        classroom.join(code)
        st.rerun = lambda scope: st.markdown(f"draws the {scope} again")
        classroom_view._current(1, False, led)

    import streamlit as st

    real = st.rerun
    try:
        code, _ = classroom.classroom().open()
        app = AppTest.from_function(look, default_timeout=WAIT, args=(code,), kwargs={"led": led}).run()
    finally:
        st.rerun = real
    assert not app.exception and ("draws the app again" in said(app)) == draws_again


def test_a_phone_names_the_measured_figure_with_the_answer(served):
    host = press(visit("lesson", step="1"), "class-open")
    student = visit("lesson", room=link(host, "room"), step="1")
    press(guess(student, "nobody"), "lesson-show")
    assert "**more than half**. For **100\u00a0%** of the training patients (95\u00a0% interval" in said(student)
    assert first_sentence("In **7 of 10** pairs (AUC 0.70). More.") == "In **7 of 10** pairs (AUC 0.70)."
    assert first_sentence("For **29 %** of them.") == "For **29 %** of them."


def test_a_code_that_was_typed_wrong_is_to_be_checked_and_a_dead_link_to_be_replaced(served):
    app = visit("lesson", step="1")
    app.text_input(key="class-code").set_value("QQQQQ")
    press(app, "class-join")
    (typed,) = (warning.value for warning in app.warning)
    (linked,) = (warning.value for warning in visit("lesson", room="QQQQQ").warning)
    assert typed.endswith("Check the code.") and linked.endswith("Ask for a new link.")


def test_enter_in_the_box_for_the_code_joins_the_class(served):
    app = visit("lesson", step="1")
    box = app.text_input(key="class-code").proto
    submit = next(button.proto for button in app.button if button.key == "class-join")
    assert box.form_id and submit.is_form_submitter and submit.form_id == box.form_id
    app.text_input(key="class-code").set_value(classroom.classroom().open()[0])
    press(app, "class-join")
    assert "**Class " in said(app)


def test_why_nobody_can_join_takes_one_line_of_the_presenters_page(served, monkeypatch):
    monkeypatch.setattr(classroom_link, "join_url", lambda code: None)
    for only_here, short in ((True, "use `make class`"), (False, "no network")):
        monkeypatch.setattr(classroom_link, "listens_only_here", lambda here=only_here: here)
        host = press(visit("lesson", step="1"), "class-open")
        assert f"Students cannot join: {short}." in said(host) and not host.warning


def test_the_full_screen_is_the_presenters_and_shows_votes_when_they_are_shown(served):
    host = press(visit("lesson", step="1"), "class-open")
    code = link(host, "room")
    press(host, "screen-enter")
    assert link(host, "screen") == "full"
    student = guess(visit("lesson", room=code, step="1"), "nobody")
    host.run()
    assert "1 prediction so far** from 1 browser" in said(host) and not bars(host)
    press(host, "lesson-show")
    assert "more than half ✓" in bars(host) and "Patients whose full name it wrote: **more than half**" in said(host)
    assert len(host.get("plotly_chart")) == 1
    press(host, "screen-leave")
    assert link(host, "screen") == "page"
    sly = visit("lesson", room=code, step="1", screen="full")
    assert "screen-leave" not in keys(sly), "a student's link does not open the presenter's view"
    assert student.success


def test_the_switch_to_lead_shows_what_the_full_screen_did(served):
    host = press(visit("lesson", step="1"), "class-open")
    room = classroom.classroom().counts
    for led in (True, False):
        press(press(press(host, "screen-enter"), "screen-lead"), "screen-leave")
        assert host.toggle(key="class-lead").value == led == (room(link(host, "room")).lead is not None)
    for led in (True, False):
        host.toggle(key="class-lead").set_value(led).run()
        assert host.toggle(key="class-lead").value == led == (room(link(host, "room")).lead is not None)


def test_alone_the_full_screen_needs_no_class(served):
    app = visit("lesson", step="3", screen="full", shown="3")
    assert len(app.get("plotly_chart")) == 1 and "screen-leave" in keys(app)
    assert "vote-foot" not in said(app)
    odd = visit("lesson", step="1", screen="<b>")
    assert "Guess first" in said(odd)
