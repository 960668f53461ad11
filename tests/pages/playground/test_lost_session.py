"""A server that is started again has no session of an open page, and the page's next click says so."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.playground import prompt_session
from tests.pages.visit import ROOT, WAIT

PROMPTS = ("Patient:", "Re:", "Progress note for")


@pytest.fixture
def app(monkeypatch, leaky_workspace) -> AppTest:
    """Home after one answer."""
    monkeypatch.setenv("PHILAB_DATA", str(leaky_workspace))
    return ask(AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run(), PROMPTS[0])


def ask(app: AppTest, prompt: str) -> AppTest:
    app.pills(key="home_chips").set_value(prompt).run()
    assert not app.exception
    return app


def clicked_later(app: AppTest, prompt: str | None) -> AppTest:
    """A new session, whose first run gets what the open page holds, and this prompt if one was clicked."""
    if prompt is not None:
        app.pills(key="home_chips").set_value(prompt)
    held = app._tree.get_widget_states()
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)._run(held)


def says_so(app: AppTest) -> bool:
    assert not app.exception
    return [one.value for one in app.caption].count(prompt_session.GONE) == 1


def test_it_says_that_earlier_answers_are_gone_and_answers_the_prompt_that_was_clicked(app):
    assert not says_so(app)
    later = clicked_later(app, PROMPTS[1])
    assert says_so(later) and [one.prompt for one in later.session_state["tries"]] == [PROMPTS[1]]
    later.run()
    assert [one.prompt for one in later.session_state["tries"]] == [PROMPTS[1]], "it is asked once"
    assert later.pills(key="home_chips").value is None, "it can be clicked again"
    assert not says_so(ask(later, PROMPTS[2]))


def test_another_click_says_it_too(app):
    assert says_so(clicked_later(app, None).run())


@pytest.mark.parametrize("forgotten", [True, False])
def test_nothing_is_said_where_no_answer_was_shown(app, forgotten):
    if forgotten:
        app.session_state["tries"] = []
        app.run()
    else:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    assert not says_so(clicked_later(app, None))
