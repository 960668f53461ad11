"""Opening pages as somebody who signed in."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.parts.access import viewer
from tests.pages.visit import ROOT, WAIT

AUTH = {"cookie_secret": "s" * 40, "client_id": "lab", "client_secret": "x", "redirect_uri": "x"}
ACCESS = {
    "viewers": ["@example.org"],
    "trainers": ["trainer@example.org"],
    "instructors": ["instructor@example.org"],
    "contact": "the office",
}
STARTED = time.time()
SECRETS = {"auth": AUTH, "access": ACCESS}


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    process = viewer._Process()
    monkeypatch.setattr(viewer, "_process", lambda: process)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))


def person(who: str = "viewer", **more: Any) -> dict[str, Any]:
    """What Streamlit knows of somebody who just signed in: `who@example.org`."""
    claims = {"iss": "https://login", "sub": who, "email": f"{who}@example.org", "iat": int(STARTED), "nonce": who}
    return {"is_logged_in": True, "email_verified": True, "name": who.title()} | claims | more


@pytest.fixture
def opened() -> Callable[..., AppTest]:
    """Opens a page: `opened("train", user=person(), secrets=SECRETS, epsilon="2")`."""

    def open_page(page: str, *, user: dict[str, Any], secrets: Any = SECRETS, **query: str) -> AppTest:
        app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
        app.user = user
        app.secrets = secrets
        for name, value in query.items():
            app.query_params[name] = value
        if page != "home":  # which opens first
            app.switch_page(f"pages/{page}.py")
        app.run()
        assert not app.exception
        return app

    return open_page
