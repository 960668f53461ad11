"""What stands in a page's link."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from tests.pages.visit import WAIT, visit


def _two_views() -> None:
    import streamlit as st

    from pages.parts.common.query_params import KEEP, drop_unless_offered

    drop_unless_offered("view", ("one", "two"))
    st.segmented_control("View", ("one", "two"), default="one", required=True, key="view", **KEEP)


@pytest.mark.parametrize(
    ("left_behind", "shown", "linked"), [("All attacks", "one", False), ("two", "two", True)], ids=["unknown", "known"]
)
def test_what_another_page_left_behind_is_dropped_from_the_session_and_the_link(left_behind, shown, linked):
    app = AppTest.from_function(_two_views, default_timeout=WAIT)
    app.session_state["view"] = app.query_params["view"] = left_behind
    app.run()
    assert not app.exception and app.session_state["view"] == shown
    assert ("view" in app.query_params) == linked


def test_a_page_begins_with_its_own_first_view_after_another_page(data):
    app = visit("membership", view="All attacks")
    assert app.session_state["view"] == "All attacks"
    del app.query_params["view"]
    app.switch_page("pages/canaries.py").run()
    assert not app.exception and app.session_state["view"] == "Copies"
