"""The switch “Guess first”: one for all pages, off by itself except in a class."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from pages.parts.session import classroom
from tests.pages.visit import WAIT, revealed, said, visit


def test_one_switch_holds_on_all_pages(data):
    app = visit("membership")
    assert "Guess first." not in said(app) and app.get("plotly_chart")
    app.toggle(key="guess-switch").set_value(True).run()
    assert "Guess first." in said(app) and not app.get("plotly_chart")
    assert app.query_params["guess"] == "1"
    app.switch_page("pages/canaries.py").run()
    assert not app.exception and app.toggle(key="guess-switch").value
    assert "Guess first." in said(app) and not app.get("plotly_chart")
    assert revealed(app).get("plotly_chart")
    app.toggle(key="guess-switch").set_value(False).run()
    app.switch_page("pages/membership.py").run()
    assert "Guess first." not in said(app) and app.get("plotly_chart")


def test_a_class_is_asked(data):
    room, _ = classroom.classroom().open()
    app = visit("membership", room=room)
    assert app.toggle(key="guess-switch").value and "Guess first." in said(app)
    assert "Guess first." not in said(visit("membership", room=room, guess="0")), "a link may say otherwise"


def test_a_guess_is_not_wiped_by_a_key_pressed_in_haste():
    def page():
        from pages.parts.common import guess

        guess.keep("k", "nobody")
        guess.keep("k", "")

    assert AppTest.from_function(page, default_timeout=WAIT).run().session_state["guessed_k"] == "nobody"
