"""Which tests `make check` leaves out.

A test is quick by default. It is slow if it has the marker `slow`, if it drives a browser, or if it needs a folder that
takes long to make (the fixture `made_once`, which every trained run comes from), also by way of other fixtures.
"""

from __future__ import annotations

import pytest


def _is_slow(item: pytest.Item) -> bool:
    return "made_once" in getattr(item, "fixturenames", ()) or item.get_closest_marker("browser") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _is_slow(item):
            item.add_marker(pytest.mark.slow)
