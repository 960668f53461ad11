"""Home's first answer: recorded attempts are shown with their leaks marked before the models have written a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from core.common.files import replace_text
from core.runs.store import Workspace
from pages.home import SAMPLES
from tests.browser.served import WAIT, no_traceback, serving, settled

ALL = 10**9
LEAK = "mark.phi-leak"


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


def ask(page: Page) -> None:
    page.locator("[data-testid=stButtonGroup] button").filter(has_text=re.compile("^Patient:$")).click()


def test_marked_names_are_there_before_the_models_have_written_a_word(tab, held_back, recorded_workspace, shot):
    plain = next(run for run in Workspace(recorded_workspace, shared=()).runs() if run.spec.training.epochs == 25)
    texts = plain.table("generations").query("prompt == 'Patient:'")["text"].str.strip().tolist()
    assert len(texts) == SAMPLES

    tab.goto(held_back.address)
    settled(tab)
    ask(tab)
    left, right = columns(tab)
    expect(left.locator(f".phi-card {LEAK}").first).to_contain_text("leak: full name of patient", timeout=WAIT)
    for column in (left, right):
        expect(column.get_by_text("recorded; the model is loading")).to_be_visible(timeout=WAIT)
        expect(column.locator(".phi-card")).to_have_count(SAMPLES, timeout=WAIT)
    expect(left.get_by_text(re.compile(rf"of {SAMPLES} samples leak"))).to_be_visible(timeout=WAIT)
    expect(right.get_by_text("no leak")).to_be_visible(timeout=WAIT)
    expect(tab.locator(".st-key-stop button").first).to_be_visible(timeout=WAIT)
    assert tab.get_by_text("written live").count() == 0
    before = words(left)
    assert all(text.startswith(shown) for text, shown in zip(texts, before, strict=True)), "in the audit's order"
    assert min(map(len, before)) > 40
    shot(tab, "recorded-1-before-a-word")

    held_back.let(3)
    expect(left.get_by_text(re.compile(r"recorded; live again: [1-9]"))).to_be_visible(timeout=WAIT)
    assert words(left) == before

    held_back.let(ALL)
    expect(left.get_by_text("written live, with the audit's seeds")).to_be_visible(timeout=WAIT)
    settled(tab)
    assert tab.get_by_text("recorded;").count() == 0
    assert words(left) == before, "the models wrote the recorded texts again"
    expect(left.locator(f"{LEAK}[data-why]").first).to_be_visible(timeout=WAIT)
    no_traceback(tab)


def test_names_are_marked_while_a_new_answer_is_written(tab, held_back, shot):
    held_back.let(ALL)
    tab.goto(held_back.address)
    settled(tab)
    ask(tab)
    left, _ = columns(tab)
    expect(left.get_by_text("written live, with the audit's seeds")).to_be_visible(timeout=WAIT)
    settled(tab)

    held_back.let(16)
    ask(tab)  # every recorded attempt was shown, so these samples are new
    expect(left.locator(f".phi-card {LEAK}").first).to_be_visible(timeout=WAIT)
    assert tab.get_by_text("recorded;").count() == 0
    expect(left.locator(".phi-card").first).to_contain_text("▍", timeout=WAIT)
    expect(tab.locator(".st-key-stop button").first).to_be_visible(timeout=WAIT)
    shot(tab, "recorded-2-while-written")

    held_back.let(ALL)
    expect(left.get_by_text(f"seeds 0 to {SAMPLES - 1}")).to_be_visible(timeout=WAIT)
    no_traceback(tab)
