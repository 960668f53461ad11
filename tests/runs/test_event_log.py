"""Events, status, progress and locks of runs that are being made."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from core.runs import events, lock
from core.runs.events import (
    EVENTS_FILE,
    EpochRecord,
    EventLog,
    InStepRecord,
    Status,
    StepRecord,
    append_event,
    read_events,
    read_status,
    replace_text,
    write_status,
)
from core.runs.lock import held, in_use
from core.runs.progress import Progress, ProgressReader, progress_of
from core.training.events import EpochEvent, InStepEvent, StepEvent

ROOT = Path(__file__).resolve().parents[2]


def step(number: int, **changes: object) -> dict:
    place = {"step": number, "steps": 4, "epoch": 1 + (number > 2), "epochs": 2}
    figures = {"loss": 5.0 - number, "epsilon": number / 10, "tokens": 10 * number, "seconds": 0.1, "eta_seconds": 1.0}
    return {"event": "step", "time": float(number)} | place | figures | changes


def epoch(number: int, at: int, bits: float) -> dict:
    figures = {"loss": 1.0, "eval_loss": 2.0, "epsilon": None, "canary_exposure": {"C1": bits}}
    return {"event": "epoch", "epoch": number, "step": at} | figures


def test_a_cut_off_line_and_rubbish_are_left_out(tmp_path: Path) -> None:
    assert read_events(tmp_path) == []
    append_event(tmp_path, {"event": "stage", "stage": "corpus", "message": "„Grüße“\nzwei"})
    figures = {"loss": np.float32(1.5), "epsilon": math.inf, "canary_exposure": {"C1": np.float64(2)}}
    append_event(tmp_path, {"event": "step", **figures})
    with (tmp_path / EVENTS_FILE).open("ab") as file:
        file.write(b'[1]\n"x"\n{"event": 5}\n\xff\xfe\n{"event": "step", "lo')
    first, second = read_events(tmp_path)
    assert first["message"] == "„Grüße“\nzwei"
    assert (second["loss"], second["epsilon"], second["canary_exposure"]) == (1.5, None, {"C1": 2.0})


def test_a_line_that_is_nested_too_deeply_is_left_out(tmp_path: Path) -> None:
    (tmp_path / EVENTS_FILE).write_text("[" * 100_000 + "\n", encoding="utf-8")
    append_event(tmp_path, {"event": "stage", "stage": "corpus"})
    assert [one["event"] for one in read_events(tmp_path)] == ["stage"]


def test_progress_is_said_seldom_but_its_end_always(tmp_path: Path) -> None:
    heard: list[dict] = []
    diary = EventLog(tmp_path, heard.append)
    diary.stage("audit: membership", "…")
    for done in range(1, 1_001):
        diary.progress(done, 1_000)
    said = [event["done"] for event in heard if event["event"] == "progress"]
    assert len(said) < 100 and said[-1] == 1_000
    assert heard == read_events(tmp_path)


def test_status_survives_being_damaged(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    write_status(tmp_path, Status(state="running", submitted=1.0))
    assert read_status(tmp_path) == Status(state="running", submitted=1.0)
    (tmp_path / "status.json").write_text('{"state": "asleep"}')
    assert read_status(tmp_path) is None


def test_a_status_is_read_whatever_the_locale(tmp_path: Path) -> None:
    """Every file is written as UTF-8; that of a failed run had no status under a locale of another encoding."""
    write_status(tmp_path, Status(state="failed", message="ε = 8 cannot be reached"))
    code = f"import core.runs.events as e; print(ascii(e.read_status(e.Path({str(tmp_path)!r})).message))"
    locale = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=locale, capture_output=True, text=True)  # noqa: S603
    assert done.stdout == "'\\u03b5 = 8 cannot be reached'\n", done.stderr


def test_threads_that_write_one_file_leave_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "status.json"
    texts = [str(number) * 200_000 for number in range(4)]
    with ThreadPoolExecutor(5) as pool:
        writing = [pool.submit(lambda text=text: [replace_text(path, text) for _ in range(40)]) for text in texts]
        while not all(one.done() for one in writing):
            assert not path.exists() or path.read_text() in texts
        for one in writing:
            one.result()
    assert [found.name for found in tmp_path.iterdir()] == ["status.json"]


def test_repeated_steps_count_once() -> None:
    events = [
        {"event": "stage", "stage": "training", "message": "Training"},
        *(step(1), step(2), epoch(1, 2, 3.0), step(3), epoch(2, 4, 9.0)),
        *(step(2), epoch(1, 2, 4.0), step(3, loss=None), step(4)),
    ]
    progress = progress_of(events)
    assert progress.steps_taken == [1, 2, 3, 4] and progress.loss == [4.0, 3.0, None, 1.0]
    assert progress.epsilon == [0.1, 0.2, 0.3, 0.4]
    assert progress.epoch_steps == [2] and progress.exposure == {"C1": [4.0]}
    assert progress.share == 1.0 and progress.tokens == 40


def test_progress_within_a_step_counts_until_the_step_is_over() -> None:
    within = {"event": "progress_in_step", "steps": 4, "epoch": 1, "epochs": 2, "loss": 4.5}
    events = [{"event": "stage", "stage": "training", "message": "Training"}]
    events.append(within | {"step": 1, "done": 16, "total": 64})
    first = progress_of(events)
    assert (first.step, first.done, first.total, first.step_loss, first.share) == (0, 16, 64, 4.5, 1 / 16)
    assert first.steps == 4 and first.loss == []
    after = progress_of([*events, step(1)])
    assert (after.done, after.total, after.step_loss, after.share) == (0, 0, None, 1 / 4)
    second = progress_of([*events, step(1), within | {"step": 2, "done": 32, "total": 64}])
    assert second.share == pytest.approx(1.5 / 4) and second.loss == [4.0]


def test_following_a_growing_diary_gives_what_reading_it_whole_gives(tmp_path: Path) -> None:
    reader = ProgressReader(tmp_path)
    assert reader.read() == Progress()
    for event in (step(1), step(2), epoch(1, 2, 3.0), step(3), step(2), step(3), {"event": "done", "message": "."}):
        append_event(tmp_path, event)
        with (tmp_path / EVENTS_FILE).open("ab") as file:
            file.write(b'{"event": "step", "lo')  # a look in the middle of a line
        taken = reader.read()
        os.truncate(tmp_path / EVENTS_FILE, (tmp_path / EVENTS_FILE).stat().st_size - len(b'{"event": "step", "lo'))
        assert taken == progress_of(read_events(tmp_path))
    taken.loss.clear()
    assert reader.read().loss, "what a page does with its copy is its own business"
    (tmp_path / EVENTS_FILE).rename(tmp_path / "old")
    append_event(tmp_path, step(1))
    assert reader.read().steps_taken == [1]


@pytest.mark.parametrize("after", [(step(1),), tuple(step(number, time=99.0 + number) for number in range(1, 9))])
def test_a_diary_begun_anew_in_the_same_file_is_read_from_its_start(tmp_path: Path, after: tuple[dict, ...]) -> None:
    reader = ProgressReader(tmp_path)
    for number in range(1, 6):
        append_event(tmp_path, step(number))
    assert reader.read().steps_taken == [1, 2, 3, 4, 5]
    file = (tmp_path / EVENTS_FILE).stat().st_ino
    os.truncate(tmp_path / EVENTS_FILE, 0)  # as a new file that the file system gives the old one's number
    for event in after:
        append_event(tmp_path, event)
    assert (tmp_path / EVENTS_FILE).stat().st_ino == file
    assert reader.read() == progress_of(read_events(tmp_path))


def test_stages_have_their_own_share() -> None:
    events = [{"event": "stage", "stage": "training", "message": "T"}, step(1)]
    assert progress_of(events).share == 0.25
    events += [{"event": "stage", "stage": "audit: extraction", "message": "E"}]
    assert progress_of(events).share == 0.0
    events += [{"event": "progress", "done": 3, "total": 4, "eta_seconds": 1.0}]
    assert (progress_of(events).share, progress_of(events).eta_seconds) == (0.75, 1.0)
    ended = progress_of([*events, {"event": "failed", "message": "no"}])
    assert (ended.stage, ended.message, ended.eta_seconds) == ("failed", "no", None)


def test_one_holder_at_a_time_and_waiting_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".lock"
    assert not in_use(path)
    with held(path, should_stop=lambda: False) as first:
        assert first and in_use(path)
        with held(path, should_stop=lambda: True) as second:
            assert not second
        order: list[str] = []

        def wait() -> None:
            with held(path, should_stop=lambda: False):
                order.append("waited")

        waiter = threading.Thread(target=wait)
        waiter.start()
        order.append("first")
    waiter.join(timeout=30)
    assert order == ["first", "waited"] and not path.exists() and not in_use(path)


def test_a_look_that_takes_long_is_not_taken_for_a_holder(tmp_path: Path) -> None:
    """A busy computer may stop a process within its look: a cancelled job would be taken for one that is worked on."""
    path = tmp_path / ".lock"
    path.touch()
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # as `in_use` does, and closes it
    looking = threading.Timer(0.3, os.close, (descriptor,))
    looking.start()
    with held(path, should_stop=lambda: True) as holding:
        assert holding
    looking.join()


def test_whoever_waits_for_a_lock_that_goes_with_its_folder_makes_both_again(tmp_path: Path) -> None:
    path, made, got = tmp_path / "prove" / ".lock", [], []
    waiting = threading.Event()

    def begin() -> None:
        made.append(path.parent.exists())
        path.parent.mkdir(exist_ok=True)

    def wait() -> None:
        with held(path, should_stop=waiting.set, begin=begin) as holding:
            got.append((holding, path.exists()))

    with held(path, should_stop=lambda: False, begin=begin):
        waiter = threading.Thread(target=wait)
        waiter.start()
        assert waiting.wait(30)
        shutil.rmtree(path.parent)  # as cancelled work does that leaves nothing
    waiter.join(timeout=30)
    assert got == [(True, True)] and made == [False, True, False]


def test_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys\nfrom core.runs.lock import held\n"
        "with held(pathlib.Path(sys.argv[1]), should_stop=lambda: False):\n"
        " print('held', flush=True)\n os.kill(os.getpid(), 9)"
    )
    path = tmp_path / ".lock"
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.stdout.strip() == "held" and path.exists()
    assert not in_use(path)
    with held(path, should_stop=lambda: pytest.fail("waited for the dead")) as holding:
        assert holding


def test_a_look_at_a_lock_does_not_count_as_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process is within `in_use` just when somebody wants the lock, and leaves it a moment later."""
    path = tmp_path / ".lock"
    look = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(look, fcntl.LOCK_SH)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        if not pauses:
            os.close(look)
        pauses.append(seconds)

    monkeypatch.setattr(lock.time, "sleep", pause)
    with held(path, should_stop=lambda: True) as holding:
        assert holding and pauses
        with held(path, should_stop=lambda: True) as twice:
            assert not twice, "a holder that stays is believed"


