"""What must survive a power cut is on the disk before it gets its name."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from core.common.files import follow_folder, replace_text, replaced
from core.pipeline.training_run import execute
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.spec import CorpusSpec, RunSpec

TINY = CorpusSpec(patients=8, population=0, notes_per_patient=1, canaries=0, canary_patients=0)


class Disk:
    """Watches what is synced, and what is renamed without having been."""

    def __init__(self) -> None:
        self.synced: set[tuple[int, float]] = set()
        self.named: list[str] = []
        self.early: list[str] = []
        self.unsynced_folders: set[Path] = set()

    @staticmethod
    def _state(path: os.PathLike | int) -> tuple[int, int]:
        there = os.stat(path)
        return there.st_ino, there.st_mtime_ns

    def sync(self, descriptor: int) -> None:
        self.synced.add(self._state(descriptor))
        self.unsynced_folders -= {
            path for path in self.unsynced_folders if os.path.samestat(os.stat(path), os.fstat(descriptor))
        }

    def name(self, source: Path, target: Path) -> None:
        """`source` is about to get the name `target`."""
        inside = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
        self.early += [f"{target}: {path.name}" for path in inside if self._state(path) not in self.synced]
        self.named.append(target.name)
        self.unsynced_folders.add(target.parent)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    watched = Disk()
    for call in ("replace", "rename", "link"):
        real = getattr(os, call)

        def named(source, target, *rest, _real=real, **options):
            watched.name(Path(source), Path(target))
            return _real(source, target, *rest, **options)

        monkeypatch.setattr(os, call, named)
    real_sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (real_sync(descriptor), watched.sync(descriptor)))
    return watched


@pytest.mark.slow
def test_a_run_from_its_first_file_to_its_release(
    disk: Disk, smoke_spec: Callable[..., RunSpec], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, shared=())
    made = smoke_spec(epsilon=8.0, epochs=1, seed=31)
    audit = made.audit.model_copy(update={"samples_per_prompt": 1, "new_tokens": 8, "bootstrap": 10})
    training = made.training.model_copy(update={"batch_size": 4})
    privacy = made.privacy.model_copy(update={"noise_source": "secret"})
    spec = made.model_copy(update={"corpus": TINY, "audit": audit, "training": training, "privacy": privacy})
    run = execute(spec, workspace)
    ledger = Ledger.of(workspace, run.spec.corpus)
    ledger.enter(ledger.draft_run(run, "for the test"))
    expected = {"spec.json", "status.json", "privacy.json", "state.safetensors", "metrics.parquet", run.id, "0001.json"}
    assert expected <= set(disk.named), "otherwise this test watches nothing"
    assert disk.early == [] and disk.unsynced_folders == set()


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, disk: Disk) -> None:
    path = tmp_path / "status.json"
    replace_text(path, "old")
    with pytest.raises(KeyError), replaced(path) as beside:
        beside.write_text("half")
        raise KeyError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path] and disk.early == []


def test_a_file_follows_its_folder_whatever_a_library_made_it(tmp_path: Path) -> None:
    for folder_mode, file_mode in ((0o2775, 0o664), (0o755, 0o644), (0o700, 0o600)):
        folder = tmp_path / oct(folder_mode)
        folder.mkdir()
        folder.chmod(folder_mode)
        (folder / "weights").touch(mode=0o600)
        follow_folder(folder / "weights")
        assert stat.S_IMODE((folder / "weights").stat().st_mode) == file_mode
