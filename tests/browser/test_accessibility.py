"""Every page by axe-core: contrast, names of controls, order of headings, tables; no violation of any grade."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from pages.parts.common import shell
from tests.browser.served import WAIT, settled

NAMES = ["" if name == "home" else name for name, *_ in shell._PAGES]
VIEWS = ["lesson?screen=full&step=2", "lesson?screen=full&step=3&shown=3", "lesson?step=6&before=aaa&after=bcd"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(chromium, server, scheme):
    page = chromium.new_page(viewport={"width": 1280, "height": 800}, color_scheme=scheme)
    page.set_default_timeout(WAIT)
    found = []
    for name in NAMES + VIEWS:
        page.goto(f"{server}/{name}")
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=WAIT)
        settled(page)
        for violation in Axe().run(page).response["violations"]:
            where = [node["html"][:160] for node in violation["nodes"]]
            found.append((name or "home", violation["impact"], violation["id"], where))
    page.close()
    assert found == []
