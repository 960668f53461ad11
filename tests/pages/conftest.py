"""Data folders that page tests open."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.jobs import imports
from core.pipeline.full_audit import audit
from core.runs.store import Workspace
from tests.pages.uploads import stand_in


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch, smoke_workspace: Path) -> Path:
    """The app shows the runs of `smoke_workspace`; read-only."""
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    return smoke_workspace


@pytest.fixture(scope="session")
def audited_with(smoke_workspace: Path, smoke_specs, tmp_path_factory) -> Callable[..., Path]:
    """Makes a data folder whose run without privacy had these attacks: `audited_with("loss", "zlib")`."""

    def made(*attacks: str) -> Path:
        root = tmp_path_factory.mktemp("audited") / "data"
        shutil.copytree(smoke_workspace, root)
        workspace = Workspace(root, shared=())
        audit(workspace.run(smoke_specs["plain"].run_id), workspace, attacks=list(attacks))
        return root

    return made


@pytest.fixture
def checks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploaded notes are checked in a thread of this process, which saves two processes that import everything.

    The processes themselves, their limits and their end are tested in tests/jobs/test_imports.py.
    """
    here = SimpleNamespace(Popen=stand_in.Process, run=stand_in.run, PIPE=None, DEVNULL=None)
    monkeypatch.setattr(imports, "subprocess", here)
