"""Serves prompts from many browsers at once: requests are gathered for a few milliseconds and answered in one batch.

One worker thread per process does all the computing, so thirty students cost one forward pass per token, not thirty,
and no page ever waits for another page's lock. A seed gives the same text alone or in a batch (`generate.sample`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from core.common.errors import is_sentence
from core.models.generation import MASK, MASKED_SWEEPS
from core.serving.streams import (
    DEFAULT_SAMPLING,
    LONGEST_PROMPT,
    PromptError,
    Sampling,
    ServingError,
    Stream,
    clean_prompt,
)

if TYPE_CHECKING:
    from core.models.build import LanguageModel

__all__ = ["LONGEST_PROMPT", "MASK", "PromptError", "Sampling", "Server", "ServingError", "Stream", "clean_prompt"]

MODELS_IN_MEMORY = 6
GATHER_SECONDS = 0.03  # long enough to batch two columns of one page, or a class that presses Enter together
MOST_ROWS = 128  # most samples in one batch

log = logging.getLogger(__name__)


class _Trained(Protocol):
    @property
    def weights_identity(self) -> tuple[int, ...] | None: ...

    def model(self) -> LanguageModel: ...


class Runs(Protocol):
    """What the server needs of a workspace: the runs by their ids, each with its model."""

    def run(self, run_id: str) -> _Trained: ...


class Server:
    """Answers prompts with the models of a workspace's runs. Create one per process; threads may share it."""

    def __init__(
        self, workspace: Runs, *, models: int = MODELS_IN_MEMORY, gather_seconds: float = GATHER_SECONDS
    ) -> None:
        self.workspace = workspace
        self.batches: deque[int] = deque(maxlen=100)  # rows in the most recent batches, newest last
        self._capacity = models
        self._gather_seconds = gather_seconds
        # By run, newest last: the identity of the file of weights that was loaded, and the model.
        self._models: OrderedDict[str, tuple[tuple[int, ...] | None, LanguageModel]] = OrderedDict()
        self._loading: str | None = None  # the run of the model that is being loaded
        self._forgotten: dict[str, int] = {}  # number of times that each run was deleted
        self._queue: list[Stream] = []
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._closed = False

    def generate(
        self, run_id: str, prompt: str, *, seeds: Sequence[int] = (0,), sampling: Sampling = DEFAULT_SAMPLING
    ) -> Stream:
        """Start one text per seed after `prompt` and return at once; the Stream has the text so far.

        A masked model appends as many masks as new tokens and draws them one by one (Gibbs sampling).

        Raises:
            PromptError, RunNotFound, RunBroken: The request cannot be answered, as far as that is known before the
                model is loaded.
        """
        if not 1 <= len(seeds) <= MOST_ROWS:
            raise PromptError(f"Ask for 1 to {MOST_ROWS} samples at a time, not {len(seeds)}.")
        return self._submit(run_id, prompt, tuple(int(seed) for seed in seeds), sampling, "write")

    def fill(self, run_id: str, text: str) -> Stream:
        """Rank candidates for each [MASK] in `text`; the result is `Stream.ranked`. Only for masked models."""
        if MASK not in text:
            raise PromptError(f"Put {MASK} where the model should fill in a word, for example “Patient name: {MASK}”.")
        return self._submit(run_id, text, (0,), Sampling(), "fill")

    def inspect(self, run_id: str, text: str) -> Stream:
        """Ask for the chance of every token of `text` and the likeliest tokens there; the result is `Stream.views`."""
        return self._submit(run_id, text, (0,), Sampling(), "inspect")

    def warm(self, run_id: str) -> None:
        """Load a run's model in the background, so that the first prompt does not wait for it. Never raises."""
        if run_id in self._models:
            return
        with contextlib.suppress(LookupError, ValueError, ServingError):
            self._submit(run_id, "warm", (0,), Sampling(), "load")

    def forget(self, run_id: str) -> None:
        """Drop the weights of a deleted run, also if they are being loaded at this moment."""
        with self._wake:
            self._forgotten[run_id] = self._forgotten.get(run_id, 0) + 1
            self._models.pop(run_id, None)

    def loaded(self) -> set[str]:
        """Ids of the runs that have weights in memory, or have them being loaded."""
        with self._wake:
            return {*self._models, *(() if self._loading is None else (self._loading,))}

    def close(self) -> None:
        """Stop the worker after its batch; waiting requests end with a sentence."""
        with self._wake:
            self._closed = True
            for stream in self._queue:
                stream.finish("The server is shutting down.")
            self._queue.clear()
            self._wake.notify_all()
        if self._worker is not None:
            self._worker.join(timeout=30)

    def _submit(self, run_id: str, prompt: str, seeds: tuple[int, ...], sampling: Sampling, task: str) -> Stream:
        cleaned, _ = clean_prompt(prompt)
        self.workspace.run(run_id)
        stream = Stream(run_id, cleaned, seeds, sampling, texts=[""] * len(seeds), task=task)
        with self._wake:
            if self._closed:
                raise ServingError("The server is shutting down.")
            self._queue.append(stream)
            if self._worker is None or not self._worker.is_alive():
                self._worker = threading.Thread(target=self._work, name="serving", daemon=True)
                self._worker.start()
            self._wake.notify_all()
        return stream

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._queue and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
            time.sleep(self._gather_seconds)
            batch = self._take()
            if batch:
                self._answer(batch)

    def _take(self) -> list[Stream]:
        """The oldest request and all requests that can share its batch: same model, same sampling, same task."""
        with self._wake:
            self._queue = [stream for stream in self._queue if not stream.done]
            if not self._queue:
                return []
            batch: list[Stream] = []
            first, rows = self._queue[0], 0
            for stream in self._queue:
                same = (stream.run_id, stream.sampling, stream.task) == (first.run_id, first.sampling, first.task)
                if same and (not batch or rows + len(stream.seeds) <= MOST_ROWS):
                    batch.append(stream)
                    rows += len(stream.seeds)
            taken = {id(stream) for stream in batch}
            self._queue = [stream for stream in self._queue if id(stream) not in taken]
        return batch

    def _answer(self, batch: list[Stream]) -> None:
        """Answer one batch; any error ends these streams with a sentence and leaves the worker alive."""
        try:
            lm = self._model(batch[0].run_id)
            ready = [stream for stream in batch if self._fits(lm, stream)]
            if ready:
                self.batches.append(sum(len(stream.seeds) for stream in ready))
                _TASKS[batch[0].task](lm, ready)
            for stream in batch:
                stream.finish()
        except Exception as error:  # the worker serves all users: one bad request must not end it
            if not isinstance(error, PromptError):
                log.exception("answering with the model of run %s failed", batch[0].run_id)
            for stream in batch:
                stream.finish(_sentence(error), refused=isinstance(error, PromptError))

    def _model(self, run_id: str) -> LanguageModel:
        """The run's model, loaded if it is not in memory or its weights are no longer those on disk."""
        with self._wake:
            kept, forgotten = self._models.pop(run_id, None), self._forgotten.get(run_id, 0)
            self._loading = run_id
        try:
            run = self.workspace.run(run_id)
            weights = run.weights_identity  # before they are read: of a run made again meanwhile they are read again
            if kept is not None and kept[0] == weights:
                lm = kept[1]
            else:
                lm = run.model()
                lm.model.eval()
            with self._wake:
                if self._forgotten.get(run_id, 0) != forgotten:
                    raise ServingError(f"Run {run_id} has just been deleted.")
                self._models[run_id] = weights, lm  # newest last
                while len(self._models) > self._capacity:
                    self._models.popitem(last=False)
        finally:
            self._loading = None
        return lm

    def _fits(self, lm: LanguageModel, stream: Stream) -> bool:
        """Whether prompt and answer fit into the model's context; if not, the stream ends with a sentence."""
        from core.models.encoding import encode

        answer = stream.sampling.new_tokens if stream.task == "write" else 0
        used = len(encode(lm, [stream.prompt])[0]) + 2  # plus the two special tokens
        if used + answer <= lm.context:
            return True
        stream.finish(
            f"The prompt is too long: it takes {used:,} tokens and the answer {answer}, but this model reads at most "
            f"{lm.context:,} in total. {'Shorten the prompt' if answer < lm.context else 'Ask for a shorter answer'}.",
            refused=True,
        )
        return False


