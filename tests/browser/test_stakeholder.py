"""A stakeholder's way: an ε and its odds, limits of their own, a recommendation, a report to sign, and a release."""

from __future__ import annotations

import contextlib
import re
import shutil
from datetime import date
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, TimeoutError, expect

from core.evaluation import registry
from core.evaluation.report.decision import Approver, Decision
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.phi.fields import HIPAA_IDENTIFIERS
from core.runs.run import PRIVACY_FILE, read_privacy
from core.runs.store import DEMO, Workspace
from tests.browser.paper.on_paper import broken_words, printed_whole
from tests.browser.paper.read_pdf import page_of, read
from tests.browser.served import WAIT, downloaded, no_traceback, serving, settled, to_entry, type_in

LIMITS = "limit_auc_strongest=1.0&limit_full_name_patients_excess=100&utility=0"  # what ε = 8 of two epochs can meet
USE = "Sepsis <b>research</b> 🩺"
# Every text whose contrast with what lies behind it is below WCAG's 4.5 : 1 (3 : 1 where letters are large).
TOO_FAINT = """() => {
    const pixel = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const read = css => {
        pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = css; pixel.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, ground) => [0, 1, 2].map(i => top[i] * top[3] + ground[i] * (1 - top[3])).concat([1]);
    const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const light = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
    const behind = element => {
        const layers = [];
        for (let at = element; at; at = at.parentElement) {
            const colour = read(getComputedStyle(at).backgroundColor);
            if (colour[3] > 0) layers.push(colour);
            if (colour[3] === 1) break;
        }
        return layers.reverse().reduce((ground, layer) => over(layer, ground), [255, 255, 255, 1]);
    };
    const faint = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement, style = getComputedStyle(element);
        const box = element.getBoundingClientRect();
        if (!texts.currentNode.textContent.trim() || !box.width || !box.height) continue;
        const ground = behind(element), [a, b] = [light(over(read(style.color), ground)), light(ground)].sort();
        const large = parseFloat(style.fontSize) >= 24;
        if ((b + 0.05) / (a + 0.05) < (large ? 3 : 4.5)) faint.push(texts.currentNode.textContent.trim().slice(0, 60));
    }
    return faint;
}"""


@pytest.fixture(scope="module")
def released(smoke_workspace, smoke_specs, mark_secret, tmp_path_factory):
    """The app over a copy of runs with and without privacy: a release is written there."""
    folder = tmp_path_factory.mktemp("stakeholder")
    shutil.copytree(smoke_workspace, folder / "data")
    mark_secret(folder / "data", smoke_specs["dp"])
    with serving(folder / "data", folder / "log.txt") as address:
        yield address


A4 = {"width": 687, "height": 1001}  # what the margins of style.css leave of a page, in CSS pixels (96 an inch)
# Tables, code and pictures that are wider than the paper, and rows that are taller than a page and so must be cut.
OFF_THE_PAPER = """([width, height]) => [
  ...[...document.querySelectorAll("table, pre, svg")].filter(one =>
    one.getBoundingClientRect().right > width + 1 || one.scrollWidth > one.clientWidth + 1),
  ...[...document.querySelectorAll("tr, .verdict, .finding, .two")].filter(one =>
    one.getBoundingClientRect().height > height),
].map(one => `${one.closest("section")?.id}: ${one.tagName}`)"""


def slide(page: Page, key: str, brings: Locator) -> None:
    """Press a key on the first slider until what it brings is there: a press while the page is drawn anew is lost."""
    for _ in range(6):
        settled(page)
        page.get_by_role("slider").first.press(key)
        with contextlib.suppress(TimeoutError):
            return brings.wait_for(timeout=WAIT / 6)
    raise AssertionError(f"the slider did not take {key}")


def saved(page: Page, label: str, folder: Path) -> Path:
    """Press a download button; where the file lies now."""
    found = downloaded(page, page.get_by_role("button", name=label))
    path = folder / found.suggested_filename
    found.save_as(path)
    return path


def read_as_a_board_would(chromium, report: Path, shot) -> None:
    """The file alone, in light, dark, narrow and on paper: whole, readable, and asking nobody for anything."""
    for scheme in ("light", "dark"):
        page = chromium.new_page(viewport={"width": 1100, "height": 900}, color_scheme=scheme)
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(report.as_uri())
        assert asked == [report.as_uri()], "a report fetches nothing"
        assert page.evaluate(TOO_FAINT) == []
        shot(page, f"stakeholder-report-{scheme}", full=True)
        expect(page.get_by_role("heading", level=1)).to_have_text("Privacy report")
        words = page.locator("body").inner_text()
        assert f"For: {USE}" in words and "measured here, 8, meets your limits" in words
        for name in HIPAA_IDENTIFIERS:
            assert name in words
        page.set_viewport_size({"width": 420, "height": 860})
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        paper = page.pdf(prefer_css_page_size=True)
        printed_whole(page, paper)
        page.set_viewport_size(A4)
        page.emulate_media(media="print", color_scheme="light")
        assert page.evaluate(OFF_THE_PAPER, [A4["width"], A4["height"]]) == [] and broken_words(page) == []
        assert page.evaluate("document.querySelector('.front').getBoundingClientRect().bottom") <= A4["height"]
        expect(page.locator(".front .ten tr")).to_have_count(10)
        page.close()


