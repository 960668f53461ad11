"""Plain training, and a whole classroom run, against a bare loop: `python -m core bench training --json`.

`plain_over_bare_loop`: one epoch over the classroom cohort's notes, including tokenization, in the plain recipe's
batches. `classroom_run_over_bare_loop`: from submitting a private classroom run to the running job engine until its
metrics can be read; the other side is the bare loop over the same notes, of which one epoch is timed and multiplied by
the number of epochs. The cohort and the base control are made beforehand, as they exist with the shipped runs.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from bench import _bare
from bench._ratio import Figures, check_rounds, figure, in_turns, seconds_of, show
from core.corpus.synthetic.hospital import build
from core.jobs.engine import Engine
from core.models.build import load
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, recipe
from core.training.trainer import train

LOOK_SECONDS = 0.05


def main(json: bool = False, rounds: int = 3) -> None:
    """Print the figures of training."""
    show(measure(rounds), json=json)


def measure(
    rounds: int,
    *,
    corpus: CorpusSpec = CORPUS_PRESETS["classroom"],
    training: TrainingSpec | None = None,
    private: TrainingSpec | None = None,
    audit: AuditSpec | None = None,
) -> Figures:
    """Both figures; recipes default to those of the product."""
    training, private = training or recipe("gpt2"), private or recipe("gpt2", PrivacySpec(target_epsilon=8.0))
    notes = build(corpus).training_notes(training.max_notes_per_patient)
    return _plain(rounds, notes, training) | _classroom(rounds, notes, corpus, training, private, audit or AuditSpec())


def _plain(rounds: int, notes: pd.DataFrame, training: TrainingSpec) -> Figures:
    once = training.model_copy(update={"epochs": 1})
    ours, bare = load(ModelSpec()), _bare.with_defaults(load(ModelSpec()))
    texts = notes["text"].tolist()
    sides = {
        "ours": lambda: train(ours, notes, once, PrivacySpec()),
        "bare": _bare.epochs(bare, texts, count=1, batch_size=once.batch_size, rate=once.learning_rate),
    }
    seconds = in_turns(sides, rounds, warm_up=0)  # an epoch is long enough to need no warm-up
    return figure("plain_over_bare_loop", seconds["ours"], seconds["bare"])


def _classroom(
    rounds: int,
    notes: pd.DataFrame,
    corpus: CorpusSpec,
    training: TrainingSpec,
    private: TrainingSpec,
    audit: AuditSpec,
) -> Figures:
    """The private run's epochs on both sides; the bare loop has the batch size and the rate of the plain recipe.

    All epochs of the bare loop are alike, so one is timed and multiplied.
    """
    check_rounds(rounds)
    batch_size, rate = training.batch_size, training.learning_rate
    privacy = PrivacySpec(target_epsilon=8.0)
    texts = notes["text"].tolist()
    ours, bare, first = [], [], []
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-bench-") as folder:
        workspace = Workspace(Path(folder), shared=())
        spec = RunSpec(corpus=corpus, privacy=privacy, training=private, audit=audit)
        engine = Engine(workspace)
        try:
            _submitted(engine, spec.base_spec())  # the control; this also starts the worker, as opening the app does
            for number in range(rounds):
                seed = private.model_copy(update={"seed": number})
                found = _submitted(engine, spec.model_copy(update={"training": seed}))
                ours.append(found["shown"])
                first.append(found["first loss"])
                lm = _bare.with_defaults(load(ModelSpec()))
                loop = _bare.epochs(lm, texts, count=1, batch_size=batch_size, rate=rate)
                bare.append(private.epochs * seconds_of(loop))
        finally:
            engine.close()
    first_loss = float(f"{np.median(first):.3g}")
    return figure("classroom_run_over_bare_loop", np.array(ours), np.array(bare), first_loss_seconds=first_loss)


def _submitted(engine: Engine, spec: RunSpec) -> dict[str, float]:
    """Seconds from the submission until the first loss is available, and until the run's figures are."""
    begun, first = time.perf_counter(), math.nan
    engine.submit(spec)
    while (job := engine.status(spec.run_id)).active:
        progress = engine.progress(spec.run_id)
        if math.isnan(first) and (progress.loss or progress.step_loss is not None):
            first = time.perf_counter() - begun
        time.sleep(LOOK_SECONDS)
    if job.state != "done":
        raise RuntimeError(f"the run of the benchmark ended as {job.state}: {job.message}")
    engine.run(spec.run_id).table("metrics")
    return {"shown": time.perf_counter() - begun, "first loss": first}
