"""Models that pages load into this process, kept for all sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from core.runs.run import Run
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.models.build import LanguageModel


def model(run: Run) -> LanguageModel:
    """A run's model. All sessions share it and must not modify it. Raises what `Run.model` raises."""
    return _model(str(run.folder), run)


@resources.cached_object(max_entries=3, show_spinner="Loading the model")
def _model(folder: str, _run: Run) -> LanguageModel:
    return _run.model()
