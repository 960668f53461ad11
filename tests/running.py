"""Which tests `make check` leaves out, and how `make test` divides the tests among processes.

A test is quick by default. It is slow if it has the marker `slow`, if it drives a browser, or if it needs the fixture
`made_once`, directly or by way of other fixtures: every trained run that tests share comes from it.

One process runs all tests of a file, so that the file's fixtures are made once. One process runs all browser tests,
which share a server and a browser. They come first: they take longest, and wait for the browser much of the time.

What is imported and collected stays until the end, about a gigabyte of objects. Python's garbage collector would go
through it again and again: it is off while tests are collected, and passes over what is there by then.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from xdist.scheduler import LoadFileScheduling

BROWSER = "tests/browser/"
SLOW_SECONDS = 1_800  # a slow test with its fixtures: some train several runs, and wait up to five minutes for each


def _is_slow(item: pytest.Item) -> bool:
    return "made_once" in getattr(item, "fixturenames", ()) or item.get_closest_marker("browser") is not None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # a library that looks for leaks at the end would report what is passed over


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))
    items.sort(key=lambda item: not item.nodeid.startswith(BROWSER))


class BrowserTogether(LoadFileScheduling):
    """Gives each file to one process, and the browser tests to one process together."""

    def _split_scope(self, nodeid: str) -> str:
        return BROWSER if nodeid.startswith(BROWSER) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> BrowserTogether | None:
    return BrowserTogether(config, log) if config.getvalue("dist") == "loadfile" else None
