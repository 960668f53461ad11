"""No sentence of the former page, step, view or model stands under a new heading, not even while the page is drawn."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.served import WAIT, settled, to_entry

# Watches every change of the page until `stop`: which of the sentences from before are seen beside the new heading.
WATCH = """heading => {
    const sentences = () => [...document.querySelectorAll('[data-testid=stMain] :is(p, li, h2, h3, td)')]
        .filter(one => one.checkVisibility()).map(one => one.innerText.trim()).filter(text => text.length > 20);
    const before = new Set(sentences()), mixed = new Set();
    const look = () => {
        const headings = [...document.querySelectorAll('[data-testid=stMain] :is(h1, h2, h3)')];
        if (headings.some(one => one.checkVisibility() && one.innerText.includes(heading)))
            sentences().filter(text => before.has(text)).forEach(text => mixed.add(text));
    };
    const observer = new MutationObserver(look);
    observer.observe(document.body, {subtree: true, childList: true, characterData: true});
    window.stopped = () => {
        observer.disconnect();
        const now = new Set(sentences());  // what both have in common, such as the page's question
        return [...mixed].filter(text => !now.has(text));
    };
}"""


def left_over(page: Page, act: Callable[[], None], heading: str) -> list[str]:
    """The sentences from before `act` that were seen beside the new `heading` and belong to the old one alone."""
    settled(page)
    assert heading not in page.locator("[data-testid=stMain]").inner_text()
    page.evaluate(WATCH, heading)
    act()
    expect(page.get_by_role("heading", name=heading).first).to_be_visible(timeout=WAIT)
    settled(page)
    return page.evaluate("window.stopped()")


def test_another_page_begins_empty(tab, server):
    tab.goto(f"{server}/tradeoff")
    expect(tab.locator(".main-svg").first).to_be_visible(timeout=WAIT)
    assert left_over(tab, lambda: to_entry(tab, "Glossary"), "Glossary") == []
    assert left_over(tab, lambda: to_entry(tab, "Report"), "Report") == []


def test_another_step_of_the_lesson_begins_empty(tab, server):
    tab.goto(f"{server}/lesson")
    tab.get_by_role("button", name="Show me").click()
    expect(tab.locator(".main-svg").first).to_be_visible(timeout=WAIT)
    assert left_over(tab, lambda: tab.get_by_role("button", name="Next").click(), "2. ") == []


def test_another_patient_begins_empty(tab, server):
    tab.goto(f"{server}/patients?patient=P0001")
    expect(tab.get_by_role("heading", name="Patient P0001")).to_be_visible(timeout=WAIT)
    box = tab.get_by_label("Patient", exact=True)

    def ask() -> None:
        box.fill("P0002")
        box.press("Enter")

    assert left_over(tab, ask, "Patient P0002") == []
