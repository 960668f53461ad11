"""Deleting a cohort lets go of everything that the pages keep of it in memory."""

from __future__ import annotations

import ast
import threading
from pathlib import Path
from types import SimpleNamespace

from core.runs.store import Workspace
from pages.parts.session import cleanup, models, resources

ROOT = Path(__file__).resolve().parents[3]


def test_every_cache_is_declared_where_a_deletion_can_empty_it():
    """Streamlit's own decorators stand in one module; what it gives to the pages is emptied or holds no notes."""
    for path in [ROOT / "app.py", *(ROOT / "pages").rglob("*.py")]:
        used = {
            node.attr
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and node.attr in ("cache_data", "cache_resource")
        }
        assert bool(used) == (path.name == "resources.py"), path


def test_deleting_empties_every_cache_of_cohorts(monkeypatch, tmp_path):
    monkeypatch.setattr("core.runs.uploads.deletion.delete", lambda workspace, digest, **_: None)
    made = []

    @resources.cached_object(show_spinner=False)
    def a_model(name: str) -> object:
        return made.append(name) or object()

    @resources.cached_data(show_spinner=False)
    def a_table(name: str) -> str:
        return made.append(name) or name

    for _ in range(2):
        a_model("model")
        a_table("table")
    assert made == ["model", "table"]
    cleanup.remove(Workspace(tmp_path, shared=()), "0" * 12)
    a_model("model")
    a_table("table")
    assert made == ["model", "table"] * 2


def test_a_model_that_was_loaded_is_let_go(monkeypatch, tmp_path):
    loads = []
    run = SimpleNamespace(folder="folder", model=lambda: loads.append(1) or object())
    monkeypatch.setattr("core.runs.uploads.deletion.delete", lambda workspace, digest, **_: None)
    first = models.model(run)
    assert models.model(run) is first and len(loads) == 1
    cleanup.remove(Workspace(tmp_path, shared=()), "0" * 12)
    assert models.model(run) is not first and len(loads) == 2


def test_what_a_page_puts_into_a_cache_after_a_deletion_is_emptied_again(monkeypatch, tmp_path):
    """A page that was being drawn computes on while `remove` empties the caches, and stores its result afterwards."""

    begun, go_on = threading.Event(), threading.Event()
    loads = []

    def slow():
        loads.append(1)
        begun.set()
        assert go_on.wait(60)
        return object()

    monkeypatch.setattr("core.runs.uploads.deletion.delete", lambda workspace, digest, **_: None)
    workspace = Workspace(tmp_path, shared=())
    run = SimpleNamespace(folder="another", model=slow)
    drawn = threading.Thread(target=models.model, args=(run,))
    drawn.start()
    assert begun.wait(60)
    cleanup.remove(workspace, "0" * 12)
    go_on.set()
    drawn.join(60)
    cleanup.clear_out(workspace)
    models.model(run)
    assert len(loads) == 2, "the late one was dropped"
