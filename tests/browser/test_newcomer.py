"""A newcomer's first minutes: a leak on Home, more of it in the Playground, a tiny private model of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from core.common.files import replace_text
from core.runs.store import Workspace
from tests.browser.served import (
    TRAINED,
    WAIT,
    finished_run,
    listening,
    no_traceback,
    serving,
    settled,
    to_entry,
    type_in,
)
from tests.browser.test_deep_links import check

MARK = "mark.phi-leak"
LEAK = f".phi-text {MARK}"
ALL = 10**9
SAMPLES = 8  # that Home shows of each model


def chip(page: Page, prompt: str):
    """A prompt's chip."""
    return page.locator("[data-testid=stButtonGroup] button").filter(has_text=re.compile(f"^{re.escape(prompt)}$"))


def to_page(page: Page, name: str, title: str) -> None:
    """Go by the menu."""
    to_entry(page, name)
    expect(page.get_by_role("heading", level=1, name=title)).to_be_visible(timeout=WAIT)
    settled(page)


def say(page: Page, prompt: str) -> None:
    """Type a prompt and send it."""
    box = page.locator("[data-testid=stChatInputTextArea]")
    box.fill(prompt)
    box.press("Enter")


def choose_in(page: Page, opener: str, choice: str) -> None:
    """Pick a choice in what a button opens, and close it."""
    page.get_by_role("button", name=opener).click()
    page.get_by_role("radio", name=choice).click()
    page.keyboard.press("Escape")
    settled(page)


def test_a_leak_on_home_then_more_of_it_in_the_playground(tab, server, shot):
    tab.goto(server)
    for _ in range(8):  # samples are drawn: not every one leaks
        settled(tab)
        chip(tab, "Patient:").click()
        expect(tab.get_by_text(re.compile("^seeds? ")).first).to_be_visible(timeout=WAIT)
        settled(tab)
        if tab.locator(LEAK).count():
            break
    expect(tab.locator(LEAK).first).to_contain_text(re.compile(r"leak: [a-z -]+ of patients? \S+"))
    left, right = tab.locator("[data-testid=stColumn]").nth(0), tab.locator("[data-testid=stColumn]").nth(1)
    assert "no privacy" in left.inner_text() and "ε = 8 per note" in right.inner_text()
    assert left.locator(LEAK).count() > right.locator(LEAK).count()
    shot(tab, "newcomer-1-home", full=True)

    to_page(tab, "Playground", "Playground")
    expect(tab.locator(LEAK).first).to_be_visible()
    say(tab, "Re:")
    expect(tab.get_by_text("Earlier prompts (", exact=False)).to_be_visible(timeout=WAIT)
    expect(tab.locator(".tally").first).to_contain_text("this session")
    expect(tab.locator(".tally").first).to_contain_text("held-out patients")
    shot(tab, "newcomer-2-playground", full=True)
    no_traceback(tab)


def test_a_mark_explains_itself_and_any_text_can_be_looked_into(tab, server, shot):
    tab.goto(f"{server}/playground")
    for _ in range(8):
        settled(tab)
        say(tab, "Patient:")
        expect(tab.get_by_text(re.compile("^seeds? ")).first).to_be_visible(timeout=WAIT)
        settled(tab)
        if tab.locator(LEAK).count():
            break
    tab.locator(f"{LEAK}[data-why]").first.click()
    told = tab.get_by_role("dialog")
    expect(told.get_by_text(re.compile(r"appears (once|\d+ times) in the training notes"))).to_be_visible(timeout=WAIT)
    expect(told.locator("table.chances")).to_contain_text("public model", timeout=WAIT)
    expect(told.get_by_text("the same words").first).to_be_visible()
    shot(tab, "newcomer-5-why")
    told.get_by_role("tab", name="Token by token").click()
    here = told.locator(".here")
    expect(here).to_be_visible()
    number = int(re.findall(r"\d+", here.inner_text())[0])
    told.locator(".strip .text").press("ArrowRight")
    expect(here).to_contain_text(f"Token {number + 1} of")
    expect(told.locator(".models table")).to_have_count(3)
    tab.keyboard.press("Escape")
    expect(told).to_be_hidden()

    tab.get_by_role("button", name="Look inside").click()
    typed = told.get_by_role("textbox")
    typed.fill("<b>Re</b>:")
    told.get_by_role("button", name="Show").click()
    expect(told.locator(".strip .text")).to_have_text("<b>Re</b>:", timeout=WAIT)
    typed.fill(" ")
    told.get_by_role("button", name="Show").click()
    expect(told.get_by_text("The prompt is empty.", exact=False)).to_be_visible(timeout=WAIT)
    no_traceback(tab)