def test_the_event_after_a_cut_off_line_is_kept(tmp_path: Path) -> None:
    append_event(tmp_path, {"event": "stage", "stage": "corpus", "message": "first"})
    with (tmp_path / EVENTS_FILE).open("ab") as file:
        file.write(b'{"event": "step", "lo')  # its writer was killed
    for number in (1, 2):
        append_event(tmp_path, {"event": "step", "step": number})
    assert [event.get("step") for event in read_events(tmp_path)] == [None, 1, 2]


def test_an_event_that_the_system_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full takes a part of it, and says so only at the next write."""
    write, room = os.write, [5, 1_000]

    def piece(descriptor: int, text: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, text[: room.pop(0)])

    monkeypatch.setattr(events.os, "write", piece)
    append_event(tmp_path, {"event": "step", "step": 1})
    room[:] = [5]
    with pytest.raises(OSError, match="No space left"):
        append_event(tmp_path, {"event": "step", "step": 2})
    room[:] = [1_000]
    append_event(tmp_path, {"event": "step", "step": 3})
    assert [event["step"] for event in read_events(tmp_path)] == [1, 3]


@pytest.mark.parametrize(
    ("record", "event"), [(StepRecord, StepEvent), (InStepRecord, InStepEvent), (EpochRecord, EpochEvent)]
)
def test_a_line_of_the_log_has_the_fields_of_its_event(record: type, event: type) -> None:
    """`core.runs.events` has the types of the file, also of older versions, `core.training.events` those of today."""
    assert set(get_type_hints(record)) - {"event", "time"} >= {one.name for one in fields(event)}
