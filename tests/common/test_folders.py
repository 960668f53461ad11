"""Publishing by several processes at once, with every window held open, and what a killed one leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from core.common.folders import NEW_SECONDS, building, folders_in, publish, remove, sweep
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS

ROOT = Path(__file__).resolve().parents[2]
SLOW = """
import os, sys, time
from pathlib import Path
from core.common import folders
real = os.rename
def rename(source, target):
    time.sleep(0.15)
    real(source, target)
    time.sleep(0.15)
os.rename = rename
"""
WRITER = (
    SLOW
    + """
root, go, enough = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
with folders.building(root, private=False) as made:
    (made / "table").write_text("whole")
    print("ready", flush=True)
    while not go.exists():
        time.sleep(0.01)
    folders.publish(made, root / "final", lambda folder: (folder / "table").exists())
while not enough.exists():
    time.sleep(0.01)
"""
)
COHORT = (
    SLOW
    + """
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
Workspace(sys.argv[1], shared=()).corpus(CORPUS_PRESETS["smoke"])
"""
)
KILLED = """
import os, sys
from pathlib import Path
from core.common.folders import building
with building(Path(sys.argv[1]), private=True) as made:
    (made / "notes").write_text("somebody's")
    print(made, flush=True)
    sys.stdin.read()
"""


def start(code: str, *arguments: object) -> subprocess.Popen:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def whole(folder: Path) -> bool:
    return (folder / "table").exists()


def test_of_writers_at_once_none_fails_and_a_reader_never_misses_the_name(tmp_path: Path) -> None:
    """Three processes, each rename .15 s slow on both sides; a broken folder is in the place."""
    final = tmp_path / "final"
    writers = [start(WRITER, tmp_path, tmp_path / "go", tmp_path / "enough") for _ in range(3)]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * 3
    (tmp_path / "go").touch()
    looks, missed, seen = 0, 0, False
    while any(writer.poll() is None for writer in writers):
        there = whole(final)
        seen = seen or there
        looks, missed = looks + seen, missed + (seen and not there)
        if looks > 10:  # a slow reader has looked, too
            (tmp_path / "enough").touch()
        time.sleep(0.002)
    errors = [writer.communicate()[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0], errors
    assert looks > 10 and missed == 0 and [path.name for path in tmp_path.glob("*/")] == ["final"]


def test_a_broken_folder_gives_way_once(tmp_path: Path) -> None:
    final = tmp_path / "final"
    final.mkdir()
    for expected in (True, False):
        with building(tmp_path, private=False) as made:
            (made / "table").write_text(str(expected))
            assert publish(made, final, whole) == expected
    assert (final / "table").read_text() == "True" and [path.name for path in tmp_path.iterdir()] == ["final"]


def test_a_cohort_made_by_three_processes_at_once(tmp_path: Path) -> None:
    makers = [start(COHORT, tmp_path) for _ in range(3)]
    spec, looks, missed = CORPUS_PRESETS["smoke"], 0, 0
    reader = Workspace(tmp_path, shared=())
    while any(maker.poll() is None for maker in makers):
        there = reader.corpus_folder(spec) is not None
        looks, missed = looks + (there or looks > 0), missed + (looks > 0 and not there)
        time.sleep(0.002)
    errors = [maker.communicate()[1] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0, 0], errors
    assert missed == 0 and len(reader.corpus(spec).notes) > 0
    assert [path.name for path in (tmp_path / "corpora").iterdir()] == [spec.digest()]


def test_what_a_killed_process_left_is_swept_and_a_living_ones_is_not(tmp_path: Path) -> None:
    later = time.time() + NEW_SECONDS + 1
    process = start(KILLED, tmp_path)
    made = Path(process.stdout.readline().strip())
    sweep(tmp_path, later)
    assert made.exists(), "its maker lives"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    sweep(tmp_path, made.stat().st_mtime + NEW_SECONDS - 1)
    assert made.exists(), "too new to tell"
    sweep(tmp_path, later)
    assert not made.exists()


def test_leftovers_of_earlier_versions_are_swept_when_a_store_is_opened(tmp_path: Path) -> None:
    spec = CORPUS_PRESETS["smoke"]
    names = ["corpora/.old-abc", "corpora/.building-abc", "runs/.old-abc", "references/.training-abc"]
    for name in names:
        (tmp_path / name / "deep").mkdir(parents=True)
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "corpora" / ".keep").mkdir()
    Workspace(tmp_path, shared=()).corpus(spec)
    assert not any((tmp_path / name).exists() for name in names) and (tmp_path / "corpora" / ".keep").exists()


def test_a_folder_is_removed_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "notes" / "deep").mkdir(parents=True)
    remove(tmp_path / "notes")
    remove(tmp_path / "notes")
    assert list(tmp_path.iterdir()) == []


def test_folders_are_listed_by_name_without_hidden_ones_and_files(tmp_path: Path) -> None:
    for name in ("b", "a", ".made"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert [path.name for path in folders_in(tmp_path)] == ["a", "b"] and folders_in(tmp_path / "nothing") == []