def full_decision() -> Decision:
    """A board that fills in everything, at length: 600 letters an answer, six approvers, every limit there is."""
    long = " ".join(["Wissenschaftlicher Beirat"] * 24)[:600]
    return Decision(
        **{name: long for name in ("recipient", "knowledge", "cost", "accepted", "owner")},
        limits={name: 0.755 for name in registry.limits()},
        access="api",
        review=date(2027, 6, 30),
        expires=date(2027, 12, 31),
        approvers=tuple(Approver(name=long[:100], role=long[:100]) for _ in range(6)),
    )


@pytest.mark.parametrize("answers", [full_decision(), Decision()], ids=["everything", "nothing"])
def test_the_first_page_is_one_sheet_whatever_a_board_fills_in(chromium, tmp_path, answers):
    """The shipped pair with full audits and planted gradients, with a secret key: the fullest first page there is."""
    private = tmp_path / "data" / "runs" / "gpt2-2be987fac6e6"
    shutil.copytree(DEMO / "runs" / private.name, private)
    secret = read_privacy(private).model_copy(update={"noise_source": "secret"})
    (private / PRIVACY_FILE).write_text(secret.to_json(), encoding="utf-8")
    workspace = Workspace(tmp_path / "data", shared=(DEMO,))
    runs = [workspace.run(run_id) for run_id in ("gpt2-804b3c7f558b", "gpt2-2be987fac6e6")]
    source = tmp_path / "report.html"
    source.write_text(render(build(workspace, runs, decision=answers)), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 420, "height": 860}, color_scheme="light")
    page.goto(source.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    sheets = read(page.pdf(prefer_css_page_size=True))
    printed = page.locator("#in-short a").all_text_contents()
    said = "Not every accepted limit is met" if answers.limits else "No limit was given in numbers"
    assert len(printed) == (8 if answers.limits else 5) and page_of(sheets[:1], *printed, said, "Open") == 1
    assert page_of(sheets[1:], "Annex") == 1, "the annex begins on the second page"
    page.set_viewport_size(A4)
    page.emulate_media(media="print", color_scheme="light")
    assert page.evaluate("document.querySelector('.front').getBoundingClientRect().bottom") <= A4["height"]
    page.close()


def test_from_an_epsilon_to_a_report_that_can_be_signed(chromium, tab, released, tmp_path, shot):
    tab.goto(f"{released}/tradeoff?at=8&{LIMITS}")
    expect(tab.get_by_text("At ε = 8 per note", exact=False)).to_be_visible(timeout=WAIT)
    slide(tab, "End", tab.get_by_text("Trained without privacy", exact=False))
    slide(tab, "ArrowLeft", tab.get_by_text("At ε = 8 per note", exact=False))  # measured ε only

    settled(tab)
    tab.get_by_role("radio", name="Which ε?").click()
    expect(tab.get_by_role("heading", name=re.compile("^Recommended: ε = 8"))).to_be_visible(timeout=WAIT)
    type_in(tab, "What the model is for", USE)
    expect(tab.get_by_role("heading", name=re.compile("^Recommended for Sepsis <b>"))).to_be_visible(timeout=WAIT)
    shot(tab, "stakeholder-which", full=True)
    no_traceback(tab)
    tab.get_by_role("link", name="Add to a report").click()

    expect(tab.get_by_role("heading", level=1, name="Report")).to_be_visible(timeout=WAIT)
    expect(tab.get_by_text("measured here, 8, meets your limits", exact=False)).to_be_visible(timeout=WAIT)
    no_traceback(tab)
    read_as_a_board_would(chromium, saved(tab, "Report (HTML, prints to PDF)", tmp_path), shot)

    to_entry(tab, "Ledger")
    expect(tab.get_by_role("heading", name="Release a model")).to_be_visible(timeout=WAIT)
    settled(tab)
    tab.get_by_label("Who gets it, and what for?").fill("a <b>university</b>")
    tab.get_by_role("button", name="Show the effect on the totals").click()
    expect(tab.get_by_text("Reason: a <b>university</b>")).to_be_visible(timeout=WAIT)
    settled(tab)
    tab.get_by_role("button", name="Record the release").click()
    expect(tab.get_by_text("Tick the box first", exact=False)).to_be_visible(timeout=WAIT)
    settled(tab)
    tab.get_by_text("I know that this cannot be undone.").click()
    tab.get_by_role("button", name="Record the release").click()
    expect(tab.get_by_test_id("stMetricValue").first).to_be_visible(timeout=WAIT)
    no_traceback(tab)
