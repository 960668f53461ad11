"""The Canaries page as a browser shows it: every view after its guess, wide and narrow."""

from __future__ import annotations

import shutil

import pytest
from playwright.sync_api import expect

from tests.browser.served import WAIT, fits, in_link, no_traceback, serving, settled
from tests.browser.test_deep_links import check
from tests.browser.test_screens import NARROW, WIDE, cut_texts

VIEWS = ("Copies", "Epochs", "Questions", "Guarantee", "Risk score")


@pytest.fixture(scope="module")
def canary_server(smoke_workspace, tmp_path_factory):
    """The app over runs whose cohort has canaries."""
    folder = tmp_path_factory.mktemp("canaries")
    shutil.copytree(smoke_workspace, folder / "data")
    with serving(folder / "data", folder / "log.txt") as address:
        yield address


def test_every_view_is_drawn_after_a_guess(tab, canary_server, shot):
    """Its first request after the start of the server is a deep link."""
    tab.goto(f"{canary_server}/canaries?view={VIEWS[0]}&guess=1")
    check(tab, "canaries")
    expect(tab.get_by_role("dialog")).to_have_count(0)  # Streamlit's “page not found”
    for view in VIEWS:
        tab.set_viewport_size(WIDE)
        settled(tab)
        if view != VIEWS[0]:
            tab.get_by_role("radio", name=view, exact=True).click()
            in_link(tab, rf"/canaries\?.*view={view.replace(' ', '.')}")
        expect(tab.get_by_text("Guess first.")).to_be_visible(timeout=WAIT)
        settled(tab)
        assert tab.locator(".main-svg").count() == 0
        tab.get_by_role("button", name="Show me").click()
        expect(tab.locator(".main-svg").first).to_be_visible(timeout=WAIT)
        settled(tab)
        shot(tab, f"canaries-{view.lower().replace(' ', '-')}")
        assert cut_texts(tab) == []
        tab.set_viewport_size(NARROW)
        shot(tab, f"canaries-{view.lower().replace(' ', '-')}-narrow")
        fits(tab, NARROW["width"])
        no_traceback(tab)
    tab.set_viewport_size(WIDE)
    tab.get_by_role("link", name="Home").first.click()
    check(tab, "")
