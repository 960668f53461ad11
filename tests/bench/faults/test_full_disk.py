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

import pytest

from bench.faults import full_disk
from core.runs.store import DiskFull

ROOT = Path(__file__).resolve().parents[3]
COURSE = """
import errno, json, os, sys
from pathlib import Path
from bench.faults import _stages, full_disk, kills
name, place, share = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
stage = next(one for one in _stages.STAGES if one.name == name)
kills._import_program()
known = kills.reference(stage, place)
root, full, count = place / "store", [True], [0]
_stages.copy_store(known.before, root)

def hook(event, arguments):
    writes = event == "os.mkdir" or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if full[0] and writes and isinstance(arguments[0], (str, os.PathLike)) and str(arguments[0]).startswith(str(root)):
        count[0] += 1
        if count[0] > share:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[0]))

sys.addaudithook(hook)
told = full_disk.sentence_of(stage.work, root)
found = {"told": told, "half_written": _stages.visible(root)}
full[0] = False
found["again"] = full_disk.sentence_of(stage.work, root)
now = _stages.contents(root)
found["differs"] = [one for one in {*now, *known.contents} if now.get(one) != known.contents.get(one)]
print(json.dumps(found))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "after"), [("cohort", 3), ("import", 2), ("ledger", 1), ("audit", 4)])
def test_a_full_disk_is_a_sentence_and_loses_nothing(tmp_path: Path, stage: str, after: int) -> None:
    command = [sys.executable, "-c", COURSE, stage, str(tmp_path), str(after)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
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
