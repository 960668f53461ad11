"""A run's training made again with gradients planted in it, and what they prove about its ε, kept beside its audits.

The attacker sees every noisy step (`core.training.checks.gradient_canaries`), which nobody who gets a finished model
does. The result is stored apart from the attacks on the model (`StoredAudit.proving`): one entry for each number of
canaries and seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from core.common.errors import Cancelled
from core.common.files import make_folder
from core.common.folders import remove
from core.evaluation.guarantee.step_audit import PLANTED, StepAudit, check_canaries, row_of, step_audit
from core.runs.audits import Outcome, StoredAudit
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.uploads.deletion import until_deleted

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1  # increase it when a code change alters the result


def plant(
    run: Run,
    notes: pd.DataFrame,
    workspace: Workspace,
    *,
    canaries: int,
    seed: int = 0,
    on_step: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> StepAudit:
    """Train the run again from its public model with planted gradients, bound its ε by them, and store the result.

    Waits while another process does so for the same run.

    Args:
        run: a private run.
        notes: its training notes, columns patient_id and text, as it read them from its first step on.
        workspace: where the run's audits are.
        canaries: how many gradients are planted.
        seed: of their coins and places.
        on_step: called with (done, steps) after every step.
        should_stop: asked before every step; True ends the training.

    Raises:
        ValueError: a run without privacy, or too few canaries.
        Cancelled: `should_stop` returned True, or the notes were deleted; nothing is stored.
        DiskFull: the result could not be stored.
    """
    from core.models.build import load
    from core.training.checks.gradient_canaries import watch

    check_canaries(canaries)
    if run.privacy is None:
        raise ValueError(f"Run {run.id} was trained without privacy: it promises no ε that could be checked.")
    spec = run.spec
    stop = until_deleted(workspace, spec.corpus, should_stop)
    audit = workspace.audit(run.id)
    stored = audit.proving()
    cancelled = f"Training run {run.id} with planted gradients was cancelled; nothing was stored."

    def begin() -> None:
        workspace.begin_audit(run.id, spec.corpus)
        make_folder(stored.folder)

    with (
        full_disk_as_sentence(f"what planted gradients proved about run {run.id}", stored.folder),
        held(stored.folder / ".lock", should_stop=stop, begin=begin) as holding,  # meanwhile a deletion of notes waits
    ):
        if not holding:
            raise Cancelled(cancelled)
        with _empty_folders_removed(stored, audit):
            if stop():
                raise Cancelled(cancelled)
            begun = time.monotonic()
            seen = watch(
                load(spec.model),
                notes,
                spec.training,
                spec.privacy,
                canaries=canaries,
                seed=seed,
                on_step=on_step,
                should_stop=stop,
            )
            found = step_audit(seen.inside, seen.evidence, seen.mechanism, promised=run.privacy.epsilon())
            if stop():
                raise Cancelled(cancelled)
            seconds = round(time.monotonic() - begun, 3)
            name = f"{canaries} canaries, seed {seed}"
            outcome = Outcome(name, "done", seconds, "", (PLANTED,), VERSION, time.time())
            stored.record(outcome, {PLANTED: row_of(found, seen.mechanism, seed)})
    return found


@contextmanager
def _empty_folders_removed(stored: StoredAudit, audit: StoredAudit) -> Iterator[None]:
    """If the work within is cancelled, remove `stored` if it has no result, and then the folder of `audit` if empty."""
    try:
        yield
    except Cancelled:
        if not replace(stored, shared=()).outcomes():
            remove(stored.folder)
            with suppress(OSError):  # it has attacks
                audit.folder.rmdir()
        raise
