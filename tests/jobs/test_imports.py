"""Checks of brought notes, each in a process of its own: its outcome, its end, and that nothing of it stays behind."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.corpus.importing.files import BadNotes
from core.corpus.importing.importer import STAGES, import_notes
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.jobs import import_task, imports
from core.jobs.imports import AT_ONCE, Check, Checks
from core.runs.uploads import scratch
from core.runs.uploads.scratch import PREFIX
from core.spec import CORPUS_PRESETS

pytestmark = pytest.mark.slow

WAIT = 120  # seconds; a process that imports pandas and scikit-learn on a busy core
ROOT = Path(__file__).resolve().parents[2]
NOTES = build(CORPUS_PRESETS["smoke"]).notes


@pytest.fixture(autouse=True)
def first_rows_have_time(monkeypatch) -> None:
    """Of the column that expands without end, a busy core took 68 seconds to find that."""
    monkeypatch.setattr(imports, "PREVIEW_SECONDS", 4 * WAIT)


@pytest.fixture
def notes_file(tmp_path) -> Path:
    path = tmp_path / "ward.csv"
    NOTES[NOTES["split"] != "canary"][["patient_id", "text"]].to_csv(path, index=False)
    return path


@pytest.fixture
def endless(tmp_path) -> Path:
    """Notes that are checked for longer than any test here takes."""
    path = tmp_path / "endless.csv"
    rows = (f"P{n % 40},Mr. Paul Stone came {n} times to ward {n * 7919 % 100_003} and left\n" for n in range(250_000))
    path.write_text("patient_id,text\n" + "".join(rows))
    return path


@pytest.fixture
def start(tmp_path):
    """Starts checks whose data folder is `tmp_path / "data"`, and ends them after the test."""
    checks, begun = Checks(), []

    def go(path: Path, alive: Callable[[], bool] = lambda: True, **options) -> Check:
        begun.append(checks.start(tmp_path / "data", path, options, alive=alive))
        return begun[-1]

    yield go
    for check in begun:
        check.end()


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + WAIT
    while not true():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "data").rglob(f"{PREFIX}*"))


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def process_of(check: Check) -> subprocess.Popen:
    until(lambda: check._process is not None)
    return check._process


def test_a_check_is_what_an_import_here_is(start, notes_file, tmp_path):
    check = start(notes_file, owner="ada", canaries=6)
    shares = [0.0]
    until(lambda: shares.append(check.progress().share) or not check.active)
    assert (check.state, check.message) == ("done", "")
    assert shares == sorted(shares) and 0 < shares[-1] <= 1
    (tmp_path / "here").mkdir()
    assert check.seen == import_notes(notes_file, tmp_path / "here", owner="ada", canaries=6)
    assert Corpus.read(check.cohort).content_id("ada") == check.seen.spec.imported
    assert check.cohort.parent.stat().st_mode & 0o077 == 0
    check.end()
    assert not left(tmp_path) and check.state == "ended"


def test_a_check_loads_the_tagger_and_not_torch(start, endless):
    """spaCy would import torch, which takes longer than a check of a few notes."""
    check = start(endless)
    process = psutil.Process(process_of(check).pid)
    until(lambda: check.progress().share > 0 or not check.active)
    loaded = {Path(file.path).parts[-2] for file in process.memory_maps() if file.path.endswith(".so")}
    assert "spacy" in loaded and "torch" not in loaded


def test_a_check_that_takes_too_long_is_ended_with_a_sentence(start, endless, tmp_path):
    check = start(endless)
    process = process_of(check)
    until(lambda: check.state == "running")
    assert math.isfinite(check._latest) and check._latest - time.monotonic() <= imports.MOST_SECONDS
    check._latest = 0.0
    until(lambda: not check.active)
    assert check.state == "failed" and check.message.startswith("The check was ended after 20 minutes, the most")
    assert has_ended(process.pid) and not left(tmp_path)


@pytest.mark.parametrize(
    ("content", "options", "sentence"),
    [
        (b"patient_id,text\nA,x\nB,\xe9\n", {}, "ward.csv, row 3, column “text”: the text is not UTF-8"),
        (b"patient_id,text\nA,x\n", {"population": 2}, "population must be a share between 0 and 0.5, not 2"),
    ],
)
def test_what_is_wrong_is_the_sentence_it_would_be_here(start, tmp_path, content, options, sentence):
    path = tmp_path / "ward.csv"
    path.write_bytes(content)
    check = start(path, **options)
    until(lambda: not check.active)
    assert check.state == "failed" and check.message.startswith(sentence)
    assert not left(tmp_path)


def test_cancelling_ends_the_process_at_once_and_leaves_nothing(start, endless, tmp_path):
    check = start(endless)
    process = process_of(check)
    check.end()
    assert process.poll() == -9 and not left(tmp_path)
    check.end()


def test_a_process_that_was_killed_is_told_as_lack_of_memory(start, endless, tmp_path):
    check = start(endless)
    process_of(check).kill()
    until(lambda: not check.active)
    assert check.state == "failed" and "ran out of memory" in check.message and not left(tmp_path)


def test_a_check_goes_when_nobody_waits_for_it_any_more(start, endless, notes_file, tmp_path, monkeypatch):
    monkeypatch.setattr(scratch, "GRACE_SECONDS", 0.1)
    there = True
    checks = [start(endless, lambda: there), start(notes_file, lambda: there)]
    until(lambda: checks[1].state == "done")
    there = False
    until(lambda: all(check.state == "ended" for check in checks))
    assert not left(tmp_path) and checks[0]._process.poll() == -9


def test_only_so_many_run_at_once_and_the_next_begins_when_one_ends(start, endless):
    first = [start(endless) for _ in range(AT_ONCE)]
    last = start(endless)
    for check in first:
        process_of(check)
    assert last.state == "queued" and last.progress().share == 0
    first[0].end()
    until(lambda: last.state == "running")


def test_what_goes_wrong_with_one_check_stops_no_other(start, endless, notes_file, tmp_path, monkeypatch, caplog):
    """The thread that looks at all of them must not end with one."""
    broken = start(endless)
    process = process_of(broken)
    monkeypatch.setattr(broken, "look", lambda: {}["missing"])
    until(lambda: broken.state == "failed")
    assert "unexpected error" in broken.message and "KeyError" in caplog.text
    assert process.poll() == -9 and not left(tmp_path)
    other = start(notes_file)
    until(lambda: other.state == "done")


ASKING = """
import sys, time
from pathlib import Path
from core.jobs.imports import CHECKS
check = CHECKS.start(Path(sys.argv[1]), Path(sys.argv[2]), {}, alive=lambda: True)
while check.state == "queued":
    time.sleep(0.02)
