"""The lesson's other views: full screen for a projector, and voting on a phone."""

from __future__ import annotations

from tests.pages.lesson.test_page_lesson import bars, guess, link, press, served
from tests.pages.visit import said, visit

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
    assert any("The class does not follow you" in caption.value for caption in host.caption)
    host.toggle(key="class-lead").set_value(True).run()
    assert not any("The class does not follow you" in caption.value for caption in host.caption)
    student.run()
    assert "lesson-show" not in keys(student) and "lesson-next" not in keys(student)
    assert any("when the presenter shows them" in one.value for one in student.caption)
    press(host, "screen-enter")
    press(host, "lesson-show")
    student.run()
    assert "You voted “nobody”" in said(student) and "more than half ✓" in bars(student)
    guess(late, "up to 10 in 100")  # its button was still on the screen
    assert "<td>up to 10 in 100</td><td><i style='width:0%'></i></td><td>0</td>" in bars(late)


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


def test_alone_the_full_screen_needs_no_class(served):
    app = visit("lesson", step="3", screen="full", shown="3")
    assert len(app.get("plotly_chart")) == 1 and "screen-leave" in keys(app)
    assert "vote-foot" not in said(app)
    odd = visit("lesson", step="1", screen="<b>")
    assert "Guess first" in said(odd)
