"""Visiting a page without a browser."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
WAIT = 300  # seconds; loading torch and a model on a busy core


def visit(page: str, **query: str) -> AppTest:
    """The app at `pages/<page>.py`, opened with these query parameters."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(f"pages/{page}.py").run()
    assert not app.exception
    return app


def revealed(app: AppTest) -> AppTest:
    """The page after its guess was declined."""
    next(button for button in app.button if button.label == "Show me").click().run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    """Everything the page says in words."""
    return "\n".join(element.value for element in app.markdown)
