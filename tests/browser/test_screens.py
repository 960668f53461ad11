"""Pages as a browser shows them: clicks on charts, every view, light, dark and narrow, and nothing left of the last."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.served import (
    WAIT,
    click_at,
    comes_true,
    fits,
    in_link,
    no_traceback,
    place_in,
    settled,
    to_entry,
    type_in,
)
from tests.browser.test_accessibility import BACKGROUNDS

NARROW = {"width": 420, "height": 900}
WIDE = {"width": 1280, "height": 1400}


def cut_texts(page) -> list[str]:
    """Labels of charts that reach beyond their chart."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.main-svg')].flatMap(svg => {
            const box = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => {
                const own = text.getBoundingClientRect();
                return own.width && (own.left < box.left - 2 || own.right > box.right + 2);
            }).map(text => text.textContent);
        })"""
    )


def keep_wide_and_narrow(page, shot, name: str) -> None:
    """Screenshots at both widths; nothing is cut off in the one, nothing scrolls sideways in the other."""
    shot(page, name)
    comes_true(page, lambda: cut_texts(page) == [], "labels are cut off")
    page.set_viewport_size(NARROW)
    shot(page, f"{name}-narrow")
    fits(page, NARROW["width"])
    no_traceback(page)


def keep_in_light_and_dark(page, shot, name: str) -> None:
    """The same in each colour scheme, which an open page follows."""
    for scheme, background in BACKGROUNDS.items():
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme=scheme)
        expect(page.get_by_test_id("stApp")).to_have_css("background-color", background, timeout=WAIT)
        settled(page)
        keep_wide_and_narrow(page, shot, f"{name}-{scheme}")


def with_charts(page, address: str) -> None:
    """Open a page and wait until its charts are drawn."""
    page.goto(address)
    expect(page.locator(".main-svg").first).to_be_visible(timeout=WAIT)
    settled(page)


def test_every_view_of_a_cohort(tab, server, shot):
    tab.goto(f"{server}/cohort?cohort=tiny")
    for view in ("Notes", "Fields", "Codes", "Lengths", "Canaries", "Download"):
        tab.set_viewport_size(WIDE)
        tab.get_by_role("tab", name=view).click()
        expect(tab.get_by_role("tabpanel", name=view)).to_be_visible(timeout=WAIT)
        settled(tab)
        if view in ("Fields", "Codes", "Lengths"):
            expect(tab.get_by_role("tabpanel", name=view).locator(".main-svg").first).to_be_visible(timeout=WAIT)
        keep_wide_and_narrow(tab, shot, f"cohort-{view.lower()}")


def test_on_a_phone_the_knobs_are_in_a_fold_above_the_answer(tab, server):
    tab.set_viewport_size(NARROW)
    with_charts(tab, f"{server}/report")
    fold, knob = tab.locator(".knobs-fold > summary"), tab.get_by_text("Main model", exact=True)
    expect(knob).to_be_hidden()
    boxes = [one.bounding_box() for one in (fold, tab.locator(".main-svg").first)]
    assert boxes[0] and boxes[1] and boxes[0]["y"] + boxes[0]["height"] < boxes[1]["y"]
    fold.click()
    expect(knob).to_be_visible()
    tab.set_viewport_size(WIDE)
    expect(fold).to_be_hidden()
    expect(knob).to_be_visible()


@pytest.mark.parametrize("touch", [True, False])
def test_keys_are_named_on_buttons_where_there_is_a_keyboard(browsers, server, touch):
    page = browsers(390, 844, phone=touch)
    page.goto(f"{server}/lesson?step=1")
    button = page.get_by_role("button", name="Next").first
    expect(button).to_be_visible(timeout=WAIT)
    expect(button.locator("kbd")).to_be_visible(visible=not touch)


def test_with_letters_twice_as_large_the_counts_stay_in_their_columns(tab, server):
    """The first columns of the counts do not wrap where a column has room: it is measured in letters, not in pixels."""
    tab.goto(f"{server}/playground")
    expect(tab.locator(".tally").last).to_be_visible(timeout=WAIT)
    tab.evaluate("document.documentElement.style.fontSize = '200%'")
    beyond = "[...document.querySelectorAll('.tally')].map(one => one.offsetWidth - one.parentElement.clientWidth)"
    assert all(pixels <= 0 for pixels in tab.evaluate(beyond))


def test_the_hospital_chosen_on_cohort_is_the_one_train_uses(tab, server):
    tab.goto(f"{server}/cohort")
    tab.get_by_role("radio", name="tiny").click()
    settled(tab)
    tab.get_by_role("link", name="Train a model on this cohort").click()
    expect(tab.get_by_role("heading", level=1, name="Train")).to_be_visible(timeout=WAIT)
    expect(tab.get_by_text("24 patients (70 % members")).to_be_visible(timeout=WAIT)
    in_link(tab, "cohort=tiny")


def test_what_training_will_cost_is_drawn_before_it(tab, server, shot):
    with_charts(tab, f"{server}/train?cohort=tiny&epsilon=2")
    expect(tab.get_by_text("computed by PRV")).to_be_visible(timeout=WAIT)
    keep_in_light_and_dark(tab, shot, "train-cost")


def test_the_pair_of_charts(tab, server, shot):
    with_charts(tab, f"{server}/tradeoff?at=∞&risk=AUC of the loss attack")
    keep_in_light_and_dark(tab, shot, "tradeoff-auc")


def test_a_click_on_a_marker_moves_the_slider_the_sentence_and_the_texts(tab, server):
    tab.set_viewport_size(WIDE)
    tab.goto(f"{server}/tradeoff?at=∞")
    before = tab.get_by_text("Trained without privacy", exact=False)
    expect(before).to_be_visible(timeout=WAIT)
    expect(tab.locator(".phi-text")).to_have_count(2, timeout=WAIT)  # the public base and the unconstrained model
    markers = tab.locator(".scatterlayer .points path.point")
    expect(markers.first).to_be_visible(timeout=WAIT)
    click_at(tab, lambda: place_in(markers.first), lambda time: expect(before).to_have_count(0, timeout=time))
    expect(tab.locator(".phi-text")).to_have_count(3, timeout=WAIT)
    expect(tab.get_by_text("measured (", exact=False).first).to_be_visible(timeout=WAIT)
    no_traceback(tab)


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


def test_on_a_phone_slider_chart_and_sentences_follow_each_other_and_another_page_begins_empty(tab, server):
    tab.set_viewport_size(NARROW)
    with_charts(tab, f"{server}/tradeoff")
    said, drawn = (tab.locator(f".st-key-at-epsilon-{part}") for part in ("said", "drawn"))
    order = (tab.locator(".st-key-at-epsilon"), tab.locator(".main-svg").first, said, drawn)

    def tops() -> list[float]:
        return [box["y"] for one in order if (box := one.bounding_box())]

    assert len(tops()) == 4 and tops() == sorted(tops())
    tab.set_viewport_size(WIDE)
    settled(tab)
    slider, chart, *others = tops()
    assert abs(slider - chart) < 20, "the chart is beside the slider"
    assert others == sorted(others, reverse=True), "what is drawn is chosen between the slider and the sentences"

    assert left_over(tab, lambda: to_entry(tab, "Glossary"), "Glossary") == []
    assert left_over(tab, lambda: to_entry(tab, "Be the auditor"), "Be the auditor") == []


def test_another_step_of_the_lesson_begins_empty(tab, server):
    tab.goto(f"{server}/lesson?step=1")
    tab.get_by_role("button", name="Show me").click()
    expect(tab.locator(".main-svg").first).to_be_visible(timeout=WAIT)
    assert left_over(tab, lambda: tab.get_by_role("button", name="Next").click(), "2. ") == []


def test_a_table_offers_no_download_of_its_own_and_another_patient_begins_empty(tab, server):
    tab.goto(f"{server}/patients")
    table = tab.get_by_test_id("stDataFrame").last
    expect(table).to_be_visible(timeout=WAIT)
    settled(tab)
    table.hover()
    expect(tab.get_by_role("button", name="Search:").last).to_be_visible(timeout=WAIT)
    expect(tab.get_by_role("button", name="Download as CSV:").last).to_be_hidden()
    expect(tab.get_by_role("button", name="Download as CSV", exact=True).last).to_be_visible()

    type_in(tab, "Patient", "P0001")
    expect(tab.get_by_role("heading", name="Patient P0001")).to_be_visible(timeout=WAIT)
    box = tab.get_by_label("Patient", exact=True)

    def ask() -> None:
        box.fill("P0002")
        box.press("Enter")

    assert left_over(tab, ask, "Patient P0002") == []


def test_the_knobs_of_a_step_go_back_in_the_browser_too(tab, server):
    tab.goto(f"{server}/step")
    sigma = tab.get_by_role("slider", name="Noise multiplier σ")
    expect(sigma).to_be_visible(timeout=WAIT)
    settled(tab)
    own = sigma.get_attribute("aria-valuetext")
    sigma.focus()
    tab.keyboard.press("End")
    expect(sigma).not_to_have_attribute("aria-valuetext", own, timeout=WAIT)
    settled(tab)
    for name in ("Reset", "Draw new noise"):  # the browser sends what it shows with the second click
        tab.get_by_role("button", name=name).click()
        settled(tab)
        expect(sigma).to_have_attribute("aria-valuetext", own, timeout=WAIT)
