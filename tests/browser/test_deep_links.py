"""A link straight to a page works, and looks right in light and dark.

That it works on a server that has not drawn anything yet is tested where other tests start one: a page in
tests/browser/test_canaries_page.py, and the alias of Home in tests/browser/test_newcomer.py.

Every page is accessible in both: axe-core finds no violation of any grade. No page asks another server for anything.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from pages.parts.common import shell
from tests.browser.served import WAIT, click_at, fits, listening, no_traceback, place_in, settled, styled
from tests.browser.test_accessibility import BACKGROUNDS, OF_COLOURS, violations

TITLES = {name: title for name, title, _, _ in shell._PAGES}  # a page that is added is tested too
INSIDE = {name for names in shell._SECTIONS.values() for name in names}
ALONE = [title for name, title in TITLES.items() if name not in INSIDE]
PAGES = {"" if path == "home" else path: title for path, title, _, _ in shell._PAGES} | {"": "PHI Leak Lab"}


def check(page, path: str) -> None:
    """Title, the menu, the note on synthetic patients, and no traceback."""
    expect(page.get_by_role("heading", level=1, name=PAGES[path])).to_be_visible(timeout=WAIT)
    settled(page)
    styled(page)
    links = page.locator("[data-testid=stTopNavLink]")
    expect(links).to_have_count(len(ALONE), timeout=WAIT)
    assert [name.split("\n")[-1] for name in links.all_inner_texts()] == ALONE
    assert page.locator("[data-testid=stTopNavSection]").all_inner_texts() == list(shell._SECTIONS)
    expect(page.get_by_text("Synthetic patients: no real people").first).to_be_visible()
    assert page.url.split("?")[0].rstrip("/").endswith(path)
    no_traceback(page)


def test_every_page_stands_in_the_menu(tab, server):
    tab.goto(server)
    check(tab, "")
    for section, names in shell._SECTIONS.items():
        tab.locator("[data-testid=stTopNavSection]").filter(has_text=section).click()
        inside = tab.locator("[data-testid=stTopNavDropdownLink]")
        shown = [TITLES[name] for name in names if name in TITLES]
        expect(inside).to_have_count(len(shown))
        assert [name.split("\n")[-1] for name in inside.all_inner_texts()] == shown
        tab.keyboard.press("Escape")
        expect(inside).to_have_count(0)


def test_the_back_button_goes_back_through_the_lesson(tab, server):
    heading = tab.get_by_role("heading", level=2)
    tab.goto(f"{server}/lesson")
    expect(heading.first).to_have_text("Three questions before you start", timeout=WAIT)
    for place in ("1.", "2."):
        tab.get_by_role("button", name="Next").first.click()
        expect(heading.first).to_contain_text(place, timeout=WAIT)
        tab.wait_for_url(f"**/lesson?step={place[0]}")
    tab.go_back()
    expect(heading.first).to_contain_text("1.", timeout=WAIT)
    tab.go_back()
    expect(heading.first).to_have_text("Three questions before you start", timeout=WAIT)
    assert tab.url.endswith("/lesson")


@pytest.mark.parametrize("path", PAGES)
def test_every_page_opens_by_its_link_in_light_and_dark_and_narrow(tab, server, shot, path):
    tab.emulate_media(color_scheme="dark")
    asked: list[str] = []
    with listening(tab, "request", lambda request: asked.append(request.url)):
        tab.goto(f"{server}/{path}")
        check(tab, path)
        for rules, (theme, background) in zip((None, OF_COLOURS), BACKGROUNDS.items(), strict=True):
            tab.emulate_media(color_scheme=theme)  # an open page follows: all colours are as if it were opened so
            expect(tab.get_by_test_id("stApp")).to_have_css("background-color", background, timeout=WAIT)
            settled(tab)
            assert [(theme, *one) for one in violations(tab, rules)] == []
            shot(tab, f"{path or 'home'}-{theme}", full=True)
        tab.set_viewport_size({"width": 420, "height": 860})
        expect(tab.get_by_role("heading", level=1, name=PAGES[path])).to_be_visible()
        shot(tab, f"{path or 'home'}-narrow")
        fits(tab, 420)
        no_traceback(tab)
    own = (server, server.replace("http", "ws"), "data:", "blob:")
    assert asked and [url for url in asked if not url.startswith(own)] == []


def test_a_tile_opens_its_claim_and_the_link_says_so(tab, server):
    tab.goto(f"{server}/findings?claim=P-c1")
    settled(tab)
    tiles = tab.locator(".js-plotly-plot").first
    expect(tiles.locator(".bars .point").first).to_be_visible(timeout=WAIT)
    expect(tab.get_by_role("heading", level=2).first).to_be_in_viewport(timeout=WAIT)  # the link's claim
    first = tiles.locator(".bars .point").first
    first.scroll_into_view_if_needed()
    other = re.compile("claim=P-c1")
    click_at(tab, lambda: place_in(first), lambda time: expect(tab).not_to_have_url(other, timeout=time))
    opened = re.search(r"claim=([\w-]+)", tab.url).group(1)
    title = tab.get_by_role("heading", level=2).first
    expect(title).to_have_text(re.compile(f"^{opened}: "))
    expect(title).to_be_in_viewport(timeout=WAIT)


def test_a_tap_opens_the_tile_that_was_tapped(browsers, server):
    """Plotly chooses what the pointer was over before a click, and a finger was over nothing, or the tile before."""
    page = browsers(390, 844, phone=True)
    page.goto(f"{server}/findings")
    settled(page)
    tiles = page.locator(".js-plotly-plot").first
    for number in (2, 5, 8):
        tile = tiles.locator(".bars .points").first.locator(".point").nth(number)
        expect(tile).to_be_visible(timeout=WAIT)
        page.get_by_test_id("stMain").evaluate("main => main.scrollTo(0, 0)")
        page.wait_for_timeout(500)
        box = tile.bounding_box()
        # Asked before the tap, after which the picture is drawn again.
        claim = tiles.evaluate("(figure, number) => figure.data[0].customdata[number][0]", number)
        page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(page).to_have_url(re.compile(f"claim={claim}$"), timeout=WAIT)
        settled(page)
