"""The newcomer's first minute, in a browser: `python -m core bench first_leak --json`.

Seconds from the click on Home's first prompt to the first marked name, and from the click on that mark to the window
that explains it and to the chances in it. A server of its own with the shipped runs is started; the first visit is
reported apart (`cold`), since models and torch are loaded then. Needs Chromium, as the browser tests do.
"""

from __future__ import annotations

import contextlib
import json as json_format
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
WAIT = 120_000  # milliseconds
STAGES = ("mark", "window", "chances")


def main(json: bool = False, rounds: int = 5) -> None:
    """Print the median, lowest and highest seconds of each stage over `rounds` warm visits, and those of a cold one."""
    found = measure(rounds)
    if json:
        print(json_format.dumps(found))
        return
    for name, figure in found.items():
        print(f"{name}: {figure['value']:.2f} s ({figure['low']:.2f} to {figure['high']:.2f})")


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Seconds by stage: `cold_*` of the first visit, and the others over `rounds` visits after it."""
    with tempfile.TemporaryDirectory() as data, _serving(Path(data)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        cold, *warm = [_visit(browser, address) for _ in range(rounds + 1)]
        browser.close()
    found = {f"cold_{stage}": _figure([seconds]) for stage, seconds in zip(STAGES, cold, strict=True)}
    return found | {stage: _figure([one[place] for one in warm]) for place, stage in enumerate(STAGES)}


def _visit(browser: Browser, address: str) -> tuple[float, float, float]:
    """Seconds to the first marked name, to the window about it, and to the chances in it."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(WAIT)
    page.goto(address)
    prompt = page.locator("[data-testid=stButtonGroup] button").first
    prompt.wait_for()
    started = time.perf_counter()
    prompt.click()
    page.locator(".phi-text mark.phi-leak").first.wait_for()
    mark = time.perf_counter() - started
    clickable = page.locator("mark.phi-leak[data-why]").first
    clickable.wait_for()  # once the models have written the recorded answer again
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for()
    started = time.perf_counter()
    clickable.click()
    page.get_by_role("dialog").wait_for()
    window = time.perf_counter() - started
    page.locator("table.chances").wait_for()
    chances = time.perf_counter() - started
    page.close()
    return mark, window, chances


def _figure(seconds: list[float]) -> dict[str, float]:
    return {"value": statistics.median(seconds), "low": min(seconds), "high": max(seconds)}


@contextlib.contextmanager
def _serving(data: Path) -> Iterator[str]:
    """The app on a free port; yields its address, and ends it after."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    environment = {**os.environ, "PHILAB_DATA": str(data)}
    server = subprocess.Popen(  # noqa: S603 — this app, with arguments of our own
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + WAIT / 1_000
        while time.monotonic() < end:
            with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(20)
        if server.poll() is None:
            server.kill()
