"""A real server and a real Chromium. With SHOTS=1, screenshots go to tests/browser/shots (ignored by git)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.served import WAIT, Browsers, serving

expect.set_options(timeout=WAIT)  # where a test names no other time; Playwright's own five seconds are too few

SHOTS = Path(__file__).resolve().parent / "shots"
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
    "--disable-threaded-animation",  # else its compositor draws Streamlit's spinners sixty times a second
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


def program() -> str | None:
    """An installed Chromium or Chrome, preferably the one without windows, where a tab costs a quarter less."""
    names = (
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
        "chrome",
    )
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """An installed Chromium or Chrome, else the one Playwright brings."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def data(leaky_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder of this session's own: the browser trains in it."""
    folder = tmp_path_factory.mktemp("browser") / "data"
    shutil.copytree(leaky_workspace, folder)
    return folder


@pytest.fixture(scope="session")
def server(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a server that all tests share."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(data, log) as address:
        yield address
    told = log.read_text()
    assert "was created with a default value but also had" not in told, "a widget has two values to start from"


@pytest.fixture(scope="session")
def kept_browsers(chromium: Browser) -> Browsers:
    """What `browsers` and `tab` lend."""
    return Browsers(chromium)


@pytest.fixture
def browsers(kept_browsers: Browsers) -> Iterator[Callable[..., Page]]:
    """Opens the tab of a browser that shares nothing with others: `browsers(width, height, phone=False)`."""
    with kept_browsers.lent() as take:
        yield take


@pytest.fixture
def tab(browsers: Callable[..., Page]) -> Page:
    """A fresh browser tab, as wide as a small projector."""
    return browsers()


@pytest.fixture
def shot():
    """Waits until a page is drawn, and keeps a screenshot if $SHOTS is set: `shot(page, "name")`.

    A picture of a whole page costs a third of a second of CPU, and nothing reads it.
    """

    def keep(page: Page, name: str, *, full: bool = False) -> None:
        page.wait_for_timeout(700)  # for the layout after a resize, too, which some tests then look at
        if os.environ.get("SHOTS"):
            SHOTS.mkdir(exist_ok=True)
            page.screenshot(path=SHOTS / f"{name}.png", full_page=full)

    return keep
