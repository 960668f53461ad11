"""Processes that are killed at any moment: `python -m core bench kills --kills 100 --seed 0 --json`.

A stage is a piece of work on a small store: making a cohort; training with a vocabulary of its own, which includes the
control, the attacks and publishing; a full audit; a release; an import; keeping an upload. Each is done once without
interruption. Then it is begun again and again in a child process that gets SIGKILL at a random moment: at a random
time, or just before a random operation on a file of the store, where a half-written file would show. After each kill
the store is looked at as pages and `verify` do. In the end the stage is done to its end, and compared with the first:
the same runs, once each, the same weights and tables bit for bit, the same ε. Ctrl+C ends it with the counts so far.

The child is a fork of a process that has imported the program and computed nothing, so that a kill costs a second and
not the seconds of an import. `--course processes` kills real processes instead
(`_kill_processes`).
"""

from __future__ import annotations

import contextlib
import json as json_format
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.faults._stages import STAGES, Found, Stage, Work, contents, copy_store, visible

FAILED, MOST_IN_A_ROW = 71, 4
NAMES = {"endings": "done to the end", "half_written": "half-written"}  # in what is printed


# Children ------------------------------------------------------------------------------------------------------------


def _on_file(root: Path, then: Callable[[int], None]) -> None:
    """Call `then` with a count before each operation of Python on a file of the store."""
    count, inside = 0, str(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event in ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "shutil.rmtree"):
            path = arguments[0]
            if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(inside):
                count += 1
                then(count)

    sys.addaudithook(hook)


def child(work: Work, root: Path, *, at_file: int | None = None, after: float | None = None) -> tuple[int, float, str]:
    """Do `work` in a fork: its exit code (−9: it was killed), the seconds it took, and what it said.

    Args:
        work: What to do.
        root: The store.
        at_file: Kill it before this operation on a file (1: the first). None: not.
        after: Kill it after so many seconds. None: not.
    """
    said = root.with_name(f"{root.name}.said")
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _in_child(work, root, at_file, said)
    if after is not None:
        end = begun + after
        while time.monotonic() < end:
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)  # a process that has ended is still there until it is waited for
    _, status = os.waitpid(pid, 0)
    text = said.read_text() if said.exists() else ""
    said.unlink(missing_ok=True)
    return os.waitstatus_to_exitcode(status), time.monotonic() - begun, text


def _in_child(work: Work, root: Path, at_file: int | None, said: Path) -> None:
    """Never returns."""
    code = FAILED
    try:
        if at_file is not None:
            counted = [0]

            def one_more(count: int) -> None:
                counted[0] = count
                if count == at_file:
                    os.kill(os.getpid(), signal.SIGKILL)

            _on_file(root, one_more)
        work(root)
        code = 0
        if at_file is not None:
            said.write_text(str(counted[0]))
    except BaseException:
        said.write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _said_in_child(look: Callable[[Path], Any], root: Path) -> Any:
    """What `look` returns, in a fork: this process must compute nothing, as later forks would get its threads."""
    answer = root.with_name(f"{root.name}.answer")

    def tell(root: Path) -> None:
        answer.write_text(json_format.dumps(look(root)))

    code, _, text = child(tell, root)
    if code:
        raise RuntimeError(text)
    found = json_format.loads(answer.read_text())
    answer.unlink()
    return found


# Killing -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A stage that was not interrupted: its store before and after, seconds, and operations on files."""

    before: Path
    contents: dict[str, str]
    seconds: float
    operations: int


def reference(stage: Stage, folder: Path) -> Reference:
    """Do a stage without interruption."""
    before, done = folder / "before", folder / "done"
    if stage.before is not None:
        code, _, text = child(stage.before, before)
        if code:
            raise RuntimeError(f"{stage.name}: {text}")
    before.mkdir(parents=True, exist_ok=True)
    copy_store(before, done)
    code, seconds, text = child(stage.work, done, at_file=0)
    if code:
        raise RuntimeError(f"{stage.name}: {text}")
    found = _said_in_child(contents, done)
    return Reference(before, found, seconds, int(text))


