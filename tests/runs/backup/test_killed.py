"""`kill -9` in the middle: an archive or an item is there as a whole or not at all, and the next attempt goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from core.runs.backup.archive import is_archive
from core.runs.backup.exporting import ExportRefused, export
from core.runs.backup.importing import import_archive
from core.runs.integrity.upkeep import sweep_store
from core.runs.integrity.verify import damages
from core.runs.store import Workspace
from tests.runs.backup.conftest import contents

ROOT = Path(__file__).resolve().parents[3]
KINDS = ("corpora", "runs", "audits", "references", "ledger")
# A process that dies when it has written a part of its n-th file.
DYING = """
import os, signal, sys
from pathlib import Path
from core.runs.backup import archive
from core.runs.backup.exporting import export
from core.runs.backup.importing import import_archive
from core.runs.store import Workspace
what, root, file, left = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
def count():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
add, pieces = archive.Writer.add, archive.Archive.pieces
def dying_add(self, *arguments):
    count()
    return add(self, *arguments)
def dying_pieces(self, item, name):
    for piece in pieces(self, item, name):
        yield piece[: len(piece) // 2]
        count()
        yield piece[len(piece) // 2 :]
if what == "export":
    archive.Writer.add = dying_add
    export(Workspace(root, shared=()), file)
else:
    archive.Archive.check = lambda self: None
    archive.Archive.pieces = dying_pieces
    import_archive(Workspace(root, shared=()), file)
"""


def dies(*arguments: object) -> None:
    command = [sys.executable, "-c", DYING, *map(str, arguments)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9  # noqa: S603


@pytest.mark.slow
def test_a_killed_export_leaves_the_earlier_archive(full, tmp_path) -> None:
    place = tmp_path / "backups"
    place.mkdir()
    dies("export", full.root, place / "a.zip", 30)
    assert not (place / "a.zip").exists()
    (leftover,) = place.iterdir()
    assert not is_archive(leftover)
    old = time.time() - 3600
    os.utime(leftover, (old, old))
    export(full, place / "a.zip")
    assert [path.name for path in place.iterdir()] == ["a.zip"], "the next export removes what was left"
    whole = (place / "a.zip").read_bytes()
    dies("export", full.root, place / "a.zip", 30)
    assert (place / "a.zip").read_bytes() == whole


@pytest.mark.slow
def test_a_killed_import_leaves_whole_items_and_goes_on(full, empty, tmp_path) -> None:
    export(full, tmp_path / "a.zip")
    seen = set()
    for files in (3, 20, 45):
        shutil.rmtree(empty.root, ignore_errors=True)
        dies("import", empty.root, tmp_path / "a.zip", files)
        there = contents(empty.root)
        assert there.items() <= contents(full.root).items(), "no file under its name is half written"
        assert list(damages(Workspace(empty.root, shared=()))) == []
        items = {name.rsplit("/", 1)[0] for name in there}
        seen.add(len(items))
        for run in Workspace(empty.root, shared=()).runs():
            assert run.metrics.equals(full.run(run.id).metrics)
    assert len(seen) > 1, "it died at different items"
    done = import_archive(empty, tmp_path / "a.zip")
    assert {one.outcome for one in done} == {"there", "imported"}
    assert contents(empty.root) == contents(full.root, *KINDS)
    for folder in empty.root.glob("*/.building-*"):
        os.utime(folder, (0, 0))
    sweep_store(empty.root)
    assert not list(empty.root.glob("*/.building-*"))


def test_an_export_that_fails_leaves_nothing(full, tmp_path, monkeypatch) -> None:
    from core.runs.backup import archive

    add = archive.Writer.add

    def failing(self, name, source, size):
        if name.endswith("spec.json") and name.startswith("runs"):
            raise OSError(28, "No space left on device", name)
        return add(self, name, source, size)

    monkeypatch.setattr(archive.Writer, "add", failing)
    place = tmp_path / "backups"
    with pytest.raises(OSError, match="The disk is full"):
        export(full, place / "a.zip")
    assert not list(place.iterdir())


@pytest.mark.parametrize("content", ['{"name": "an extension"}', '["phi-leak-lab backup"]', "not JSON", None])
def test_another_program_s_zip_is_not_overwritten(full_folder: Path, tmp_path: Path, content: str | None) -> None:
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(other, "w") as zipped:
        zipped.writestr("bg.js", "run()")
        if content is not None:
            zipped.writestr("manifest.json", content)
    before = other.read_bytes()
    with pytest.raises(ExportRefused, match="is not an archive of this program"):
        export(Workspace(full_folder, shared=()), other)
    assert other.read_bytes() == before