def _write(lm: LanguageModel, batch: list[Stream]) -> None:
    from core.models.generation import generate

    rows = [(stream, number) for stream in batch for number in range(len(stream.seeds))]
    sampling = batch[0].sampling
    how: dict[str, Any] = {
        "new_tokens": sampling.new_tokens,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "seeds": [stream.seeds[number] for stream, number in rows],
        "on_tokens": lambda row, text: rows[row][0].update(rows[row][1], text),
        "should_stop": lambda: all(stream.cancelled for stream in batch),
    }
    prompts = [stream.prompt for stream, _ in rows]
    if lm.causal:
        texts = generate.sample(lm, prompts, top_p=sampling.top_p, **how)
    else:
        texts = generate.gibbs(lm, prompts, sweeps=MASKED_SWEEPS, **how)
    for (stream, number), text in zip(rows, texts, strict=True):
        stream.update(number, text)


def _fill(lm: LanguageModel, batch: list[Stream]) -> None:
    from core.models.generation import generate

    if lm.causal:
        raise PromptError("GPT-2 can only continue a prompt; use a BERT model to fill in masks.")
    for stream in batch:
        if not stream.cancelled:
            stream.ranked = generate.fill_masks(lm, stream.prompt)


def _inspect(lm: LanguageModel, batch: list[Stream]) -> None:
    from core.models.token_view import token_views

    for stream in batch:
        if not stream.cancelled:
            stream.views = token_views(lm, stream.prompt)


_TASKS: dict[str, Callable[[LanguageModel, list[Stream]], None]] = {
    "write": _write,
    "fill": _fill,
    "inspect": _inspect,
    "load": lambda lm, batch: None,
}


def _sentence(error: Exception) -> str:
    """The message for the user: the sentence of an exception that has one, else its type and text."""
    if is_sentence(error):
        return str(error)
    return f"The model stopped because of an unexpected {type(error).__name__}: {error}"
