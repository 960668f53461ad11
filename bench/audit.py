"""Cost of the full suite of attacks relative to the training it audits: `python -m core bench audit --json`.

For each kind, one `classroom` run without privacy is trained, then audited with all attacks for its kind, including
reference models (another run of the same cohort would reuse them). Both take minutes, too long for short turns; the
ratio is one of processor times, which other work on the machine affects less than wall-clock times.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench._ratio import Figures, check_rounds, figure, show
from core.pipeline.full_audit import audit as attack
from core.pipeline.training_run import execute
from core.runs.events import Event
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, ModelKind, ModelSpec, RunSpec, TrainingSpec, recipe

KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")


def main(json: bool = False, rounds: int = 1) -> None:
    """Print the ratio for each kind."""
    show(measure(rounds), json=json)


def measure(
    rounds: int,
    *,
    corpus: CorpusSpec = CORPUS_PRESETS["classroom"],
    training: TrainingSpec | None = None,
    audit: AuditSpec | None = None,
    attacks: Sequence[str] | None = None,
) -> Figures:
    """The figure for each kind; recipe and attacks default to those of the product.

    Raises:
        RuntimeError: An attack was not completed, so the audit would seem cheaper than it is.
    """
    check_rounds(rounds)
    found: Figures = {}
    for kind in KINDS:
        spec = RunSpec(
            corpus=corpus, model=ModelSpec(kind=kind), training=training or recipe(kind), audit=audit or AuditSpec()
        )
        above, below = zip(*(_seconds(spec, attacks) for _ in range(rounds)), strict=True)
        found |= figure(f"full_audit_over_training_{kind}", np.array(above), np.array(below))
    return found


def _seconds(spec: RunSpec, attacks: Sequence[str] | None) -> tuple[float, float]:
    """Processor seconds of the full audit and of the training of one run, with nothing reused.

    Training is the pipeline's stage of that name, including the evaluation after each epoch.
    """
    with tempfile.TemporaryDirectory(prefix="philab-bench-") as folder:
        workspace = Workspace(Path(folder), shared=())
        execute(spec.base_spec(), workspace)  # not measured: with the shipped runs the control exists already
        stages: list[tuple[str, float]] = []

        def note(event: Event) -> None:
            if event["event"] == "stage":
                stages.append((event["stage"], time.process_time()))

        run = execute(spec, workspace, on_event=note)
        at = [stage for stage, _ in stages].index("training")
        trained = stages[at + 1][1] - stages[at][1]
        begun = time.process_time()
        stored = attack(run, workspace, attacks=attacks, on_event=_tell)
        spent = time.process_time() - begun
        failed = [f"{one.attack} ({one.message})" for one in stored.outcomes().values() if one.state != "done"]
    if failed:
        raise RuntimeError(f"attacks were not completed, so the audit's time is not valid: {'; '.join(failed)}")
    return spent, trained


def _tell(event: Event) -> None:
    if event["event"] == "outcome":
        print(f"{event['seconds']:8.1f} s  {event['attack']}  {event['message']}", file=sys.stderr, flush=True)