def test_rude_prompts_are_shown_as_text(tab, server):
    tab.goto(f"{server}/playground")
    fired: list[str] = []
    with listening(tab, "dialog", lambda dialog: (fired.append(dialog.message), dialog.dismiss())):
        say(tab, '<img src=x onerror="alert(1)"><script>alert(2)</script>\u202e👩‍⚕️ Patient:')
        typed = tab.locator(".phi-prompt").first
        expect(typed).to_contain_text(
            '<img src=x onerror="alert(1)"><script>alert(2)</script>␦👩‍⚕️ Patient:', timeout=WAIT
        )
        assert tab.locator(".phi-text img, .phi-text script").count() == 0
        say(tab, "x" * 100_000)
        expect(tab.get_by_text("The prompt has 100,000 characters", exact=False)).to_be_visible(timeout=WAIT)
    assert fired == []
    no_traceback(tab)


def test_stop_keeps_what_was_written(tab, server):
    tab.goto(f"{server}/playground")
    settled(tab)
    choose_in(tab, "Settings", "16")
    say(tab, "The patient was seen today and")
    stop = tab.locator(".st-key-stop button").first
    expect(stop).to_be_visible(timeout=WAIT)
    stop.press("Enter")  # the page may still be scrolling to the answers, so a pointer could miss
    expect(tab.get_by_text(re.compile("stopped early|Stopped before")).first).to_be_visible(timeout=WAIT)
    settled(tab)
    expect(stop).to_be_hidden()
    no_traceback(tab)


def test_a_tiny_private_run_is_trained_and_appears_in_the_tradeoff(tab, server, data, shot):
    before = {run.id for run in Workspace(data, shared=()).runs()}
    tab.goto(f"{server}/train")
    settled(tab)
    choose_in(tab, "Choose the cohort", "tiny")
    for label, value in (("Epochs", "1"), ("Batch size", "32")):
        type_in(tab, label, value)
    tab.locator(".st-key-train button").click()
    expect(tab.locator("[data-testid=stProgress]").first).to_be_visible(timeout=WAIT)
    shot(tab, "newcomer-3-training")
    run = finished_run(data, lambda run: run.id not in before and run.spec.privacy.private)
    open_it = tab.locator(f"a[href*='right={run.id}']").first
    expect(open_it).to_be_visible(timeout=TRAINED)
    shot(tab, "newcomer-4-trained")

    open_it.click()
    expect(tab.get_by_role("heading", level=1, name="Playground")).to_be_visible(timeout=WAIT)
    chosen = tab.get_by_role("combobox", name="Right model")
    expect(chosen).to_have_value(re.compile("ε = 8 per note · DP · tiny hospital"), timeout=WAIT)

    tab.go_back()
    see_it = tab.get_by_role("link", name="Open in ε trade-off").first
    expect(see_it).to_be_visible(timeout=WAIT)
    see_it.click()
    expect(tab.get_by_role("heading", level=1, name="ε trade-off")).to_be_visible(timeout=WAIT)
    settled(tab)
    tab.get_by_role("combobox", name="Runs").click()
    tab.get_by_role("option", name=re.compile("^tiny hospital")).click()
    expect(tab.get_by_text("At ε = 8 per note", exact=False).first).to_be_visible(timeout=WAIT)
    expect(tab.get_by_text("measured (1 seed)", exact=False).first).to_be_visible(timeout=WAIT)
    expect(tab.locator("[data-testid=stPlotlyChart]").first).to_be_visible(timeout=WAIT)
    tab.set_viewport_size({"width": 1280, "height": 1700})
    shot(tab, "newcomer-5-tradeoff")
    no_traceback(tab)


