"""Runs whose training is over while their audit goes on: they can be prompted, and have no figures yet.

Such a run is still in its work folder, and only a complete one is moved to the runs. What is read here is what training
leaves behind: the table `history` is written last, after the weights are on disk, and nothing changes either of them
until the folder is moved.

Two kinds are left out. A run with secret noise that is cancelled and started again has other weights under the same
id, so its figures would not be about the answers that were shown before. And imported notes may be deleted at any time,
with every run on them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from core.models.shipped_bases import ModelNotFound
from core.runs.events import CANCEL_FILE, read_status
from core.runs.run import Run, RunBroken, RunNotFound, read_stored_spec
from core.runs.store import Workspace

if TYPE_CHECKING:
    from core.models.build import LanguageModel


class TrainedRun(Run):
    """A run that can be prompted and has not been audited yet."""

    def model(self) -> LanguageModel:
        """As `Run.model`, also if the folder is moved to the runs at this moment."""
        try:
            return super().model()
        except (OSError, RunBroken, ModelNotFound):
            final = self.folder.parents[1] / "runs" / self.folder.name
            return Run.open(final).model()


def trained_runs(workspace: Workspace) -> list[TrainedRun]:
    """Runs that the workspace's viewer may see, the one submitted last first."""
    found = [run for folder in workspace.works() if (run := _opened(folder)) is not None]
    return [run for run in reversed(found) if workspace.shows(run.spec.corpus)]


def _opened(folder: Path) -> TrainedRun | None:
    if not (folder / "tables" / "history.parquet").exists() or (folder / CANCEL_FILE).exists():
        return None
    try:
        stored = read_stored_spec(folder)
    except (RunBroken, OSError):
        return None
    status = read_status(folder)
    run = None if status is None else TrainedRun(folder, stored.spec, status, shipped=False, schema=stored.schema)
    if run is None or run.spec.is_base or not run.has_model:
        return None
    return None if run.spec.secret_noise or run.spec.corpus.imported is not None else run


class Promptable:
    """The runs of a workspace for a model server: complete ones, and those that are trained but not yet audited."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    def run(self, run_id: str) -> Run:
        """The run with that id. Raises RunNotFound or RunBroken, each with a sentence."""
        try:
            return self.workspace.run(run_id)
        except RunNotFound:
            trained = _opened(self.workspace.work(run_id))
            if trained is None:
                return self.workspace.run(run_id)  # it may have become complete meanwhile
            return trained