def killed(stage: Stage, known: Reference, root: Path, moments: list[tuple[str, float]], found: Found) -> None:
    """Begin a stage, kill it at each moment in turn, look at the store each time, and do it to its end.

    Args:
        stage: The stage.
        known: The same without interruption.
        root: A new store.
        moments: ("file", share of the operations) or ("time", share of the seconds).
        found: Where it is counted.
    """
    copy_store(known.before, root)
    for how, share in moments:
        if how == "file":
            code, _, text = child(stage.work, root, at_file=max(1, round(share * known.operations)))
        else:
            code, _, text = child(stage.work, root, after=share * known.seconds)
        if code == FAILED:
            found.failed.append(f"{stage.name}, {how} {share:.3f}: {text[-400:]}")
        if code != -signal.SIGKILL:
            break  # it had ended: a second beginning has less to do
        found.kills += 1
        found.half_written += [f"{stage.name}, {how} {share:.3f}: {one}" for one in _said_in_child(visible, root)]
    code, _, text = child(stage.work, root)
    if code:
        found.failed.append(f"{stage.name}, to its end: {text[-400:]}")
        return
    found.end(f"{stage.name} after {moments}", _said_in_child(contents, root), known.contents)
    found.half_written += [f"{stage.name}, at the end: {one}" for one in _said_in_child(visible, root)]
    shutil.rmtree(root)


def measure(kills: int, seed: int, stages: tuple[Stage, ...] = STAGES) -> dict[str, Found]:
    """Kill until there were so many kills, each stage in turn."""
    _import_program()
    rng = random.Random(seed)
    found = {stage.name: Found() for stage in stages}
    with tempfile.TemporaryDirectory() as folder:
        known = {stage.name: reference(stage, Path(folder) / str(at)) for at, stage in enumerate(stages)}
        with contextlib.suppress(KeyboardInterrupt):
            _until(kills, rng, stages, known, Path(folder), found)
    return found


def _until(
    kills: int,
    rng: random.Random,
    stages: tuple[Stage, ...],
    known: dict[str, Reference],
    folder: Path,
    found: dict[str, Found],
) -> None:
    at = 0
    while sum(one.kills for one in found.values()) < kills:
        stage = stages[at % len(stages)]
        moments = [(rng.choice(("file", "time")), rng.random()) for _ in range(rng.randint(1, MOST_IN_A_ROW))]
        killed(stage, known[stage.name], folder / f"store-{at}", moments, found[stage.name])
        at += 1
        print(f"{sum(one.kills for one in found.values())} kills", file=sys.stderr, flush=True)


def _import_program() -> None:
    """Import what children need, so that a fork need not."""
    import core.attacks.battery
    import core.cli.import_notes
    import core.corpus.importing.importer
    import core.models.build
    import core.pipeline.full_audit
    import core.pipeline.training_run
    import core.training.trainer  # noqa: F401


def main(
    json: bool = False,
    course: str = "forks",
    kills: int = 100,
    seed: int = 0,
    minutes: float | None = None,
    write: str | None = None,
) -> None:
    """Kill, and print the counts of each stage. Raises ValueError for a course that there is not."""
    begun = time.monotonic()
    if course == "forks":
        found = {name: asdict(one) for name, one in measure(kills, seed).items()}
    else:
        from bench.faults import _kill_processes

        every = tuple(_kill_processes.COURSES)
        if course not in (*every, "processes"):
            raise ValueError(f"--course: “{course}” is not one of forks, {', '.join(every)}, processes.")
        courses = every if course == "processes" else (course,)
        found = _kill_processes.measure(courses, kills, seed, minutes, None if write is None else Path(write))
    told = {name: {NAMES.get(key, key): value for key, value in one.items()} for name, one in found.items()}
    total = sum(one["kills"] for one in found.values())
    if json:
        print(json_format.dumps({"seconds": round(time.monotonic() - begun), "kills": total, "stages": told}, indent=1))
        return
    for name, one in told.items():
        print(f"{name}: {one}")
    print(f"{total} kills in {time.monotonic() - begun:.0f} s")
