"""A real server and a real Chromium. Screenshots go to tests/browser/shots (ignored by git) to be looked at."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(__file__).resolve().parent / "shots"
WAIT = 120_000  # milliseconds: torch, a worker process and a browser may share one busy core
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync", "--no-first-run")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.browser)


@contextlib.contextmanager
def serving(data: Path, log: Path) -> Iterator[str]:
    """The app on a free port with `data` as its data folder; yields its address and ends it (and its workers) after."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    environment = {**os.environ, "PHILAB_DATA": str(data), "OMP_NUM_THREADS": "1"}
    with log.open("w") as output:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
    try:
        _wait_for(port, server, log)
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()


def _wait_for(port: int, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + WAIT / 1000
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail(f"the server did not start:\n{log.read_text()}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """An installed Chromium or Chrome, else the one Playwright brings."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
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
    with serving(data, tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield address


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    """A fresh browser tab, as wide as a small projector."""
    page = chromium.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(WAIT)
    yield page
    page.close()


@pytest.fixture
def shot():
    """Keeps a screenshot: `shot(page, "name")`."""
    SHOTS.mkdir(exist_ok=True)

    def keep(page: Page, name: str, *, full: bool = False) -> None:
        page.wait_for_timeout(700)
        page.screenshot(path=SHOTS / f"{name}.png", full_page=full)

    return keep


def settled(page: Page) -> None:
    """Wait until Streamlit has drawn the page and no script runs."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()


def no_traceback(page: Page) -> None:
    """No exception box anywhere on the page."""
    assert page.locator("[data-testid=stException]").count() == 0, page.locator(
        "[data-testid=stException]"
    ).inner_text()
