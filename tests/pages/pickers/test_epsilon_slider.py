"""Sliders over ε read as sentences do, and their links keep plain numbers."""

from __future__ import annotations

import math

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest

from pages.parts.pickers import linked_choice
from pages.parts.pickers.epsilon_slider import epsilon_key
from tests.pages.visit import WAIT


def _page() -> None:
    import math

    import streamlit as st

    from pages.parts.pickers.epsilon_slider import epsilon_key, pick

    options = {epsilon_key(epsilon): epsilon for epsilon in (8.0, 30.0, 1000.0, math.inf)}
    st.text(pick("ε", "epsilon", options, "8"))


def opened(**link: str) -> AppTest:
    app = AppTest.from_function(_page, default_timeout=WAIT)
    for name, value in link.items():
        app.query_params[name] = value
    return app.run()


def test_a_key_is_a_plain_number():
    assert [epsilon_key(one) for one in (0.5, 8.0, 1000.0, math.inf)] == ["0.5", "8", "1000", "∞"]


def test_it_reads_as_a_sentence_and_its_link_is_a_number():
    app = opened(epsilon="1000")
    slider = app.select_slider(key="epsilon")
    assert slider.options == ["8", "30", "1,000", "∞"] and slider.value == app.text[0].value == "1000"
    slider.set_value("30").run()
    assert not app.exception and app.text[0].value == "30" and "30" in app.query_params["epsilon"]
    app.query_params["epsilon"] = "1000"  # by the Back button
    assert app.run().text[0].value == "1000"


def test_back_to_a_link_without_the_choice_undoes_it(monkeypatch):
    app = opened()
    app.select_slider(key="epsilon").set_value("30").run()
    assert app.text[0].value == "30" and "epsilon" in app.query_params
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    del app.query_params["epsilon"]
    assert app.run().text[0].value == app.select_slider(key="epsilon").value == "8"
    app.query_params["epsilon"] = "30"  # by the Forward button
    assert app.run().text[0].value == "30"
    monkeypatch.undo()
    del app.query_params["epsilon"]
    assert app.run().text[0].value == "30", "the menu's link keeps the choice"


def test_without_a_link_or_with_one_that_it_lacks_it_starts_where_it_is_told():
    assert opened().text[0].value == opened(epsilon="7").text[0].value == "8"


@pytest.mark.parametrize("link", [{"epsilon": "30"}, {"epsilon": "1000"}])
def test_every_run_tells_a_browser_that_has_not_drawn_it_yet_where_it_starts(link):
    app = opened(**link)
    start = app.text[0].value
    app._run(WidgetStates())  # such a browser asks for another run and names no widget
    slider = app.select_slider(key="epsilon")
    assert app.text[0].value == slider.value == start and slider.proto.set_value
