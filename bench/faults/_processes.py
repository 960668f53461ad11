"""Real processes to kill: commands, the app's server, and the worker of the job engine, each with work on a store.

After a kill the work goes on as it does for people: the command is given again, the server is started again and the
button pressed again, and the engine starts another worker by itself.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil

from bench.faults import _stages
from bench.load._client import Session
from bench.load._server import serving
from core.spec import RunSpec, audit_of

ROOT = Path(__file__).resolve().parents[2]
TRAIN = (
    *("train", "--model", "distilbert", "--corpus", "tiny", "--epsilon", "8", "--delta", "1e-3", "--epochs", "1"),
    *("--batch-size", "16", "--vocabulary-epsilon", "2", "--vocabulary-pieces", "64", "--samples-per-prompt", "2"),
)
TAKEN = "is not an empty folder"
PAGE = "cohort=tiny&epsilon=8&epochs_private_45=1"  # of Train: GPT-2 on 72 notes


class Process(Protocol):
    """Work that is done by a process of its own."""

    @property
    def pid(self) -> int | None:
        """The process to kill; None while there is none."""

    def ended(self) -> bool:
        """Whether the work is over. Raises RuntimeError if it failed."""

    def again(self) -> None:
        """After a kill: what a person does so that the work goes on."""


Begin = Callable[[Path], contextlib.AbstractContextManager[Process]]


@dataclass(frozen=True)
class Task:
    """Work on a store, and a function of a module that makes what it needs there before."""

    name: str
    begin: Begin
    before: _stages.Work | None = None


# Commands ------------------------------------------------------------------------------------------------------------


class _Command:
    """`python -m core …`. `refused` is what it says if it is given again after it has ended."""

    def __init__(self, arguments: list[str], beside: Path, refused: str) -> None:
        self.arguments, self.beside, self.refused = arguments, beside, refused
        self._first = True
        self._start()

    def _start(self) -> None:
        with self.beside.open("wb") as said:
            self.process = subprocess.Popen(  # noqa: S603 — this program
                [sys.executable, "-m", "core", *self.arguments],
                cwd=ROOT,
                env={**os.environ, "PHILAB_SHIPPED": str(self.beside.parent / "nothing")},
                stdout=subprocess.DEVNULL,
                stderr=said,
            )

    @property
    def pid(self) -> int | None:
        return self.process.pid

    def ended(self) -> bool:
        code = self.process.poll()
        if code is None:
            return False
        said = self.beside.read_text(errors="replace")
        if code and (self._first or not self.refused or self.refused not in said):
            raise RuntimeError(f"exit code {code}: {said[-600:]}")
        return True

    def again(self) -> None:
        self.process.wait()
        self._first = False
        self._start()


def command(arguments: Callable[[Path], list[str]], refused: str = "") -> Begin:
    """A task for `python -m core` with these arguments, given the store."""

    @contextlib.contextmanager
    def begin(root: Path) -> Iterator[Process]:
        work = _Command(arguments(root), root.with_name(f"{root.name}.said"), refused)
        try:
            yield work
        finally:
            work.process.kill()
            work.process.wait()

    return begin


def _out(root: Path) -> list[str]:
    return ["--out", str(root / "imported")]


def _audit_command(root: Path) -> list[str]:
    attacks = [part for name in _stages.ATTACKS for part in ("--attack", name)]
    return ["audit", _stages.PLAIN.run_id, "--suite", "full", *attacks, "--data", str(root)]


def _ledger_command(root: Path) -> list[str]:
    return ["ledger", "--release", _stages.PLAIN.run_id, "--reason", "a test of kills", "--yes", "--data", str(root)]


# Workers -------------------------------------------------------------------------------------------------------------


class _Job:
    """A job of the engine, which runs in this process; the process to kill is its worker."""

    def __init__(self, engine: Any, job_id: str) -> None:
        self.engine, self.job_id = engine, job_id

    @property
    def pid(self) -> int | None:
        cluster = self.engine._connection._process
        if cluster is None:
            return None
        with contextlib.suppress(psutil.Error):
            for one in psutil.Process(cluster.pid).children(recursive=True):
                if any("spawn_main" in part for part in one.cmdline()):
                    return one.pid
        return None

    def ended(self) -> bool:
        job = self.engine.status(self.job_id)
        if job.state in ("failed", "interrupted", "cancelled"):
            raise RuntimeError(f"the job is {job.state}: {job.message}")
        return not job.active

    def again(self) -> None:
        """The engine starts another worker and gives it the job by itself."""


def job(submit: Callable[[Any], Any]) -> Begin:
    """A task for a job that `submit` gives to an engine."""

    @contextlib.contextmanager
    def begin(root: Path) -> Iterator[Process]:
        from core.jobs.engine import Engine

        engine = Engine.connect(workspace=_stages._workspace(root))
        try:
            engine._start()  # the import of the program in the worker is not what is measured
            yield _Job(engine, submit(engine).id)
        finally:
            engine.close()

    return begin


def leave_attacks(root: Path, run_id: str) -> None:
    """Note every attack of a run's full audit as done, except for three."""
    from core.pipeline.full_audit import chosen_attacks
    from core.runs.audits import Outcome

    workspace = _stages._workspace(root)
    run = workspace.run(run_id)
    workspace.begin_audit(run.id, run.spec.corpus)
    stored = workspace.audit(run.id)
    for attack in chosen_attacks(run, None):
        if attack.name not in _stages.ATTACKS:
            stored.record(Outcome(attack.name, "done", 0.0, "", (), attack.version, 1.0), {})


