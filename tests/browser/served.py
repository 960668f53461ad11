"""What browser tests share: a server of their own, and how to tell that a page is drawn."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from playwright.sync_api import Browser, Download, Error, Locator, Page, TimeoutError, expect

from core.runs.run import Run
from core.runs.store import Workspace
from pages.parts.common import shell
from tests.few_claims import IN_WORKERS

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120_000  # milliseconds: torch, a worker process and a browser may share one busy core
TRAINED = 300_000  # milliseconds for a run of one epoch and both audits on a busy core


def free_port() -> int:
    """A port of this computer that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(
    data: Path, log: Path, program: Sequence[str] = ("streamlit",), options: Sequence[str] = ()
) -> Iterator[str]:
    """The app on a free port with `data` as its data folder; yields its address and ends it (and its workers) after.

    `program` is the module that serves it, with arguments of its own; `options` are Streamlit's. Runs that its workers
    train are asked about few claims (`tests.few_claims`).
    """
    environment = {**os.environ, **IN_WORKERS, "PHILAB_DATA": str(data), "OMP_NUM_THREADS": "1"}
    for _ in range(5):
        port = free_port()
        command = [sys.executable, "-m", *program, "run", "app.py", "--server.port", str(port), *options]
        with log.open("w") as output:
            server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        if _answers(port, server, log):
            break
    else:
        pytest.fail(f"every port was taken:\n{log.read_text()}")
    try:
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _answers(port: int, server: subprocess.Popen, log: Path) -> bool:
    """Wait for the server; False if another process has taken its port since it was found free."""
    end = time.monotonic() + WAIT / 1000
    while time.monotonic() < end and server.poll() is None:
        if listens(server, port):
            return True
        time.sleep(0.1)
    if server.poll() is not None and f"Port {port} is not available" in log.read_text():
        return False
    server.kill()
    server.wait()
    pytest.fail(f"the server did not start:\n{log.read_text()}")


def listens(server: subprocess.Popen, port: int) -> bool:
    """Whether this process listens on the port; another one may, which took it since it was found free."""
    with contextlib.suppress(psutil.Error):
        lines = psutil.Process(server.pid).net_connections("tcp")
        return any(line.status == psutil.CONN_LISTEN and line.laddr.port == port for line in lines)
    return False


class Browsers:
    """Browsers with one tab each that share nothing with one another. They are lent, and kept for the next test.

    One that has drawn a page of Streamlit draws the next at half the cost. What a test leaves in it is removed:
    cookies, storage, size, colours and further tabs. Only what listens to events stays, so tests use `listening`.
    """

    def __init__(self, browser: Browser, **options: Any) -> None:
        self._browser, self._options = browser, options
        self._free: dict[bool, list[Page]] = {False: [], True: []}  # by whether it is a telephone

    def take(self, width: int = 1280, height: int = 800, *, phone: bool = False) -> Page:
        """A browser of this size; a `phone` has a touch screen."""
        free = self._free[phone]
        page = free.pop() if free else self._opened(phone)
        page.set_viewport_size({"width": width, "height": height})
        return page

    def give_back(self, page: Page, *, phone: bool = False) -> None:
        """Empty it for the next test."""
        try:
            for other in page.context.pages:
                if other is not page:
                    other.close()
            if page.url.startswith("http"):
                page.evaluate("localStorage.clear(), sessionStorage.clear()")
            page.goto("about:blank")
            page.mouse.move(0, 0)
            page.emulate_media(media="null", color_scheme="light")
            page.context.clear_cookies()
        except Error:  # a test that failed may leave one that does not answer
            page.context.close()
        else:
            self._free[phone].append(page)

    @contextlib.contextmanager
    def lent(self) -> Iterator[Callable[..., Page]]:
        """Yields `take`; what was taken is given back after."""
        taken: list[tuple[Page, bool]] = []

        def take(width: int = 1280, height: int = 800, *, phone: bool = False) -> Page:
            taken.append((self.take(width, height, phone=phone), phone))
            return taken[-1][0]

        yield take
        for page, phone in reversed(taken):
            self.give_back(page, phone=phone)

    def _opened(self, phone: bool) -> Page:
        page = self._browser.new_context(has_touch=phone, is_mobile=phone, **self._options).new_page()
        page.set_default_timeout(WAIT)
        return page


@contextlib.contextmanager
def listening(page: Page, event: str, listener: Callable[..., object]) -> Iterator[None]:
    """Call `listener` for each such event of the page, for the block."""
    page.on(event, listener)
    try:
        yield
    finally:
        page.remove_listener(event, listener)


def settled(page: Page) -> None:
    """Wait until Streamlit has drawn the page and no script runs."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def styled(page: Page) -> None:
    """Wait until the page's own style sheet is in place: the part of Streamlit that draws it may come last."""
    page.locator("[data-testid=stHtml] style").first.wait_for(state="attached")