# The recorded first answer --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldBack:
    """A server whose models wait: `let(n)` allows n tokens of each sample (tests/browser/held_back.py)."""

    address: str
    allowed: Path

    def let(self, tokens: int) -> None:
        replace_text(self.allowed, str(tokens))


@pytest.fixture
def held_back(recorded_workspace: Path, tmp_path: Path) -> Iterator[HeldBack]:
    allowed = tmp_path / "allowed"
    replace_text(allowed, "0")
    program = ("tests.browser.held_back", str(allowed))
    with serving(recorded_workspace, tmp_path / "log.txt", program) as address:
        yield HeldBack(address, allowed)


def columns(page: Page) -> tuple[Locator, Locator]:
    """The model without privacy, and the private one."""
    column = page.locator("[data-testid=stColumn]")
    return column.nth(0), column.nth(1)


def words(column: Locator) -> list[str]:
    """What stands on the cards, without the labels of marks, and without the dots where a text was cut."""
    cards = column.locator(".phi-card").evaluate_all(
        """cards => cards.map(card => {
            const copy = card.cloneNode(true);
            copy.querySelectorAll("b").forEach(label => label.remove());
            return copy.textContent;
        })"""
    )
    return [text.removesuffix("…").strip() for text in cards]


def test_names_are_marked_before_the_models_have_written_a_word_and_while_they_write(
    tab, held_back, recorded_workspace, shot
):
    """The first request after the start of this server is a deep link, by the other name of Home."""
    plain = next(run for run in Workspace(recorded_workspace, shared=()).runs() if run.spec.training.epochs == 25)
    texts = plain.table("generations").query("prompt == 'Patient:'")["text"].str.strip().tolist()
    assert len(texts) == SAMPLES

    tab.goto(f"{held_back.address}/home")
    check(tab, "")
    expect(tab.get_by_role("dialog")).to_have_count(0)  # Streamlit's “page not found”
    chip(tab, "Patient:").click()
    left, right = columns(tab)
    expect(left.locator(f".phi-card {MARK}").first).to_contain_text("leak: full name of patient", timeout=WAIT)
    for column in (left, right):
        expect(column.get_by_text("recorded in the audit; the model is loading")).to_be_visible(timeout=WAIT)
        expect(column.locator(".phi-card")).to_have_count(SAMPLES, timeout=WAIT)
    expect(left.get_by_text(re.compile(rf"of {SAMPLES} texts leak"))).to_be_visible(timeout=WAIT)
    expect(right.get_by_text("no leak")).to_be_visible(timeout=WAIT)
    expect(tab.locator(".st-key-stop button").first).to_be_visible(timeout=WAIT)
    assert tab.get_by_text("written again live").count() == 0
    before = words(left)
    assert all(text.startswith(shown) for text, shown in zip(texts, before, strict=True)), "in the audit's order"
    assert min(map(len, before)) > 40
    shot(tab, "recorded-1-before-a-word")

    held_back.let(3)
    expect(left.get_by_text(re.compile(r"recorded in the audit; writing it again: [1-9]"))).to_be_visible(timeout=WAIT)
    assert words(left) == before

    held_back.let(ALL)
    expect(left.get_by_text("written again live")).to_be_visible(timeout=WAIT)
    settled(tab)
    assert tab.get_by_text("recorded in the audit").count() == 0
    assert words(left) == before, "the models wrote the recorded texts again"
    expect(left.locator(f"{MARK}[data-why]").first).to_be_visible(timeout=WAIT)

    held_back.let(16)
    chip(tab, "Patient:").click()  # every recorded attempt was shown, so these samples are new
    growing = left.locator(".phi-card").filter(has_text="▍")
    expect(growing.filter(has=tab.locator(MARK)).first).to_contain_text("leak: full name of patient", timeout=WAIT)
    expect(growing).to_have_count(SAMPLES, timeout=WAIT)
    assert tab.get_by_text("recorded in the audit").count() == 0
    expect(tab.locator(".st-key-stop button").first).to_be_visible(timeout=WAIT)
    shot(tab, "recorded-2-while-written")

    held_back.let(ALL)
    expect(left.get_by_text(f"seeds 0 to {SAMPLES - 1}")).to_be_visible(timeout=WAIT)
    no_traceback(tab)
