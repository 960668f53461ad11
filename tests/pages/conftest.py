"""Data folders that page tests open."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.corpus.synthetic import hospital
from core.jobs import imports
from core.phi.detector.engine import Detector
from core.phi.spans import Place
from core.pipeline.full_audit import audit
from core.runs.store import Workspace
from pages.parts.session import cleanup
from tests.pages.uploads import stand_in

_built = functools.lru_cache(maxsize=4)(hospital.build)
_find = Detector.find


@functools.lru_cache(maxsize=50_000)
def _found(detector: Detector, text: str) -> tuple[Place, ...]:
    return tuple(_find(detector, text))


@pytest.fixture(autouse=True, scope="module")
def made_in_one_test_for_all() -> Iterator[None]:
    """A cohort is built, and a note searched for identifiers, by the first test that asks: the result is a function.

    Every test here has a data folder of its own, and would do both again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hospital, "build", _built)
        patch.setattr(Detector, "find", lambda self, text: list(_found(self, text)))
        yield


@pytest.fixture(autouse=True)
def nothing_is_deleted_beside_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server looks at its data folder every second for notes to delete, as long as its process lives.

    Here that would be a thread for each test's folder until the last test ends. Tests of what the thread does call it.
    """
    monkeypatch.setattr(cleanup, "start_thread", lambda root, workspace: None)


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
