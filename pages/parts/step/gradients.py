"""The gradients of a run's first step, and checks of its steps: shipped, or computed once for all sessions."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.runs.run import Run
from pages.parts.access import viewer
from pages.parts.session import resources
from pages.parts.step.background import Background, Report, computing

if TYPE_CHECKING:
    from core.training.checks.check import Check
    from core.training.step_gradients import StepGradients

SHIPPED = Path(__file__).resolve().parents[3] / "assets/demo/steps"
MOST_LIVE = 96  # units whose gradients are computed while somebody waits


def offered(runs: list[Run]) -> list[Run]:
    """Runs that clip, with the public vocabulary: shipped gradients first, then private ones, ε nearest 8."""
    clipping = [
        run
        for run in runs
        if (run.spec.privacy.private or run.spec.training.clip_norm is not None)
        and run.spec.vocabulary is None
        and not run.spec.is_base
    ]

    def order(run: Run) -> tuple[bool, bool, float]:
        far = abs((run.spec.privacy.target_epsilon or math.inf) - 8.0)
        return not shipped_file(run).exists(), not run.spec.privacy.private, far

    return sorted(clipping, key=order)


def shipped_file(run: Run) -> Path:
    """Where the gradients of a shipped run are; `python -m core step` writes it."""
    return SHIPPED / f"{run.id}.safetensors"


def of(run: Run) -> StepGradients | None:
    """The gradients of the run's first step, with a bar while they are computed; None, with a sentence, if it fails.

    Also None, with a sentence, if they are not there and the viewer may not have them computed.
    """
    reading = _reading(run.id, run)
    if not (reading.begun or _ships_gradients(run) or viewer.may("gradients")):
        st.info(f"The gradients of this run have not been computed yet. {viewer.needs('gradients')}")
        return None
    return reading.wait("Computing the gradients of the notes of one step")


def checks_of(run: Run) -> list[Check] | None:
    """Checks of a private run's steps, with a bar while they are made; None, with a sentence, if that fails."""
    return _checking(run.id, run).wait("Taking steps as in this run")


def _ships_gradients(run: Run) -> bool:
    return run.shipped and shipped_file(run).exists()


def _read(run: Run, report: Report) -> StepGradients:
    from core.training.step_gradients import StepGradients

    if _ships_gradients(run):
        return StepGradients.load(shipped_file(run))
    from core.models.build import load  # torch: seconds, and not for shipped gradients
    from core.training.inside_step import first_step

    spec = run.spec
    notes = resources.training_notes(run)
    with computing(report):
        return first_step(load(spec.model), notes, spec.training, spec.privacy, most=MOST_LIVE, on_progress=report)


def _check(run: Run, report: Report) -> list[Check]:
    from core.models.build import load
    from core.training.checks.steps import check_steps

    spec = run.spec
    notes = resources.training_notes(run)
    with computing(report):
        return check_steps(load(spec.model), notes, spec.training, spec.privacy, run.privacy, on_progress=report)


@resources.cached_object(max_entries=64, show_spinner=False)
def _reading(run_id: str, _run: Run) -> Background[StepGradients]:
    return Background(partial(_read, _run))


@resources.cached_object(max_entries=64, show_spinner=False)
def _checking(run_id: str, _run: Run) -> Background[list[Check]]:
    return Background(partial(_check, _run))