def before_audit(root: Path) -> None:
    """A run, of whose full audit three attacks are left."""
    _stages._train_plain(root)
    leave_attacks(root, _stages.PLAIN.run_id)


# Servers -------------------------------------------------------------------------------------------------------------


class _Server:
    """`streamlit run app.py`, and a session that asks for the work on a page and presses the button again after a kill.

    The worker of a killed server ends a moment later; until then it has the job, and the page no button.
    """

    def __init__(self, root: Path, page: str, link: str, button: str, done: Callable[[Path], bool]) -> None:
        self.root, self.page, self.link, self.button, self.done = root, page, link, button, done
        self._stack = ExitStack()
        self._asked = False
        self._start()
        self._ask()

    def _start(self) -> None:
        beside = self.root.with_name(f"{self.root.name}.said")
        served = self._stack.enter_context(serving(self.root, beside, self.root.with_name("nothing")))
        self.process = served.process
        self.session = self._stack.enter_context(Session(served.address))

    def _ask(self) -> None:
        """Open the page, and press the button if it is there."""
        drawn = self.session.open(self.page, self.link)
        if drawn.exceptions:
            raise RuntimeError(f"the page {self.page} has an exception: {drawn.exceptions}")
        self._asked = False
        with contextlib.suppress(LookupError):
            drawn = self.session.press_key(self.button)
            self._asked = True
        if drawn.exceptions:
            raise RuntimeError(f"the page {self.page} has an exception: {drawn.exceptions}")

    @property
    def pid(self) -> int | None:
        return self.process.pid

    def ended(self) -> bool:
        from core.jobs.work import Work

        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended with {self.process.returncode}")
        jobs = [one for one in Work.asked_for(_stages._workspace(self.root)) if one.spec() is not None]
        for one in jobs:
            status = one.status()
            if status is not None and status.state == "failed":
                raise RuntimeError(f"the job failed: {status.message}")
        if not jobs and self.done(self.root):
            return True
        if not self._asked:  # the last worker still had the job
            self._ask()
        return False

    def again(self) -> None:
        self.process.wait()
        self._start()
        self._ask()

    def close(self) -> None:
        """End the server, and wait until its worker has ended too."""
        with contextlib.suppress(Exception):
            self._stack.close()


def server(page: str, link: str, button: str, done: Callable[[Path], bool]) -> Begin:
    """A task for a button (by its key) of a page; `done` says whether the store has what was asked for."""

    @contextlib.contextmanager
    def begin(root: Path) -> Iterator[Process]:
        work = _Server(root, page, link, button, done)
        try:
            yield work
        finally:
            work.close()

    return begin


def _trained(root: Path) -> bool:
    return any(not run.spec.is_base for run in _stages._workspace(root).runs())


def _audited(root: Path) -> bool:
    from core.jobs.work import Work

    return Work(_stages._workspace(root), _stages.PLAIN.run_id, is_audit=True).finished() is not None


def before_page(root: Path) -> None:
    """The cohort, and the run of the public model that the page's training is compared with."""
    from core.pipeline.training_run import execute

    page = RunSpec(corpus=_stages.CORPUS, audit=audit_of(_stages.CORPUS))
    execute(page.base_spec(), _stages._workspace(root))


# The tasks -----------------------------------------------------------------------------------------------------------

_AUDITED = _stages.PLAIN.run_id
COURSES: dict[str, tuple[Task, ...]] = {
    "worker": (
        Task("training, attacks, publishing", job(lambda engine: engine.submit(_stages.SPEC))),
        Task("audit", job(lambda engine: engine.submit_audit(_AUDITED)), before_audit),
    ),
    "server": (
        Task("audit", server("membership", f"right={_AUDITED}", f"battery-{_AUDITED}", _audited), before_audit),
        Task("training, attacks, publishing", server("train", PAGE, "train", _trained), before_page),
    ),
    "command": (
        Task("cohort", command(lambda root: ["corpus", "--preset", "tiny", *_out(root)], TAKEN)),
        Task(
            "import",
            command(lambda root: ["corpus", "--from", str(_stages.source(root)), *_out(root)], TAKEN),
            _stages._notes,
        ),
        Task("ledger", command(_ledger_command, "is in the ledger already"), before_audit),
        Task("audit", command(_audit_command), before_audit),
        Task("training, attacks, publishing", command(lambda root: [*TRAIN, "--data", str(root)])),
    ),
}
