"""Folders for what is only looked at: private, and gone with whoever made them."""

from __future__ import annotations

import gc
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.runs.uploads import scratch
from core.runs.uploads.scratch import NEW_SECONDS, Scratch, sweep

ROOT = Path(__file__).resolve().parents[3]
KILLED = """
import os, sys
from pathlib import Path
from core.runs.uploads.scratch import Scratch
scratch = Scratch(Path(sys.argv[1]))
(scratch.path / "notes.csv").write_text("somebody's notes")
print(scratch.path, flush=True)
{end}
"""


def left_by(root: Path, end: str) -> Path:
    """The folder of a process that made one, wrote a file into it, and came to this end."""
    process = subprocess.run(  # noqa: S603
        [sys.executable, "-c", KILLED.format(end=end), str(root)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return Path(process.stdout.strip())


def test_nobody_else_can_open_it_and_it_goes_when_it_is_told_to(tmp_path):
    made = Scratch(tmp_path)
    (made.path / "notes.csv").write_text("x")
    assert stat.S_IMODE(made.path.stat().st_mode) == 0o700 and made.path.is_relative_to(tmp_path)
    made.cleanup()
    made.cleanup()
    assert not made.path.exists()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_it_goes_with_whoever_held_it(tmp_path):
    path = Scratch(tmp_path).path
    gc.collect()
    assert not path.exists()
    assert not left_by(tmp_path, "").exists(), "a process that ended in order"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_it_goes_with_whoever_held_it_after_it_was_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "LOOK_SECONDS", 0.01)
    looks: list[bool] = []
    made = Scratch(tmp_path, lambda: looks.append(True) or True)
    path, end = made.path, time.monotonic() + 60
    while len(looks) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert looks and path.exists()
    del made
    while path.exists() and time.monotonic() < end:  # the thread may just be looking at it
        gc.collect()
        time.sleep(0.01)
    assert not path.exists()


def test_what_a_killed_process_left_is_swept_and_what_is_in_use_is_not(tmp_path):
    left = left_by(tmp_path, "os.kill(os.getpid(), 9)")
    assert (left / "notes.csv").exists()
    made = Scratch(tmp_path)
    sweep(tmp_path, left.stat().st_mtime + NEW_SECONDS - 1)
    assert left.exists(), "it might just have been made, and not be locked yet"
    sweep(tmp_path, time.time() + NEW_SECONDS + 1)
    assert not left.exists() and made.path.exists()
    made.cleanup()


def test_it_goes_when_nobody_has_needed_it_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(scratch, "LOOK_SECONDS", 0.01)
    needed, also = [True], [True]
    gone, stays = Scratch(tmp_path, lambda: needed[0]), Scratch(tmp_path, lambda: also[0])
    needed[0] = False
    end = time.monotonic() + 60
    while gone.path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert gone.gone and not gone.path.exists() and stays.path.exists() and not stays.gone
    stays.cleanup()


def test_one_that_cannot_be_asked_keeps_no_other_one(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(scratch, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(scratch, "LOOK_SECONDS", 0.01)

    def broken() -> bool:
        raise RuntimeError("the server is going down")

    first, second = Scratch(tmp_path, broken), Scratch(tmp_path, lambda: False)
    end = time.monotonic() + 60
    while second.path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert first.path.exists() and not second.path.exists() and "going down" in caplog.text
    first.cleanup()


def test_nothing_stays_longer_than_an_upload_may(tmp_path, monkeypatch):
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "1")
    made = Scratch(tmp_path)
    since = made.path.stat().st_mtime
    sweep(tmp_path, since + 3_590)
    assert made.path.exists()
    sweep(tmp_path, since + 3_610)
    assert not made.path.exists()
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "for ever")
    sweep(tmp_path)
    made.cleanup()
