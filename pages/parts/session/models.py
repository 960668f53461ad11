"""Models that pages use: loaded into this process and kept for all sessions, or asked on the model server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from core.runs.run import Run
from core.serving.server import PromptError, Server, ServingError, Stream
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.models.build import LanguageModel


def model(run: Run) -> LanguageModel:
    """A run's model. All sessions share it and must not modify it. Raises what `Run.model` raises."""
    return _model(str(run.folder), run)


@resources.cached_object(max_entries=3, show_spinner="Loading the model")
def _model(folder: str, _run: Run) -> LanguageModel:
    return _run.model()


def asked(run: Run, text: str, ask: Callable[[Server], Stream]) -> Stream:
    """What `ask` starts on the model server about a run and a text. Never raises: a refusal is in a failed stream."""
    try:
        return ask(resources.server())
    except (PromptError, ServingError, LookupError, ValueError) as error:
        return Stream.failed(run.id, text, str(error))


@resources.process_object
def turn() -> threading.Lock:
    """Held by one short computation of a page at a time: of seconds, with a model in this process."""
    return threading.Lock()
