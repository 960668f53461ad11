"""The most useful private model that was measured here, with what was and was not tried on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.attacks.membership.decision import LOSS
from pages.parts.common.public_noise import SENTENCE, public_noise
from pages.parts.session import owner, resources

if TYPE_CHECKING:
    from core.evaluation.sweep.best import Best


def best_measured() -> str:
    """The most useful private model of the runs on synthetic notes, in a few sentences; empty if there is none."""
    workspace = owner.workspace()
    runs = [run for run in workspace.runs() if not run.spec.corpus.imported]
    found = _best(str(workspace.root), tuple(run.id for run in runs))
    if found is None:
        return ""
    tried = {attack for one in found.run_ids for attack in workspace.audit(one).files("scores")}
    noise = f" Its noise has a public seed. {SENTENCE}" if public_noise(map(workspace.run, found.run_ids)) else ""
    return f"{found.sentence()} {found.attacked(len(tried - {LOSS}))}{noise}"


@resources.cached_data(max_entries=20, show_spinner=False)
def _best(root: str, run_ids: tuple[str, ...]) -> Best | None:
    from core.evaluation.sweep.best import best_private
    from core.evaluation.sweep.sweeps import sweeps_of
    from core.runs import queries

    workspace = owner.workspace()
    return best_private(sweeps_of([workspace.run(one) for one in run_ids]), queries.metrics(workspace))