print(check._process.pid, flush=True)
time.sleep(600)
"""


def test_no_check_outlives_the_server_even_when_it_is_killed(endless, tmp_path):
    asking = [sys.executable, "-c", ASKING, str(tmp_path / "data"), str(endless)]
    server = subprocess.Popen(asking, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603
    pid = int(server.stdout.readline())
    (folder,) = left(tmp_path)
    until(lambda: (folder / import_task.COHORT).is_dir())
    server.kill()
    server.wait()
    server.stdout.close()
    until(lambda: has_ended(pid))
    assert not left(tmp_path), "the process took what it wrote with it"


def test_what_a_check_writes_while_its_folder_is_removed_goes_too(tmp_path, monkeypatch):
    folder, ended, remove = tmp_path / "check", [], os.rmdir
    (folder / import_task.COHORT).mkdir(parents=True)
    late = [folder / import_task.FAILED_FILE, folder / import_task.PROGRESS_FILE]

    def written_to(path, **options) -> None:
        if late and Path(path).name != import_task.COHORT:
            late.pop().write_text("{}")
        remove(path, **options)

    monkeypatch.setattr(os, "rmdir", written_to)
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    import_task._end_with_parent(folder)
    assert not late and ended == [1] and not folder.exists()


def test_the_stages_are_what_an_import_tells_in_their_order(notes_file, tmp_path):
    told: list[str] = []
    import_notes(notes_file, tmp_path, on_progress=lambda what, done, total: told.append(what))
    assert list(dict.fromkeys(told)) == list(STAGES) and sum(STAGES.values()) == pytest.approx(1)


def test_a_fault_that_nobody_foresaw_is_a_sentence_and_what_it_was_stays_in_the_log(tmp_path, monkeypatch, caplog):
    def broken(*_, **__):
        raise KeyError("a patient's name")

    monkeypatch.setattr(import_task, "import_notes", broken)
    import_task.check(tmp_path, "notes.csv", {})
    failed = (tmp_path / import_task.FAILED_FILE).read_text()
    assert "KeyError" in failed and "name" not in failed and "patient's name" in caplog.text
    assert not (tmp_path / import_task.COHORT).exists()


def test_a_check_that_was_ended_stays_ended_at_whichever_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its turn, its process and its outcome: the windows are widened, and no process or folder is left."""
    started: list[subprocess.Popen] = []

    def slow(check: Check) -> subprocess.Popen:
        time.sleep(0.04)
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        time.sleep(0.04)
        return started[-1]

    def odd(check: Check) -> None:
        time.sleep(0.02)
        raise RuntimeError("odd")

    monkeypatch.setattr("core.jobs.imports.LOOK_SECONDS", 0.01)
    monkeypatch.setattr(Check, "_started", slow)
    monkeypatch.setattr(Check, "look", odd)
    for step in range(12):
        checks = Checks()
        check = checks.start(tmp_path, tmp_path / "notes.csv", {}, alive=lambda: True)
        time.sleep(step * 0.012)
        check.end()
        watching = checks._thread
        if watching is not None:
            watching.join(timeout=60)
        assert not check.cohort.parent.exists() and check.state in ("ended", "failed")
    assert all(process.poll() is not None for process in started)


