"""Visiting a page without a browser."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parents[2]
WAIT = 300  # seconds; loading torch and a model on a busy core


def visit(page: str, **query: str | list[str]) -> AppTest:
    """The app at `pages/<page>.py`, opened with these query parameters; a list has its name several times."""
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    for name, value in query.items():
        app.query_params[name] = value
    if page != "home":  # which opens first; the others have their file's name in the address
        app.switch_page(f"pages/{page}.py")
    app.run()
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


def assert_asks_again(app: AppTest, run_id: str) -> None:
    """Guess about the models shown, then choose another run in both boxes: the page must ask again."""
    next(button for button in app.button if (button.key or "").endswith("-0")).click().run()
    assert "Guess first." not in said(app)
    for pick in ("left", "right"):
        app.selectbox(key=f"pick_{pick}").set_value(run_id).run()
    assert not app.exception
    assert "Guess first." in said(app) and "You guessed" not in said(app) and not app.get("plotly_chart")
