"""Jobs in words: what a run is, and its progress."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from core.common.formatting import duration_text, epochs_text, promised_text
from core.evaluation.wording import guaranteed_text
from core.jobs.times.costs import CONTROL
from core.jobs.times.expected import stage_key
from core.runs.progress import Progress
from core.runs.run import Run
from core.spec import RunSpec
from core.spec.model_names import MODEL_NAMES
from pages.parts.common.durations import time_left, whole_left
from pages.parts.pickers.cohort_picker import hospital_name

if TYPE_CHECKING:
    from core.jobs.engine import Job


def title(of: Run | RunSpec) -> str:
    """A run in words: model, privacy with its unit, cohort, epochs, seed.

    The ε of a finished run is the one that it guarantees. Before, only its target may be known.
    """
    spec = of if isinstance(of, RunSpec) else of.spec
    privacy = spec.privacy
    if spec.is_base:
        treatment = "public model, no training"
    elif privacy.target_epsilon is not None:
        known = None if isinstance(of, RunSpec) else of.epsilon
        name = "target ε" if known is None and not spec.target_is_guaranteed else "ε"
        treatment = f"{name} = {promised_text(known or privacy.target_epsilon)} per {privacy.unit}"
    elif privacy.noise_multiplier is not None:
        treatment = f"σ = {privacy.noise_multiplier:g} per {privacy.unit}"
        if privacy.risk_limit is not None:
            treatment += f" ({privacy.risk_limit.label})"
    elif spec.training.clip_norm is not None:
        treatment = "same training without noise (no privacy)"
    else:
        treatment = "no privacy"
    if spec.defence is not None:
        treatment += f", {spec.defence.label} notes"
    if spec.without is not None:
        treatment += f", without {', '.join(spec.without)}"
    if spec.vocabulary is not None:
        treatment += f", {spec.vocabulary.label}"
    model, cohort, training = MODEL_NAMES[spec.model.kind], hospital_name(spec.corpus), spec.training
    return f"{model} · {treatment} · {cohort} · {epochs_text(training.epochs)} · seed {training.seed}"


def job_title(job: Job) -> str:
    """What a job does: a run in words, or the full audit of one."""
    return f"Full audit of {title(job.spec)}" if job.is_audit else title(job.spec)


def already_trained(spec: RunSpec) -> str:
    """That there is a run with these settings, and what training them again would give."""
    if spec.secret_noise:
        said = (
            "Already trained. Each combination of settings is trained only once here. The noise was secret, so "
            "training it again would give another model."
        )
    else:
        said = "Already trained: the same settings always give the same run."
    return f"{said} Change a setting to start a new run."


def private_jobs(count: int) -> str:
    """How many jobs on notes that others uploaded there are, and nothing else about them; empty without one."""
    if not count:
        return ""
    jobs, are = ("job", "is") if count == 1 else ("jobs", "are")
    return f"{count} {jobs} on other users' uploaded notes {are} running or waiting"


def _jobs_ahead(count: int) -> str:
    """All jobs before one in the queue: those on notes that others uploaded count, though no list shows them."""
    return f"{count} {'job' if count == 1 else 'jobs'} of all users ahead"


def stage_in_words(job: Job, progress: Progress, starts: Mapping[str, float] | None = None) -> str:
    """What a job is doing now: stage, n of N, ε so far, time left of all its stages.

    If the job is so slow that its end was moved out, it says so. Without an estimate for the job, the time is that of
    its stage. A waiting job says when it should start, if that is in `starts`: seconds from now by `Job.id`.
    """
    if job.state == "queued":
        waiting = f"Waiting: {_jobs_ahead(job.position)}" if job.position else "Waiting: next"
        start = (starts or {}).get(job.id)
        return waiting if start is None else f"{waiting} · starts in about {duration_text(start)}"
    if not progress.stage:
        return "Starting"
    stage = progress.stage.capitalize()
    if progress.parts and progress.stage.startswith("attack"):
        stage += f", {progress.message}"  # which attack it is
    if progress.stage in STAGES and progress.stage.startswith(AUDIT):
        stage = f"Audit, {STAGES[progress.stage]}"  # the words of its control
    if progress.stage == CONTROL:
        key = stage_key({"event": "stage", "stage": CONTROL, "message": progress.message})
        stage = _doing(key or CONTROL).capitalize()
    if progress.stage == "training" and progress.steps:
        words = f"{stage}: {_step_in_words(progress)}"
    elif progress.total:
        words = f"{stage}: {progress.done:,} of {progress.total:,}"
    else:
        words = f"{stage} …"
    left = progress.seconds_left(time.time())
    if left is None:
        stage_left = time_left(progress.eta_seconds)
        return words + (f"{stage_left} in this stage" if stage_left else "")
    slower = f" (longer than expected: {_doing(progress.slower)})" if progress.slower else ""
    return words + whole_left(left) + slower


AUDIT = "audit: "
STAGES = {
    "corpus": "reading the notes",
    "vocabulary": "choosing words",
    "audit: extraction": "prompting the model",
    "audit: membership": "scoring notes",
    "audit: exposure": "ranking canaries",
    "audit: utility": "measuring usefulness",
    "audit: reading": "comparing with the public model",
    "saving": "computing the figures",
}


def _doing(key: str) -> str:
    """A stage (`core.jobs.times`) in words: `control, scoring notes`."""
    control, _, stage = key.rpartition("/")
    words = f"“{stage.removeprefix('attack: ')}”" if stage.startswith("attack: ") else STAGES.get(stage, stage)
    return f"control, {words}" if control else words


def _step_in_words(progress: Progress) -> str:
    """The current step with its progress and loss so far, else the last one with its loss; epoch and ε."""
    within, losses = bool(progress.total), [loss for loss in progress.loss[-1:] if loss is not None]
    words = f"step {progress.step + within:,} of {progress.steps:,}"
    if within:
        words += f" ({progress.done:,} of {progress.total:,} texts)"
    words += f", epoch {progress.epoch} of {progress.epochs}"
    if within and progress.step_loss is not None:
        words += f" · loss {progress.step_loss:.2f} so far"
    elif losses:
        words += f" · loss {losses[0]:.2f}"
    if progress.epsilon and progress.epsilon[-1] is not None:
        words += f" · ε {guaranteed_text(progress.epsilon[-1])}"
    return words