def comes_true(page: Page, good: Callable[[], bool], what: str) -> None:
    """Wait until the page is laid out as it should be: after a resize, charts are drawn again in their own time."""
    end = time.monotonic() + WAIT / 1000
    while not good():
        assert time.monotonic() < end, what
        page.wait_for_timeout(100)


def fits(page: Page, width: int) -> None:
    """Nothing scrolls sideways in a window of this width."""
    beyond = "document.documentElement.scrollWidth"
    comes_true(page, lambda: page.evaluate(beyond) <= width, f"something is wider than {width} pixels")


def press(page: Page, key: str, brings: Locator) -> None:
    """Press a shortcut until it works: one that comes while a page is drawn anew is lost, on a slow machine often."""
    for _ in range(6):
        settled(page)
        page.keyboard.press(key)
        with contextlib.suppress(TimeoutError):
            return brings.wait_for(timeout=WAIT / 6)
    raise AssertionError(f"the key {key} did nothing")


def click_at(page: Page, spot: Callable[[], tuple[float, float]], brings: Callable[[float], object]) -> None:
    """Click at a spot until `brings`, given milliseconds, has come: one that meets a chart being drawn is lost."""
    for _ in range(6):
        settled(page)
        page.mouse.click(*spot())
        with contextlib.suppress(AssertionError):
            brings(WAIT / 6)
            return
    raise AssertionError("six clicks changed nothing")


def place_in(one: Locator, down: float = 0.5) -> tuple[float, float]:
    """A spot in the middle of what is drawn, or further down in it."""
    box = one.bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + down * box["height"]


def downloaded(page: Page, button: Locator) -> Download:
    """Press a download button until its file comes: one that meets a page drawn anew asks for a file that is gone."""
    for _ in range(4):
        settled(page)
        with contextlib.suppress(TimeoutError), page.expect_download(timeout=WAIT / 2) as started:
            button.click()
            return started.value
    raise AssertionError("no file came")


def type_in(page: Page, label: str, value: str) -> None:
    """Type into a box until it holds the value: while a page is drawn anew, the old box stands beside the new one."""
    box = page.locator("[data-testid=stElementContainer][data-stale=false]").get_by_label(label, exact=True)
    for _ in range(6):
        settled(page)
        with contextlib.suppress(Error):  # two boxes, or one that went away under the fingers
            box.fill(value, timeout=WAIT / 6)
            box.press("Enter", timeout=WAIT / 6)
            settled(page)
            if box.input_value(timeout=WAIT / 6) == value:
                return
    raise AssertionError(f"the box {label} does not take {value!r}")


def in_link(page: Page, pattern: str) -> re.Match[str]:
    """The match in the page's address, once it is there: Streamlit writes it after the choice is already seen."""
    expect(page).to_have_url(re.compile(pattern), timeout=WAIT)
    return re.search(pattern, page.url)


def first_patient(page: Page) -> str:
    """Open the first row of the table that is seen, and return the id of the patient that it brings."""
    rows = page.locator("[data-testid=stDataFrame]:visible").first
    rows.scroll_into_view_if_needed()
    chosen = page.get_by_role("heading", name=re.compile(r"^Patient P\d+"))

    def box() -> tuple[float, float]:
        """Of the first row."""
        table = rows.bounding_box()
        assert table is not None
        return table["x"] + 18, table["y"] + 55

    click_at(page, box, lambda time: expect(chosen).to_be_visible(timeout=time))
    settled(page)
    return re.search(r"P\d+", chosen.inner_text()).group()


def finished_run(data: Path, wanted: Callable[[Run], bool]) -> Run:
    """The run in `data` that is wanted, once it is complete."""
    end = time.monotonic() + TRAINED / 1000
    while time.monotonic() < end:
        found = next(filter(wanted, Workspace(data, shared=()).runs()), None)
        if found is not None:
            return found
        time.sleep(0.5)
    raise AssertionError("the run was not finished in time")


def no_traceback(page: Page) -> None:
    """No exception box anywhere on the page."""
    assert page.locator("[data-testid=stException]").count() == 0, page.locator(
        "[data-testid=stException]"
    ).inner_text()


def to_entry(page: Page, title: str) -> None:
    """Click a page in the menu, in whichever of its sections it stands."""
    names = {name: title for name, title, _, _ in shell._PAGES}
    section = next((head for head, inside in shell._SECTIONS.items() if title in map(names.get, inside)), None)
    if section is None:
        page.locator("[data-testid=stTopNavLink]").filter(has_text=title).click()
    else:
        page.locator("[data-testid=stTopNavSection]").filter(has_text=section).click()
        page.locator("[data-testid=stTopNavDropdownLink]").filter(has_text=title).click()
