"""Deleting a cohort lets go of everything that the pages keep of it in memory."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.runs.store import Workspace
from pages.parts import owner

ROOT = Path(__file__).resolve().parents[2]
CLEARED_BY_NAME = {("side_by_side", "phi_index"), ("side_by_side", "patients"), ("run_picker", "_metrics")}
OF_THE_PROCESS = {
    ("side_by_side", "_server"),
    ("classroom", "classroom"),
    ("owner", "keep_time"),
}  # forget(run) or none


def caches() -> set[tuple[str, str]]:
    """Every function under pages/ that is decorated with `st.cache_resource`: (part, function)."""
    return {
        (path.stem, node.name)
        for path in (ROOT / "pages").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and any("cache_resource" in ast.dump(one) for one in node.decorator_list)
    }


def test_no_cache_is_left_out():
    held = {(part, name) for part, names in owner.HOLDERS.items() for name in names}
    assert held | CLEARED_BY_NAME | OF_THE_PROCESS == caches()


@pytest.fixture
def cleared(monkeypatch) -> list[str]:
    """What `remove` clears, with every part loaded, the deletion itself left out."""
    told: list[str] = []
    for part, names in owner.HOLDERS.items():
        module = importlib.import_module(f"pages.parts.{part}")
        for name in names:
            kept = type("Kept", (), {"clear": lambda self, told=told, where=f"{part}.{name}": told.append(where)})()
            monkeypatch.setattr(module, name, kept)
    monkeypatch.setattr("core.runs.uploads.delete", lambda workspace, digest: None)
    return told


def test_deleting_clears_models_scores_tables_and_reports(cleared, tmp_path):
    owner.remove(Workspace(tmp_path, shared=()), "0" * 12)
    assert sorted(cleared) == sorted(f"{part}.{name}" for part, names in owner.HOLDERS.items() for name in names)


def test_a_model_that_was_loaded_is_let_go(monkeypatch, tmp_path):
    from pages.parts import probe_try

    loads = []
    run = SimpleNamespace(model=lambda: loads.append(1) or object())
    monkeypatch.setattr("core.runs.uploads.delete", lambda workspace, digest: None)
    first = probe_try._model("folder", 1.0, run)
    assert probe_try._model("folder", 1.0, run) is first and len(loads) == 1
    owner.remove(Workspace(tmp_path, shared=()), "0" * 12)
    assert probe_try._model("folder", 1.0, run) is not first and len(loads) == 2


def test_it_loads_no_part_only_to_empty_it():
    code = (
        "import sys; from pages.parts import owner;"
        "sys.exit(any(f'pages.parts.{part}' in sys.modules for part in owner.HOLDERS))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603


def test_what_a_page_puts_into_a_cache_after_a_deletion_is_emptied_again(monkeypatch, tmp_path):
    """A page that was being drawn computes on while `remove` empties the caches, and stores its result afterwards."""
    from pages.parts import probe_try

    begun, go_on = threading.Event(), threading.Event()
    loads = []

    def slow():
        loads.append(1)
        begun.set()
        assert go_on.wait(60)
        return object()

    monkeypatch.setattr("core.runs.uploads.delete", lambda workspace, digest: None)
    workspace = Workspace(tmp_path, shared=())
    drawn = threading.Thread(target=probe_try._model, args=("folder", 2.0, SimpleNamespace(model=slow)))
    drawn.start()
    assert begun.wait(60)
    owner.remove(workspace, "0" * 12)
    go_on.set()
    drawn.join(60)
    owner.clear_out(workspace)
    probe_try._model("folder", 2.0, SimpleNamespace(model=slow))
    assert len(loads) == 2, "the late one was dropped"
