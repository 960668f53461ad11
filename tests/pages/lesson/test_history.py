"""The lesson's place in the address: a link, and the browser's Back and Forward buttons."""

from __future__ import annotations

from tests.pages.lesson.test_page_lesson import guess, link, press, served
from tests.pages.visit import said, visit

__all__ = ["served"]  # the fixture


def test_the_back_button_goes_back_a_step_and_leaves_the_lesson_from_its_start(served):
    app = visit("lesson")
    assert "step" not in app.query_params, "an entry of the history that leads nowhere new"
    press(app, "lesson-next")
    guess(app, "up to 10 in 100")
    press(app, "lesson-next")
    address = dict(app.query_params)
    assert link(app, "step") == "2"
    app.query_params["step"] = "1"
    app.run()
    assert any(header.value.startswith("1. ") for header in app.header) and link(app, "step") == "1"
    assert app.session_state["guessed_lesson-1"] == "up to 10 in 100", "the class has counted it"
    for name in list(app.query_params):
        del app.query_params[name]
    app.run()
    assert any("before you start" in header.value for header in app.header)
    assert not dict(app.query_params), "a new entry would undo the button"
    app.query_params.update(address)
    app.run()
    assert any(header.value.startswith("2. ") for header in app.header), "the Forward button"
    press(app, "lesson-next")
    assert link(app, "step") == "3" and link(app, "guesses") == "b----"


def test_the_menus_link_continues_the_lesson(served):
    app = visit("lesson", step="3")
    app.query_params.clear()
    app.switch_page("pages/glossary.py").run()
    app.switch_page("pages/lesson.py").run()
    assert any(header.value.startswith("3. ") for header in app.header) and link(app, "step") == "3"


def test_a_link_restores_the_lesson_and_nonsense_in_it_is_passed_over(served):
    app = visit("lesson", step="2", guesses="bz", shown="1")
    assert app.session_state["guessed_lesson-1"] == "up to 10 in 100"
    assert "guessed_lesson-2" not in app.session_state
    assert any(header.value.startswith("2. ") for header in app.header)
    rude = visit("lesson", step="<b>", guesses="%<script>alert(1)</script>", shown="ééé", room="<img src=x>", round="x")
    assert any("before you start" in header.value for header in rude.header)
    assert "<img" not in said(rude) and "<script" not in said(rude)
    assert any("no class with that code" in warning.value for warning in rude.warning)
