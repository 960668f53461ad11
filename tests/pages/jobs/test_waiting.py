"""A waiting job says when it should start."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.jobs.work import Job, JobState
from core.runs.progress import Progress
from core.spec import CORPUS_PRESETS, RunSpec, recipe
from pages.parts.jobs import waiting


def job(number: int, state: JobState) -> Job:
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"], training=recipe("gpt2", seed=number))
    return Job(spec.run_id, spec, state, "", 0.0, number)


def engine_of(root: Path, jobs: list[Job], ends: list[float | None]) -> Any:
    """An engine with these jobs, those that run first, and the ends of those that run."""
    now = time.time()
    progress = {one.id: Progress(ends=None if end is None else now + end) for one, end in zip(jobs, ends, strict=False)}
    return SimpleNamespace(workspace=SimpleNamespace(root=root), jobs=lambda: jobs, progress=progress.__getitem__)


@pytest.fixture
def ten_minutes_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_expected", lambda root, job_id, job: 600.0)


def test_each_waits_for_the_running_one_and_those_before(tmp_path: Path, ten_minutes_each: None) -> None:
    jobs = [job(0, "running"), job(1, "queued"), job(2, "queued")]
    engine = engine_of(tmp_path, jobs, [300.0])
    said = [waiting.in_words(one, Progress(), engine) for one in jobs[1:]]
    assert said == [
        "Waiting: 1 job of all users ahead · starts in about 5 min",
        "Waiting: 2 jobs of all users ahead · starts in about 15 min",
    ]


@pytest.mark.parametrize("ends", [[], [None], [300.0, None]])
def test_no_time_while_nothing_runs_or_an_end_is_unknown(
    tmp_path: Path, ten_minutes_each: None, ends: list[float | None]
) -> None:
    jobs = [job(place, "running") for place in range(len(ends))] + [job(5, "queued")]
    said = waiting.in_words(jobs[-1], Progress(), engine_of(tmp_path, jobs, ends))
    assert said == "Waiting: 5 jobs of all users ahead"


def test_a_job_takes_what_train_promises_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    jobs = [job(0, "running"), job(1, "queued"), job(2, "queued")]
    first, second = waiting.starts(engine_of(tmp_path, jobs, [300.0])).values()
    promised = waiting.whole(waiting.expected_stages(jobs[1].spec, waiting.resources.every_workspace()))
    assert first == pytest.approx(300.0, abs=30) and second - first == pytest.approx(promised)
