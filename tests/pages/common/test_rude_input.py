"""Links and words that nobody wrote by accident: a page that decides stays a page, and shows them as text."""

from __future__ import annotations

import shutil

import pytest

from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from pages.parts.session import resources
from tests.pages.visit import said, visit

RUDE = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "a way out": "../../../../etc/passwd",
    "no number": "NaN",
    "beyond numbers": "1e400",
    "below": "-1",
    "nothing": "",
    "emoji": "🩺",
    "a zero byte": "\x00",
    "Markdown": "[click](javascript:alert(1)) **x** $y$ :red[z]",
    "very long": "ä" * 100_000,
}
PARAMETERS = [  # a page, and what its links may hold
    ("tradeoff", {}, ("at", "family", "model", "risk", "usefulness", "view")),
    ("tradeoff", {"view": "Which ε?"}, ("use", "utility", "limit_auc_strongest", "risks")),
    ("tradeoff", {"view": "What if?"}, ("wi_sigma", "wi_units", "wi_batch", "wi_steps", "wi_delta")),
    ("defences", {}, ("at", "family", "recall", "risk", "whose")),
    ("ledger", {}, ("ledger_cohort", "ledger_delta", "budget")),
    ("report", {}, ("runs",)),
    ("lesson", {}, ("step", "guesses", "shown", "room", "round", "host", "presenter")),
    ("lesson", {"step": "6"}, ("before", "after", "screen")),
    ("playground", {}, ("prompt", "first", "left", "right")),
    ("glossary", {}, ("word",)),
]


@pytest.fixture
def released(monkeypatch, smoke_workspace, smoke_specs, mark_secret, tmp_path):
    """A data folder of this test's own whose run with privacy was released, so that the ledger draws everything."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    resources.forget_process()
    workspace = Workspace(tmp_path / "data", shared=())
    ledger = Ledger.of(workspace, CORPUS_PRESETS["smoke"])
    ledger.enter(ledger.draft_run(workspace.run(smoke_specs["dp"].run_id), "a class"))
    return workspace


def harmless(app) -> None:
    """No traceback, and nothing of what was typed is markup: raw HTML elements hold only our own tags."""
    assert not app.exception
    raw = "\n".join(element.proto.body for element in app.get("html"))
    assert "<script" not in raw and "onerror" not in raw
    assert not any(element.allow_html for element in app.markdown)


@pytest.mark.parametrize("turn", range(2))
@pytest.mark.parametrize(("page", "fixed", "names"), PARAMETERS)
def test_a_link_may_hold_anything(released, page, fixed, names, turn):
    """Each visit gives every parameter another kind."""
    kinds = list(RUDE.values())
    asked = {name: kinds[(5 * turn + at) % len(kinds)] for at, name in enumerate(names)}
    harmless(visit(page, **fixed, **asked))


def test_what_is_typed_is_shown_as_it_is_written(released, smoke_specs):
    """A reason and a use case of markup, on the pages that tell them and in the report."""
    app = visit("ledger")
    app.selectbox(key="release_run").set_value(smoke_specs["plain"].run_id)
    app.text_input(key="release_reason").set_value(RUDE["markup"] + RUDE["emoji"])
    next(button for button in app.button if button.label == "Show the effect on the totals").click().run()
    harmless(app)
    assert f"Reason: {RUDE['markup']}{RUDE['emoji']}" in [text.value for text in app.text]
    next(box for box in app.checkbox if box.label.startswith("I agree to these totals")).check()
    next(button for button in app.button if button.label == "Record the release").click().run()
    harmless(app)
    assert RUDE["markup"] + RUDE["emoji"] in app.dataframe[0].value["reason"].tolist()
    app = visit("tradeoff", view="Which ε?", use=RUDE["Markdown"])
    harmless(app)
    assert "[click](" not in said(app) and "\\[click\\]" in said(app)
    compared, limits = app.session_state["recommendation"]
    assert limits.use_case == RUDE["Markdown"]
    app = visit("report")
    app.session_state["recommendation"] = compared, limits
    app.run()
    harmless(app)
    assert "[click](" not in said(app) and "\\[click\\]" in said(app)


@pytest.mark.parametrize("code", ["<b>AB", "../..", "ΑΒΓΔΕ", "\x00", "NaN"])
def test_a_room_that_is_none_is_a_sentence(released, code):
    app = visit("lesson", room=code)
    harmless(app)
    assert any("no class with that code" in warning.value for warning in app.warning)
