"""A presenter and a student in two browsers: what one predicts, the other sees."""

from __future__ import annotations

import io
import re

import pytest
import zxingcpp
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from pages.parts.lesson import classroom_link
from tests.browser.served import ROOT, WAIT, in_link, no_traceback, press, settled, to_entry


def opened(chromium: Browser, address: str, **viewport: int) -> Page:
    """A browser of its own, which shares nothing with others."""
    page = chromium.new_context(viewport=viewport).new_page()
    page.set_default_timeout(WAIT)
    page.goto(address)
    settled(page)
    return page


def test_the_presenter_sees_at_once_what_a_student_predicts(chromium, server, shot):
    host = opened(chromium, f"{server}/lesson?presenter=1", width=1280, height=1400)
    assert host.evaluate("getComputedStyle(document.documentElement).fontSize") == "24px"
    host.get_by_role("button", name="Class").click()
    host.get_by_role("button", name="Open a class").click()
    expect(host.get_by_text("0 browsers joined")).to_be_visible(timeout=WAIT)
    expect(host.get_by_text("make class", exact=False)).to_be_visible(
        timeout=WAIT
    )  # this server answers this computer alone
    code = in_link(host, r"room=(\w+)").group(1)

    student = opened(chromium, f"{server}/lesson?room={code}", width=420, height=860)
    expect(host.get_by_text("1 browser joined")).to_be_visible(timeout=WAIT)  # nothing was pressed here
    student.get_by_role("button", name="nobody").click()
    expect(host.get_by_text("1 prediction so far")).to_be_visible(timeout=WAIT)
    assert host.locator(".bars").count() == 0, "hidden by default until the answer is shown"
    settled(student)
    press(student, "s", student.get_by_text("Answer from these runs:"))
    expect(student.locator(".bars")).to_contain_text("more than half ✓", timeout=WAIT)
    assert student.evaluate("document.documentElement.scrollWidth") <= 420
    shot(host, "class-presenter")
    shot(student, "class-student", full=True)

    press(student, "ArrowRight", student.get_by_role("heading", level=2, name=re.compile("^2")))
    press(student, "ArrowLeft", student.get_by_role("heading", level=2, name=re.compile("^1")))
    settled(student)
    student.reload()
    expect(student.get_by_text("You guessed “nobody”")).to_be_visible(timeout=WAIT)
    expect(host.get_by_text("1 browser joined")).to_be_visible(timeout=WAIT)

    host.get_by_role("button", name="Restart the class").click()
    expect(student.get_by_text("Guess first.")).to_be_visible(timeout=WAIT)  # nothing was pressed there
    for page in (host, student):
        no_traceback(page)
        page.context.close()


def test_a_class_follows_its_presenter_to_another_page_and_audits_there(chromium, server, shot):
    host = opened(chromium, f"{server}/lesson", width=1280, height=800)
    host.get_by_role("button", name="Class").click()
    host.get_by_role("button", name="Open a class").click()
    code = in_link(host, r"room=(\w+)").group(1)
    students = [opened(chromium, f"{server}/lesson?room={code}", width=390, height=800) for _ in range(2)]
    settled(host)
    host.get_by_text("Lead the class").click()
    settled(host)
    to_entry(host, "Be the auditor")
    for student in students:  # nothing is pressed there
        expect(student.get_by_role("heading", level=1, name="Be the auditor")).to_be_visible(timeout=WAIT)
        expect(student.get_by_text("The class audits")).to_be_visible(timeout=WAIT)
        assert student.evaluate("document.documentElement.scrollWidth") <= 390
    settled(students[0])
    students[0].get_by_role("button", name="Deal me notes").click()
    students[0].get_by_role("button", name="It was not").click()
    for page in (host, *students):  # one count for the class
        expect(page.get_by_text(re.compile(r"of 1 right, which proves nothing yet")).first).to_be_visible(timeout=WAIT)
    shot(host, "class-auditor")
    shot(students[0], "class-auditor-phone", full=True)
    for page in (host, *students):
        no_traceback(page)
        page.context.close()


@pytest.mark.parametrize(("width", "ground"), [(1280, "#ffffff"), (1280, "#10161d"), (420, "#10161d")])
def test_a_reader_that_is_not_the_writer_reads_the_join_code_from_the_screen(chromium, width, ground):
    url = "http://192.168.178.201:8501/lab/lesson?room=ABCDE"
    style = (ROOT / "assets/style.css").read_text(encoding="utf-8")
    page = chromium.new_page(viewport={"width": width, "height": 860})
    page.set_content(f'<style>{style}</style><body style="background:{ground}">{classroom_link.qr_html(url)}</body>')
    page.locator("img.qr").evaluate("image => image.decode()")
    photo = Image.open(io.BytesIO(page.screenshot()))
    page.close()
    (found,) = zxingcpp.read_barcodes(photo)
    assert (found.format, found.text) == (zxingcpp.BarcodeFormat.QRCode, url)
