"""A presenter and a student in two browsers: what one predicts, the other sees."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
import zxingcpp
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Page, expect

from pages.parts.lesson import classroom_link
from tests.browser.served import ROOT, WAIT, comes_true, fits, in_link, no_traceback, press, settled, to_entry
from tests.network import wifi


def opened(browsers: Callable[..., Page], address: str, width: int, height: int) -> Page:
    """A page in a browser that shares nothing with others."""
    page = browsers(width, height)
    page.goto(address)
    settled(page)
    return page


def a_class(host: Page) -> str:
    """Open a class on the lesson; returns its code."""
    host.get_by_role("button", name="Class").click()
    host.get_by_role("button", name="Open a class").click()
    return in_link(host, r"room=(\w+)").group(1)


def vote(student: Page, place: int) -> None:
    """Press an option of the voting view, and wait until it is gone."""
    settled(student)
    option = student.locator(".st-key-options button").nth(place)
    told = option.inner_text()
    option.click()
    expect(student.locator(".st-key-options button").filter(has_text=told)).to_have_count(0, timeout=WAIT)


def test_the_presenter_sees_at_once_what_a_student_predicts(browsers, server, shot):
    host = opened(browsers, f"{server}/lesson?presenter=1&step=1", width=1280, height=1400)
    expect(host.locator("html")).to_have_css("font-size", "24px", timeout=WAIT)
    code = a_class(host)
    expect(host.get_by_text("0 browsers joined")).to_be_visible(timeout=WAIT)
    expect(host.get_by_text("make class", exact=False)).to_be_visible(
        timeout=WAIT
    )  # this server answers this computer alone

    student = opened(browsers, f"{server}/lesson?room={code}&step=1&screen=page", width=420, height=860)
    expect(host.get_by_text("1 browser joined")).to_be_visible(timeout=WAIT)  # nothing was pressed here
    student.get_by_role("button", name="nobody").click()
    expect(host.get_by_text("1 prediction so far")).to_be_visible(timeout=WAIT)
    assert host.locator(".bars").count() == 0, "hidden by default until the answer is shown"
    settled(student)
    press(student, "s", student.get_by_text("Answer from these runs:"))
    expect(student.locator(".bars")).to_contain_text("more than half ✓", timeout=WAIT)
    fits(student, 420)
    shot(host, "class-presenter")
    shot(student, "class-student", full=True)

    press(student, "ArrowRight", student.get_by_role("heading", level=2, name=re.compile("^2")))
    press(student, "ArrowLeft", student.get_by_role("heading", level=2, name=re.compile("^1")))
    host.get_by_role("button", name="Restart the class").press("Enter")
    again = host.get_by_role("button", name="Restart and delete all votes")
    expect(again).to_be_visible(timeout=WAIT)
    expect(student.locator(".bars")).to_contain_text("1 prediction", timeout=WAIT)  # it asks first
    again.press("Enter")
    expect(again).to_have_count(0, timeout=WAIT)  # the popover closes
    expect(student.get_by_role("heading", name="Three questions")).to_be_visible(timeout=WAIT)  # nothing was pressed
    for page in (host, student):
        no_traceback(page)


def test_a_class_votes_on_phones_and_the_projector_shows_each_step_whole(browsers, server, shot):
    host = opened(browsers, f"{server}/lesson?step=1", width=1280, height=800)
    code = a_class(host)
    settled(host)
    host.get_by_role("button", name="Full screen").click()
    settled(host)
    host.locator(".st-key-screen-lead button").click()
    expect(host.get_by_role("button", name="Stop leading")).to_be_visible(timeout=WAIT)
    phones = [opened(browsers, f"{server}/lesson?room={code}", width=390, height=844) for _ in range(2)]
    for number in range(1, 6):
        for phone in phones:  # which follow
            expect(phone.get_by_text(f"step {number} of 5")).to_be_visible(timeout=WAIT)
        vote(phones[0], 0)
        expect(phones[0].get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        expect(host.get_by_text("1 prediction so far")).to_be_visible(timeout=WAIT)
        assert phones[0].locator(".bars").count() == host.locator(".bars").count() == 0, "hidden until shown"
        press(host, "s", host.locator(".st-key-screen-chart .js-plotly-plot"))
        for phone in phones:
            expect(phone.locator(".bars")).to_be_visible(timeout=WAIT)
        expect(phones[1].get_by_text("You did not vote.")).to_be_visible(timeout=WAIT)
        for width, height in ((1280, 800), (1920, 1080)):
            host.set_viewport_size({"width": width, "height": height})
            whole_in_window(host, height)
        host.set_viewport_size({"width": 1280, "height": 800})
        shot(host, f"class-full-{number}")
        shot(phones[0], f"class-phone-{number}")
        assert [one["id"] for page in (host, phones[0]) for one in Axe().run(page).response["violations"]] == []
        fits(phones[0], 390)
        after = "After the lesson" if number == 5 else re.compile(f"^{number + 1}\\. ")
        press(host, "ArrowRight", host.get_by_role("heading", level=2, name=after))
    press(host, "Escape", host.get_by_role("button", name="Full screen", exact=True))
    expect(host.locator("[data-testid=stHeader]")).to_be_visible(timeout=WAIT)  # the menu is back
    for page in (host, *phones):
        no_traceback(page)


def whole_in_window(host: Page, height: int) -> None:
    """The chart and the take-away lie inside the window, below one another, and the chart is large enough to read."""
    chart, point = host.locator(".st-key-screen-chart .js-plotly-plot"), host.locator(".st-key-screen-point")

    def whole() -> bool:
        one, other = chart.bounding_box(), point.bounding_box()
        if one is None or other is None or one["y"] < 0 or one["height"] <= 0.3 * height:
            return False
        return one["y"] + one["height"] <= other["y"] + 1 and other["y"] + other["height"] <= height

    comes_true(host, whole, "the chart and the take-away are not in the window, one below the other")
    main, beside = host.get_by_test_id("stMain"), host.locator(".st-key-screen-right")
    comes_true(host, lambda: main.evaluate("one => one.scrollHeight") <= height, "the page scrolls")
    whole_beside = "one => one.scrollHeight <= one.clientHeight + 1"
    comes_true(host, lambda: beside.evaluate(whole_beside), "what stands beside the chart is cut")


def test_phones_get_their_buttons_back_when_the_presenter_stops_leading(browsers, server):
    host = opened(browsers, f"{server}/lesson?step=1", width=1280, height=800)
    code = a_class(host)
    expect(host.get_by_text("0 predictions so far")).to_be_in_viewport(timeout=WAIT)
    page = browsers(390, 844, phone=True)
    page.goto(f"{server}/lesson?room={code}&step=1")
    settled(host)
    host.get_by_text("Lead the class").click()  # and the switch has the focus
    expect(page.locator(".st-key-lesson-next")).to_have_count(0, timeout=WAIT)
    press(host, "ArrowRight", host.get_by_role("heading", level=2, name=re.compile("^2")))
    expect(page.get_by_text("step 2 of 5")).to_be_visible(timeout=WAIT)
    host.get_by_text("Lead the class").click()
    expect(page.locator(".st-key-lesson-next")).to_be_visible(timeout=WAIT)  # nothing was pressed there
    settled(page)
    first, other = (page.locator(".st-key-options button").nth(place) for place in (0, 1))
    first.hover()  # as a touch screen leaves the place of a tap
    for style in ("color", "background-color"):
        expect(first).to_have_css(style, other.evaluate(f"one => getComputedStyle(one)['{style}']"), timeout=WAIT)
    for one in (host, page):
        no_traceback(one)


def test_three_questions_before_and_after_become_a_picture(browsers, server, shot):
    host = opened(browsers, f"{server}/lesson?step=0", width=1280, height=800)
    code = a_class(host)
    phones = [opened(browsers, f"{server}/lesson?room={code}", width=390, height=844) for _ in range(2)]
    for phone in phones:
        for _ in range(3):
            vote(phone, 0)
    expect(host.get_by_text("2 answered all three questions")).to_be_visible(timeout=WAIT)
    code, key = in_link(host, r"room=(\w+)").group(1), in_link(host, r"host=(\w+)").group(1)
    host.goto(f"{server}/lesson?room={code}&host={key}&step=6&screen=full")
    settled(host)
    host.locator(".st-key-screen-lead button").click()
    for phone in phones:
        expect(phone.get_by_text("after the lesson")).to_be_visible(timeout=WAIT)
        for place in (1, 2, 3):
            vote(phone, place)
    expect(host.get_by_text("2 of 2 answered all three")).to_be_visible(timeout=WAIT)
    settled(host)
    host.get_by_role("button", name="Show the answer").click()
    expect(host.get_by_text("2 changed to the right answer, 0 away from it").first).to_be_visible(timeout=WAIT)
    whole_in_window(host, 800)
    expect(phones[0].get_by_text("2 changed to the right answer").first).to_be_visible(timeout=WAIT)
    shot(host, "class-learned")
    shot(phones[0], "class-learned-phone", full=True)
    for page in (host, *phones):
        no_traceback(page)


def test_who_comes_back_after_lost_wifi_has_the_same_vote(browsers, server):
    host = opened(browsers, f"{server}/lesson?step=1", width=1280, height=900)
    code = a_class(host)
    with wifi(server) as network:
        phone = opened(browsers, f"{network.address}/lesson?room={code}&step=1", width=390, height=844)
        other = opened(browsers, f"{network.address}/lesson?room={code}&step=1", width=390, height=844)
        vote(phone, 0)
        expect(host.get_by_text("1 prediction so far")).to_be_visible(timeout=WAIT)
        network.cut()
        expect(phone.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        network.restore()
        settled(phone)
        expect(phone.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        vote(other, 1)  # on the connection that was cut
        expect(host.get_by_text("2 predictions so far")).to_be_visible(timeout=WAIT)
        phone.goto(f"{network.address}/lesson?room={code}&step=1")  # the code scanned again: nothing in the link
        settled(phone)
        expect(phone.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        other.reload()
        settled(other)
        expect(other.get_by_text("Your vote is counted")).to_be_visible(timeout=WAIT)
        expect(host.get_by_text("2 predictions so far")).to_be_visible(timeout=WAIT)
        expect(host.get_by_text("2 browsers joined")).to_be_visible(timeout=WAIT)
        assert {cookie["name"] for cookie in phone.context.cookies()} >= {"philab_seat"}
        for page in (host, phone, other):
            no_traceback(page)


def test_everybody_sees_the_patient_and_the_prompt_that_the_presenter_sees(browsers, server, shot):
    host = opened(browsers, f"{server}/lesson?step=1", width=1280, height=800)
    code, key = a_class(host), in_link(host, r"host=(\w+)").group(1)
    students = [
        opened(browsers, f"{server}/patients?room={code}&age_from=100", width=1280, height=800),
        opened(browsers, f"{server}/lesson?room={code}", width=390, height=844),
    ]
    host.goto(f"{server}/patients?room={code}&host={key}&patient=P0001")
    settled(host)
    host.get_by_role("button", name="Show the class").click()
    for student in students:  # on the same page, and on another one
        expect(student.get_by_role("heading", name=re.compile("^Patient P0001"))).to_be_visible(timeout=WAIT)
    settled(students[0])
    students[0].get_by_role("button", name=re.compile("^.*Only patients with")).click()
    assert students[0].get_by_label("age from").input_value() == "", "one's own filter gives way"
    host.goto(f"{server}/playground?room={code}&host={key}&seed=7")
    settled(host)
    host.locator("[data-testid=stButtonGroup] button").filter(has_text=re.compile("^Patient:$")).click()
    expect(host.get_by_text("seed 7").first).to_be_visible(timeout=WAIT)
    settled(host)
    host.get_by_role("button", name="Show the class").click()
    written = host.locator(".phi-text").first.inner_text()
    boxes = "boxes => boxes.map(box => box.value)"
    models = host.locator("[data-testid=stSelectbox] input").evaluate_all(boxes)
    for student in students:
        expect(student.get_by_role("heading", level=1, name="Playground")).to_be_visible(timeout=WAIT)
        expect(student.get_by_text("seed 7").first).to_be_visible(timeout=WAIT)
        settled(student)
        assert student.locator(".phi-text").first.inner_text() == written
        assert student.locator("[data-testid=stSelectbox] input").evaluate_all(boxes) == models
        expect(student.locator(".phi-text").first).to_be_in_viewport()  # a phone scrolls to it
    shot(students[1], "class-prompt-phone")
    for page in (host, *students):
        no_traceback(page)


def test_a_class_follows_its_presenter_to_another_page_and_audits_there(browsers, server, shot):
    host = opened(browsers, f"{server}/lesson", width=1280, height=800)
    code = a_class(host)
    students = [opened(browsers, f"{server}/lesson?room={code}", width=390, height=800) for _ in range(2)]
    settled(host)
    host.get_by_text("Lead the class").click()
    settled(host)
    to_entry(host, "Be the auditor")
    for student in students:  # nothing is pressed there
        expect(student.get_by_role("heading", level=1, name="Be the auditor")).to_be_visible(timeout=WAIT)
        expect(student.get_by_text("The class audits")).to_be_visible(timeout=WAIT)
        fits(student, 390)
        for script in ("class-seat", "class-follow"):  # takes no line above the title
            assert student.locator(f".st-key-{script}").evaluate("e => getComputedStyle(e).position") == "absolute"
    settled(students[0])
    students[0].get_by_role("button", name="Deal notes").click()
    students[0].get_by_role("button", name="It was not").click()
    for page in (host, *students):  # one count for the class
        expect(page.get_by_text(re.compile(r"of 1 right, which proves nothing yet")).first).to_be_visible(timeout=WAIT)
    shot(host, "class-auditor")
    shot(students[0], "class-auditor-phone", full=True)
    for page in (host, *students):
        no_traceback(page)


@pytest.mark.parametrize(("width", "ground"), [(1280, "#ffffff"), (1280, "#10161d"), (420, "#10161d")])
def test_a_reader_that_is_not_the_writer_reads_the_join_code_from_the_screen(tab, width, ground):
    url = "http://192.168.178.201:8501/lab/lesson?room=ABCDE"
    style = (ROOT / "assets/style.css").read_text(encoding="utf-8")
    tab.set_viewport_size({"width": width, "height": 860})
    tab.set_content(f'<style>{style}</style><body style="background:{ground}">{classroom_link.qr_html(url)}</body>')
    tab.locator("img.qr").evaluate("image => image.decode()")
    photo = Image.open(io.BytesIO(tab.screenshot()))
    (found,) = zxingcpp.read_barcodes(photo)
    assert (found.format, found.text) == (zxingcpp.BarcodeFormat.QRCode, url)
