"""axe-core finds no violation of any grade: contrast, names of controls, order of headings, tables.

Each page is looked at where it is opened anyway, in tests/browser/test_deep_links.py; here are views of the lesson.
"""

from __future__ import annotations

from collections.abc import Sequence

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.served import WAIT, settled, styled, to_entry

BACKGROUNDS = {"dark": "rgb(16, 22, 29)", "light": "rgb(255, 255, 255)"}  # by colour scheme
STILL = "*, *::before, *::after { transition: none !important; } [data-stale=true] { opacity: 1 !important; }"
OF_COLOURS = ("color-contrast", "link-in-text-block")  # the rules whose answer another colour scheme can change
VIEWS = ["lesson?screen=full&step=2", "lesson?screen=full&step=3&shown=3", "lesson?step=6&before=aaa&after=bcd"]


def violations(page: Page, rules: Sequence[str] | None = None) -> list[tuple[str, str, list[str]]]:
    """(impact, rule, beginnings of the elements) of what axe-core finds on a page that is drawn, by all rules or these.

    axe-core judges what it sees at that moment. So colours that are still on their way to others go to their ends
    first, what is drawn again is waited for, and parts that are drawn again every few seconds do not turn pale.
    """
    expect(page.locator("[data-stale=true]")).to_have_count(0, timeout=WAIT)
    page.add_style_tag(content=STILL)
    # Of what is right it names one element, not all: to find words for each of them costs more than to judge it.
    options = {"resultTypes": ["violations"]} | ({} if rules is None else {"runOnly": list(rules)})
    found = Axe().run(page, options=options).response["violations"]
    return [(one["impact"], one["id"], [node["html"][:160] for node in one["nodes"]]) for one in found]


def test_what_is_wrong_is_found(tab):
    tab.set_content("<html lang='en'><title>A picture</title><img src='data:,'></html>")
    assert "image-alt" in [rule for _, rule, _ in violations(tab)]


def test_a_colour_on_its_way_is_judged_by_its_end(tab):
    tab.set_content(
        "<html lang='en'><title>A title</title><style>p { color: silver; transition: color 1000s }</style>"
        "<body style='background: white'><main><h1>A heading</h1><p>Words</p></main>"
    )
    tab.evaluate(
        "getComputedStyle(document.querySelector('p')).color; document.querySelector('p').style.color = 'black'"
    )
    assert tab.evaluate("getComputedStyle(document.querySelector('p')).color") == "rgb(192, 192, 192)"
    assert violations(tab) == []


def test_what_is_drawn_again_meanwhile_is_judged_as_if_it_were_not(tab):
    tab.set_content(
        "<html lang='en'><title>A title</title><style>[data-stale=true] { opacity: 0.3; transition: opacity 1s}</style>"
        "<body style='background: white'><main><h1>A heading</h1><p>Words</p></main>"
    )
    tab.evaluate(
        "new MutationObserver(() => { document.querySelector('p').dataset.stale = true })"
        ".observe(document.head, { childList: true })"
    )
    assert violations(tab) == []
    assert tab.locator("p[data-stale=true]").count() == 1


def test_axe_finds_nothing_on_any_view_of_the_lesson(tab, server):
    found = []
    for view in VIEWS:
        tab.goto(f"{server}/{view}")
        expect(tab.get_by_role("heading", level=1)).to_be_visible(timeout=WAIT)
        settled(tab)
        styled(tab)
        for rules, (scheme, background) in zip((None, OF_COLOURS), BACKGROUNDS.items(), strict=True):
            tab.emulate_media(color_scheme=scheme)
            expect(tab.get_by_test_id("stApp")).to_have_css("background-color", background, timeout=WAIT)
            settled(tab)
            found += [(view, scheme, *one) for one in violations(tab, rules)]
    assert found == []


def test_popovers_have_the_colours_of_the_theme(tab, server):
    """Streamlit draws them beside the app, where `light-dark()` knows only the colour scheme of the document."""
    for scheme, colour in (("dark", "rgb(124, 196, 240)"), ("light", "rgb(0, 100, 156)")):
        tab.emulate_media(color_scheme=scheme)
        tab.goto(f"{server}/train")
        tab.get_by_role("button", name="Choose the cohort").click(timeout=WAIT)
        chosen = tab.get_by_test_id("stPopoverBody").locator("[aria-checked=true] p").first
        expect(chosen).to_have_css("color", colour, timeout=WAIT)


def without_a_ring(page: Page, presses: int) -> list[str]:
    """What `presses` of Tab reach that has no outline, nor has what it is in; but the page, which only scrolls."""
    found = []
    for _ in range(presses):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
                const focused = document.activeElement;
                for (let part = focused; part; part = part.parentElement)
                    if (getComputedStyle(part).outlineStyle === 'solid') return null;
                return focused.matches("body, main") ? null : focused.outerHTML.slice(0, 160);
            }"""
        )
        if seen:
            found.append(seen)
    return found


def test_what_the_keyboard_reaches_has_a_ring(tab, server):
    for link, title in (
        ("cohort?cohort=tiny", "Cohort"),
        ("", "Membership"),
        ("tradeoff?look=measured", "ε trade-off"),
    ):
        if link:
            tab.goto(f"{server}/{link}")
        else:
            to_entry(tab, title)
        expect(tab.get_by_role("heading", level=1, name=title)).to_be_visible(timeout=WAIT)
        settled(tab)
        styled(tab)
        assert without_a_ring(tab, 30) == [], title
    to_entry(tab, "Playground")
    expect(tab.get_by_role("heading", level=1, name="Playground")).to_be_visible(timeout=WAIT)
    settled(tab)  # a popover of a page that is still drawn may close again
    tab.get_by_role("button", name="Settings").click(timeout=WAIT)
    expect(tab.get_by_test_id("stPopoverBody")).to_be_visible(timeout=WAIT)
    settled(tab)
    assert without_a_ring(tab, 8) == [], "in a popover"
