"""The three questions before and after the lesson: alone and in a class, and the picture of what a class learned."""

from __future__ import annotations

import pytest

from core.evaluation.stats.paired import Pairs
from pages.parts.lesson import learned
from pages.parts.lesson.questions import QUESTIONS, UNKNOWN
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER
from tests.pages.lesson.test_page_lesson import link, press, served
from tests.pages.visit import said, visit

__all__ = ["served"]  # the fixture
RIGHT = tuple(question.right for question in QUESTIONS)
WRONG = tuple(0 for _ in QUESTIONS)


def answer(app, when: str, chosen):
    for number, place in enumerate(chosen):
        press(app, f"quiz-{when}-{number}-{place}")
    return app


def to_the_end(app):
    while link(app, "step") != str(AFTER):
        press(app, "lesson-next")
    return app


def test_each_question_has_one_right_option_and_a_way_to_say_that_one_does_not_know():
    for question in QUESTIONS:
        assert len(set(question.options)) == len(question.options) and question.options[-1] == UNKNOWN
        assert question.options[question.right] != UNKNOWN and question.right != 0
    assert "can learn much about whether that patient was in the data" in QUESTIONS[0].why


def test_alone_one_sees_ones_own_answers_with_the_explanation_at_the_end(served):
    app = answer(visit("lesson"), "before", WRONG)
    assert "the same questions at the end" in said(app) and "Right:" not in said(app)
    assert link(app, "before") == "aaa"
    answer(to_the_end(app), "after", RIGHT)
    for question in QUESTIONS:
        right = question.options[question.right]
        assert f"You chose before: {question.options[0]}; after: {right} ✓. Right: **{right}**." in said(app)
        assert question.why in said(app)
    again = visit("lesson", step="6", before="aaa", after="b-z")
    assert "✓. Right:" not in said(again), "two are still open: a letter that names no option is none"
    assert again.session_state["quiz_after"] == {0: 1}


def test_alone_the_full_screen_ends_with_the_explanation_too(served):
    app = answer(visit("lesson", step="6", screen="full", before="aaa"), "after", RIGHT)
    assert "screen-leave" in {button.key for button in app.button}
    for question in QUESTIONS:
        assert f"You chose before: {question.options[0]}; after: {question.options[question.right]} ✓." in said(app)
        assert question.why in said(app)


def test_alone_back_takes_back_the_last_answer_and_in_a_class_the_first_answer_counts(served):
    app = answer(visit("lesson"), "before", (0, 1))
    press(app, "lesson-back")
    assert link(app, "before") == "a--" and "Question 2 of 3" in [one.value for one in app.caption]
    press(app, "quiz-before-1-2")
    assert link(app, "before") == "ac-"
    press(press(app, "lesson-back"), "lesson-back")
    assert "before" not in app.query_params and "Question 1 of 3" in [one.value for one in app.caption]
    assert next(button for button in app.button if button.key == "lesson-back").disabled
    host = press(visit("lesson"), "class-open")
    student = answer(visit("lesson", room=link(host, "room")), "before", (0,))
    assert next(button for button in student.button if button.key == "lesson-back").disabled


def test_who_has_seen_an_answer_is_not_asked_before_the_lesson_any_more(served):
    app = visit("lesson", step="0", guesses="a----", shown="1")
    assert not [button for button in app.button if button.key.startswith("quiz-")]
    assert "You have already seen an answer" in app.caption[0].value


def test_a_student_is_warned_that_next_skips_the_questions_still_open(served):
    host = press(visit("lesson"), "class-open")
    student = visit("lesson", room=link(host, "room"))

    def onward() -> str:
        return next(button.label for button in student.button if button.key == "lesson-next")

    assert onward() == "Skip to step 1"
    answer(student, "before", (0,))
    assert "Question 2 of 3" in [one.value for one in student.caption] and onward() == "Skip to step 1"
    press(student, "quiz-before-1-0")
    press(student, "quiz-before-2-0")
    assert onward() == "Next"
    press(student, "lesson-next")
    assert link(student, "step") == "1" and onward() == "Next"


def test_a_class_sees_what_it_learned_when_the_presenter_shows_it(served):
    host = press(visit("lesson"), "class-open")
    code = link(host, "room")
    students = [visit("lesson", room=code) for _ in range(2)]
    for student in students:
        answer(student, "before", WRONG)
    host.run()
    assert "2 answered all three questions" in said(host)
    for student in students:
        answer(to_the_end(student), "after", RIGHT)
        assert "Right:" not in said(student) and not student.get("plotly_chart")
    to_the_end(host)
    assert "right before" not in said(host)
    press(host, "lesson-show")
    told = "right before 0 of 2, after 2; 2 changed to the right answer, 0 away from it"
    assert told in said(host) and "Chance can explain that (exact McNemar test, p = 0.50)" in said(host)
    students[0].run()
    assert told in said(students[0]) and "You chose before:" in said(students[0])
    late = to_the_end(visit("lesson", room=code))
    assert not [button for button in late.button if button.key.startswith("quiz-")], "the answers are shown"
    assert len(classroom.classroom().counts(code).learned) == 2


def test_only_pairs_count_and_every_verdict_says_how_many_there_are():
    before, after = (0, 0, None), (QUESTIONS[0].right, None, 0)
    found = learned.tables([(before, after), ((RIGHT), (RIGHT))])
    assert found == [Pairs(1, 0, 1, 0), Pairs(1, 0, 0, 0), Pairs(1, 0, 0, 0)]
    assert "of 2" in learned.sentence(found[0])
    assert learned.sentence(found[1]).endswith("No answer changed between right and wrong.")
    assert learned.sentence(Pairs()) == "No one has answered this question both times."


@pytest.mark.parametrize(("gained", "claims"), [(6, False), (7, True)])
def test_three_questions_share_the_five_percent(gained, claims):
    """Six of six is p = 0.03: one question alone would claim it, three must not."""
    assert ("more than chance" in learned.sentence(Pairs(2, 0, gained, 2))) == claims


def test_a_change_for_the_worse_is_not_called_learning():
    told = learned.sentence(Pairs(0, 10, 0, 0))
    assert "0 changed to the right answer, 10 away from it" in told and "−100" in told


def test_the_chart_draws_each_share_with_its_interval():
    found = [Pairs(3, 1, 5, 2), Pairs(1, 0, 0, 0), Pairs()]
    figure = learned.chart(found)
    before, after = figure.data[-2:]
    assert list(before.x) == [4 / 11, 1.0] and list(after.x) == [8 / 11, 1.0]
    assert before.error_x.array[0] == pytest.approx(found[0].before.high - 4 / 11)
    assert after.error_x.arrayminus[1] == pytest.approx(1.0 - found[1].after.low) and found[1].after.low < 0.5


def test_an_interval_that_leaves_zero_out_is_not_shown_to_touch_it():
    """Seven of fourteen changed to the right answer, none away: p = 2/2⁷ < .05/3, and the interval begins at .46."""
    said = learned.sentence(Pairs(stayed_right=5, gained=7, lost=0, stayed_wrong=2)).replace("\u00a0", " ")
    assert "98.3 % interval of the difference: +0.5 to +7" in said and "more than chance explains" in said
