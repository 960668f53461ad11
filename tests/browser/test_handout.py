"""The handout: downloaded from the lesson, it prints on two pages of A4, and nothing on them is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from core.evaluation.teaching.handout import render
from tests.browser.served import WAIT, downloaded, settled
from tests.evaluation.teaching.test_pack import handout

PAPER = 182 / 25.4 * 96  # width of a page of A4 without its margins, in CSS pixels
OUTSIDE = """right => [...document.body.querySelectorAll("*")]
    .filter(one => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 0 && !one.closest("svg")
        || one.getBoundingClientRect().right > right + 1)
    .map(one => one.tagName + ": " + one.textContent.trim().slice(0, 60))"""


def pages_and_cut(tab: Page, file: Path) -> tuple[int, list[str]]:
    """How many pages a file prints on, and what lies outside of the paper or of its own box."""
    tab.set_viewport_size({"width": round(PAPER), "height": 1_000})
    tab.emulate_media(media="print")
    tab.goto(file.as_uri())
    cut = tab.evaluate(OUTSIDE, PAPER)
    printed = tab.pdf(prefer_css_page_size=True)
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)), cut


def test_the_lesson_offers_a_handout_of_two_pages(tab, server, tmp_path, shot):
    tab.goto(f"{server}/lesson")
    settled(tab)
    tab.get_by_text("Teaching pack", exact=False).click()
    button = tab.get_by_role("button", name=re.compile("Handout"))
    expect(button).to_be_visible(timeout=WAIT)
    file = tmp_path / "handout.html"
    downloaded(tab, button).save_as(file)
    text = file.read_text(encoding="utf-8")
    assert "What was measured" in text and "ε = 8 per note" in text
    for name in ("plan", "Exercises", "Key", "Notebook"):
        found = downloaded(tab, tab.get_by_role("button", name=re.compile(name)))
        assert found.path().stat().st_size > 1_000
    assert pages_and_cut(tab, file) == (2, [])
    shot(tab, "handout", full=True)


@pytest.mark.parametrize("epsilons", [1, 4, 10])
def test_handouts_of_small_and_large_sweeps_fit_two_pages(tab, tmp_path, epsilons):
    file = tmp_path / "handout.html"
    file.write_text(render(handout(epsilons)), encoding="utf-8")
    assert pages_and_cut(tab, file) == (2, [])


def test_what_is_cut_is_found(tab, tmp_path):
    file = tmp_path / "wide.html"
    page = render(handout()).replace("</body>", "<div style='width: 300mm'>wide</div>" + "<p>more</p>" * 90 + "</body>")
    file.write_text(page, encoding="utf-8")
    pages, cut = pages_and_cut(tab, file)
    assert pages > 2 and any(one.startswith("DIV: wide") for one in cut)
