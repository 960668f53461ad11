"""A disk that is full or read-only at some stages: a sentence, nothing half-written, and all of it once there is room.

The disk is real on `python -m core bench full_disk`. Here Python's own file operations report a full one from a
certain operation on, because a test cannot count on being allowed to mount a disk.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.faults import full_disk
from core.runs.integrity.disk import DiskFull

ROOT = Path(__file__).resolve().parents[3]
FULL_AFTER = {"cohort": 3, "import": 2, "ledger": 1, "audit": 4}  # operations on files that write
COURSE = f"""
import errno, json, os, sys
from pathlib import Path
from bench.faults import _stages, full_disk, kills
from tests.bench.faults.small_stages import small_stages

def on_a_full_disk(stage, place, after):
    known = kills.reference(stage, place)
    root, full, count = place / "store", [True], [0]
    _stages.copy_store(known.before, root)

    def hook(event, arguments):
        writes = event == "os.mkdir" or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        inside = isinstance(arguments[0], (str, os.PathLike)) and str(arguments[0]).startswith(str(root))
        if full[0] and writes and inside:
            count[0] += 1
            if count[0] > after:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))

    sys.addaudithook(hook)
    told = full_disk.sentence_of(stage.work, root)
    found = {{"told": told, "half_written": _stages.visible(root)}}
    full[0] = False
    found["again"] = full_disk.sentence_of(stage.work, root)
    now = _stages.contents(root)
    found["differs"] = [one for one in {{*now, *known.contents}} if now.get(one) != known.contents.get(one)]
    return found

kills._import_program()
stages, told = small_stages(Path(sys.argv[2])), {{}}
for name, after in {FULL_AFTER!r}.items():
    place = Path(sys.argv[1]) / name
    place.mkdir()
    try:  # in a fork, because an audit hook stays for good
        told[name] = kills._said_in_child(lambda _: on_a_full_disk(stages[name], place, after), place / "asked")
    except RuntimeError as error:
        told[name] = str(error)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def disks(smoke_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What came of every stage on a disk that was full: one process imports the program, and forks for each stage."""
    command = [sys.executable, "-c", COURSE, str(tmp_path_factory.mktemp("disks")), str(smoke_workspace)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(3_600)  # the first of them waits for all stages
@pytest.mark.parametrize("stage", FULL_AFTER)
def test_a_full_disk_is_a_sentence_and_loses_nothing(disks: dict[str, Any], stage: str) -> None:
    found = disks[stage]
    assert isinstance(found, dict), found
    sentence, none = found["told"]
    assert sentence.startswith("The disk is full:") and not none
    assert (found["half_written"], found["again"], found["differs"]) == ([], ["", ""], [])


def test_what_is_no_sentence_is_told(tmp_path: Path) -> None:
    def failing(error: Exception):
        def work(root: Path) -> None:
            raise error

        return work

    assert full_disk.sentence_of(lambda root: None, tmp_path) == ("", "")
    full = DiskFull("The disk is full: the cohort could not be written to /x. Free some space.")
    assert full_disk.sentence_of(failing(full), tmp_path)[1] == ""
    bare = OSError(errno.EROFS, os.strerror(errno.EROFS), "/x/y")
    assert full_disk.sentence_of(failing(bare), tmp_path)[0].startswith("/x/y cannot be written: its disk is read-only")
    assert "no" in full_disk.sentence_of(failing(ValueError("no")), tmp_path)[1]
    assert "RuntimeError" in full_disk.sentence_of(failing(RuntimeError("I/O")), tmp_path)[1]


def test_a_folder_takes_whole_pages(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x" * 5000)
    assert full_disk.size(tmp_path) == (1 + 1 + 2) * full_disk.PAGE
