"""Jobs that wait or have ended: their engine starts no worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.runs.store import Workspace


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that starts no worker: jobs wait."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    engine = Engine(Workspace(tmp_path / "data", shared=()))
    yield engine
    engine.close()