def test_a_fault_after_the_end_does_not_undo_it(tmp_path: Path) -> None:
    check = Check(tmp_path, tmp_path / "notes.csv", {}, lambda: True)
    check.end()
    check.fail("Too late.")
    assert (check.state, check.message) == ("ended", "")


def test_first_rows_are_read_elsewhere(tmp_path):
    path = tmp_path / "ward.csv"
    path.write_text(f"patient,note\n1,{'x' * 400}\n2,world\n")
    found = imports.first_rows(path)
    assert found["patient"].tolist() == ["1", "2"] and found["note"].tolist() == [f"{'x' * 300} …", "world"]
    path.write_text("patient,note\n")
    with pytest.raises(BadNotes, match="nothing to read"):
        imports.first_rows(path)


def test_a_small_file_that_expands_without_end_ends_the_other_process_alone(tmp_path):
    """A column of Parquet may repeat one value: 3 kB become 7.5 GB in the first batch."""
    path = tmp_path / "bomb.parquet"
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 250, pa.int32()), pa.array(["a" * 30_000_000]))
    pq.write_table(pa.table({"note": values}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    with pytest.raises(BadNotes, match=r"bomb\.parquet: its first rows need more memory"):
        imports.first_rows(path)


def test_first_rows_that_take_too_long_are_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "PREVIEW_SECONDS", 0.01)
    with pytest.raises(BadNotes, match="could not be read within"):
        imports.first_rows(tmp_path / "ward.csv")


def test_a_name_of_any_characters_is_passed_on(tmp_path):
    """A line of plain text would end at the first line break."""
    path = tmp_path / "wärd \n🩺.csv"
    path.write_text("patient,note\n1,hello\n", encoding="utf-8")
    assert imports.first_rows(path)["note"].tolist() == ["hello"]
