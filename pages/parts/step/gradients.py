"""The gradients of a run's first step: shipped with the run, or computed once for all sessions."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.runs.run import Run
from pages.parts.common.phi_text import literal
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.training.step_gradients import StepGradients

SHIPPED = Path(__file__).resolve().parents[3] / "assets/demo/steps"
MOST_LIVE = 96  # units whose gradients are computed while somebody waits
REFRESH_SECONDS = 0.2


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
    """The gradients of the run's first step, with a bar while they are computed; None, with a sentence, if it fails."""
    reading = _reading(run.id, run)
    reading.start()
    bar = st.empty()
    while not reading.ended:
        bar.progress(
            reading.share, f"Computing the gradients of the notes of one step: {reading.done} of {MOST_LIVE} …"
        )
        time.sleep(REFRESH_SECONDS)
    bar.empty()
    if reading.error:
        st.error(literal(reading.error, 600), icon=":material/error:")
    return reading.step


class _Reading:
    """Gradients that are loaded or computed in a thread; every session looks at the same one."""

    def __init__(self, run: Run) -> None:
        self.step: StepGradients | None = None
        self.error = ""
        self.ended = True
        self.done, self.share = 0, 0.0
        self._run = run
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin, unless it has begun or is there; after an error, begin again."""
        with self._lock:
            if not self.ended or self.step is not None:
                return
            self.ended, self.error, self.done, self.share = False, "", 0, 0.0
            threading.Thread(target=self._read, name="step-gradients", daemon=True).start()

    def _read(self) -> None:
        try:
            self.step = self._loaded(self._run)
        except Exception as error:  # whoever looks reads the sentence: a thread has nobody to raise to
            self.error = str(error) or f"The gradients could not be computed: {type(error).__name__}."
        finally:
            self.ended = True

    def _loaded(self, run: Run) -> StepGradients:
        from core.training.step_gradients import StepGradients

        if run.shipped and shipped_file(run).exists():
            return StepGradients.load(shipped_file(run))
        from core.models.build import load  # torch: seconds, and not for shipped gradients
        from core.training.inside_step import first_step

        notes = resources.training_notes(run)
        with _one_at_a_time():
            spec = run.spec
            return first_step(
                load(spec.model), notes, spec.training, spec.privacy, most=MOST_LIVE, on_progress=self._report
            )

    def _report(self, done: int, of_all: int) -> None:
        self.done, self.share = done, done / of_all


@resources.cached_object(max_entries=8, show_spinner=False)
def _reading(run_id: str, _run: Run) -> _Reading:
    return _Reading(_run)


@resources.process_object
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()
