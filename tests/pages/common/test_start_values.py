"""A browser that loads a widget late draws it as a later run of the page sends it: with its value, and no other.

Streamlit's browser side takes a widget's start value, unless the run says that it was set (`set_value`). A start value
that is right only in the first run would name one model above the figures of another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.testing.v1 import AppTest

from pages.parts.common import shell
from tests.pages.visit import visit

KINDS = ("selectbox", "multiselect", "button_group", "slider", "select_slider", "number_input", "text_input", "toggle")


def drawn(widget: Any) -> Any:
    """What a browser shows that has no value for the widget yet, in the form of `value`."""
    start = widget.proto.default
    match widget.type:
        case "selectbox":
            return start if widget.proto.HasField("default") else None
        case "multiselect" | "button_group":
            return list(start)
        case "slider" | "select_slider":
            return [float(one) for one in start]
        case "number_input":
            return start if widget.proto.HasField("default") else None
        case _:
            return start


def value(widget: Any) -> Any:
    """The widget's value in this run, as `drawn` gives it."""
    match widget.type:
        case "selectbox":
            return widget.index
        case "multiselect" | "button_group":
            return list(widget.indices)
        case "slider":
            return [float(one) for one in (widget.value if isinstance(widget.value, tuple) else (widget.value,))]
        case "select_slider":
            return [float(widget.options.index(widget.format_func(widget.value)))]
        case "text_input":
            return widget.value or ""
        case _:
            return widget.value


def wrong(app: AppTest) -> list[tuple[str, Any, Any]]:
    """(label, what is drawn, value) of each widget that a late browser would show with another value."""
    widgets = [one for kind in KINDS for one in app.get(kind) if not one.proto.set_value]
    found = [(one.proto.label, drawn(one), value(one)) for one in widgets]
    return [one for one in found if one[1] != one[2]]


@pytest.mark.parametrize("page", shell.page_names())
def test_each_run_sends_every_widget_with_its_value(data: Path, page: str) -> None:
    app = visit(page)
    app._run(WidgetStates())  # of a browser that has drawn no widget yet
    assert not app.exception and wrong(app) == []
