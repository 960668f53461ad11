"""Stores with as many runs as wanted, for measurements: shipped runs, and copies of them under other seeds.

A copy has the tables of the run that it was made from, a spec with a seed of its own, and so an id of its own. Its
checksums are taken anew. Its figures say nothing: they are those of another seed.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from core.common.files import replace_text
from core.runs.events import write_status
from core.runs.integrity.checksums import take
from core.runs.run import SPEC_FILE, Run
from core.runs.store import DEMO, Workspace
from core.spec import RunSpec
from core.spec.schema import written

SEEDS = 1_000  # more than the highest seed of a shipped run
MODEL = "model"


def fill(root: Path, count: int, *, source: Path = DEMO) -> list[str]:
    """Make `root` a data folder with `count` runs, and return their ids.

    Runs that keep their weights or are controls come first, then the other runs of `source`, then copies of those that
    are no controls, each in turn, without weights. The cohorts of `source` and the audits of its runs come along.

    Args:
        root: The data folder. Runs that are there already stay, so a store can grow.
        count: How many runs it has afterwards.
        source: A folder of runs, cohorts and audits, as `assets/demo` is.
    """
    shipped = Workspace(root / "nowhere", shared=(source,)).runs()
    shipped.sort(key=lambda run: (not run.spec.is_base, not run.has_model, run.status.finished or 0.0))
    _folders(source / "corpora", root / "corpora")
    _folders(source / "references", root / "references")
    made = [_shipped(run, root, source) for run in shipped[:count]]
    for number, (run, seed) in zip(range(count - len(made)), _copies(shipped), strict=False):
        made.append(_copy(run, seed, root, later=float(number + 1)))
    return made


def _folders(source: Path, to: Path) -> None:
    for folder in sorted(source.glob("*/")):
        shutil.copytree(folder, to / folder.name, dirs_exist_ok=True)


def _shipped(run: Run, root: Path, source: Path) -> str:
    for place in ("runs", "audits"):
        if (source / place / run.id).is_dir() and not (root / place / run.id).is_dir():
            shutil.copytree(source / place / run.id, root / place / run.id)
    return run.id


def _copies(runs: list[Run]) -> Iterator[tuple[Run, int]]:
    """Each run again and again; runs that differ only in their seeds get different ones each time."""
    trained = [run for run in runs if not run.spec.is_base]
    for turn in itertools.count(1) if trained else ():
        yield from ((run, turn * SEEDS + run.spec.training.seed) for run in trained)


def _copy(run: Run, seed: int, root: Path, later: float) -> str:
    """A run with the tables of another and a seed of its own; returns its id."""
    training = run.spec.training.model_copy(update={"seed": seed})
    spec = RunSpec.model_validate({**run.spec.model_dump(), "training": training})
    folder = root / "runs" / spec.run_id
    if folder.is_dir():
        return spec.run_id
    shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns(MODEL, "checksums.json"), copy_function=_content)
    replace_text(folder / SPEC_FILE, written(spec))
    write_status(folder, run.status.model_copy(update={"finished": (run.status.finished or 0.0) + later}))
    card = folder / "README.md"
    if card.exists():
        replace_text(card, card.read_text(encoding="utf-8").replace(run.id, spec.run_id))
    take(folder, spec.corpus)
    return spec.run_id


def _content(source: str, to: str) -> str:
    """A hard link would be changed with its original; a copy of the content is not."""
    return shutil.copyfile(source, to) and os.fspath(to)
