"""Loaded models that answer prompts of many browsers at once: gathered for a few milliseconds, answered in one batch.

One worker thread a process does all the computing, so thirty students cost one forward pass a token, not thirty, and no
page ever waits for another page's lock. A seed gives the same text alone or in a batch (core.models.generate.sample).
"""

from __future__ import annotations

import contextlib
import threading
import time
import unicodedata
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.models.build import LanguageModel
    from core.runs.store import Workspace

MODELS_IN_MEMORY = 6
MASKED_SWEEPS = (
    2  # a masked model reads all of the text again for every draw: redraw each token once, as the audit does
)
GATHER_SECONDS = 0.03  # two columns of one page, or a class pressing Enter together, meet in this window
LOOK_SECONDS = 0.03  # between two looks at a stream that is iterated
MOST_ROWS = 128  # samples in one batch
LONGEST_PROMPT = 20_000  # characters; nothing longer is worth tokenizing, contexts are some hundred tokens
MASK = "[MASK]"


class PromptError(ValueError):
    """A prompt cannot be answered. The text is a sentence: what is wrong and what to do."""


class ServingError(RuntimeError):
    """The model could not be loaded or failed while writing. The text is a sentence."""


@dataclass(frozen=True)
class Sampling:
    """How text is drawn; requests that share it share batches."""

    new_tokens: int = 60
    temperature: float = 0.8
    top_k: int = 50
    top_p: float = 0.95


def clean_prompt(prompt: str) -> tuple[str, int]:
    """The prompt without control characters and lone surrogates, and how many were taken out. Newlines and tabs stay.

    Raises PromptError when nothing is left, or when it is too long to be looked at.
    """
    if len(prompt) > LONGEST_PROMPT:
        raise PromptError(
            f"The prompt has {len(prompt):,} characters. The model reads a few hundred words: shorten it to a sentence."
        )
    kept = "".join(
        c for c in prompt.replace("\r\n", "\n") if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs")
    )
    if not kept.strip():
        raise PromptError("The prompt is empty. Type the beginning of a sentence, or pick one of the examples.")
    return kept, len(prompt.replace("\r\n", "\n")) - len(kept)


@dataclass
class Stream:
    """One request's answer while it grows. Iterate it, or read `texts` at any time; `cancel()` keeps what is there."""

    run_id: str
    prompt: str
    seeds: tuple[int, ...]
    sampling: Sampling
    texts: list[str] = field(default_factory=list)  # one a seed, without the prompt
    ranked: list[list[tuple[str, float]]] | None = None  # fill(): candidates for each mask, best first
    error: str | None = None
    cancelled: bool = False
    task: str = "write"  # "write": continue the prompt; "fill": rank words for each mask; "load": nothing more
    _finished: threading.Event = field(default_factory=threading.Event, repr=False)

    @classmethod
    def failed(cls, run_id: str, prompt: str, error: str) -> Stream:
        """A stream that ended before it began, with the sentence that says why."""
        stream = cls(run_id, prompt, (), Sampling())
        stream.finish(error)
        return stream

    @property
    def done(self) -> bool:
        """True once nothing more will come."""
        return self._finished.is_set()

    def cancel(self) -> None:
        """Ask for no more text; what was written stays in `texts`. The batch goes on for the others in it."""
        if not self.done:
            self.cancelled = True
            self._finished.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Block until done, or for so many seconds. True when done."""
        return self._finished.wait(seconds)

    def result(self, seconds: float | None = None) -> list[str]:
        """Wait for and return the texts. Raises ServingError with the server's sentence, TimeoutError when not done."""
        if not self.wait(seconds):
            raise TimeoutError(f"no answer from {self.run_id} within {seconds} s")
        if self.error:
            raise ServingError(self.error)
        return self.texts

    def __iter__(self) -> Iterator[list[str]]:
        """Snapshots of `texts`, each time they grew. Raises ServingError when the model fails."""
        shown: list[str] | None = None
        while True:
            finished, now = self.done, list(self.texts)
            if now != shown:
                shown = now
                yield now
            if finished:
                break
            self.wait(LOOK_SECONDS)
        self.result(0)

    def update(self, row: int, text: str) -> bool:
        """Called by the server: sample `row` now reads `text`. False after a cancel: stop writing this one."""
        if not self.done:
            self.texts[row] = text
        return not self.done

    def finish(self, error: str | None = None) -> None:
        """Called by the server: nothing more will come."""
        if not self.done:
            self.error = error
            self._finished.set()


class Server:
    """Answers prompts with the models of a workspace's runs. Make one a process; threads may share it."""

    def __init__(
        self, workspace: Workspace, *, models: int = MODELS_IN_MEMORY, gather_seconds: float = GATHER_SECONDS
    ) -> None:
        self.workspace = workspace
        self.batches: deque[int] = deque(maxlen=100)  # rows of the latest batches, newest last
        self._capacity = models
        self._gather_seconds = gather_seconds
        self._models: OrderedDict[str, LanguageModel] = OrderedDict()
        self._queue: list[Stream] = []
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._closed = False

    def generate(
        self, run_id: str, prompt: str, *, seeds: Sequence[int] = (0,), sampling: Sampling = Sampling()
    ) -> Stream:
        """Start one text a seed after `prompt` and return at once; iterate the Stream for what is written so far.

        A masked model appends as many masks as new tokens and draws them one by one (Gibbs sampling).
        Raises PromptError, RunNotFound or RunBroken for what can be known before the model is loaded.
        """
        if not 1 <= len(seeds) <= MOST_ROWS:
            raise PromptError(f"Ask for 1 to {MOST_ROWS} samples at a time, not {len(seeds)}.")
        return self._submit(run_id, prompt, tuple(int(seed) for seed in seeds), sampling, "write")

    def fill(self, run_id: str, text: str) -> Stream:
        """Rank what could stand at each [MASK] of `text`; the answer is `Stream.ranked`. Only for masked models."""
        if MASK not in text:
            raise PromptError(f"Put {MASK} where the model should fill in a word, for example “Patient name: {MASK}”.")
        return self._submit(run_id, text, (0,), Sampling(), "fill")

    def warm(self, run_id: str) -> None:
        """Load a run's model in the background, so that the first prompt does not wait for it. Never raises."""
        if run_id in self._models:
            return
        with contextlib.suppress(LookupError, ValueError, ServingError):
            self._submit(run_id, "warm", (0,), Sampling(), "load")

    def forget(self, run_id: str) -> None:
        """Let go of a run's weights: the run was deleted."""
        self._models.pop(run_id, None)

    def close(self) -> None:
        """Stop the worker after its batch; what still waits ends with a sentence."""
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
        """The oldest request and all that can share its batch: same model, same sampling, same task."""
        with self._wake:
            self._queue = [stream for stream in self._queue if not stream.done]
            if not self._queue:
                return []
            first, batch, rows = self._queue[0], [], 0
            for stream in self._queue:
                same = (stream.run_id, stream.sampling, stream.task) == (first.run_id, first.sampling, first.task)
                if same and (not batch or rows + len(stream.seeds) <= MOST_ROWS):
                    batch.append(stream)
                    rows += len(stream.seeds)
            taken = {id(stream) for stream in batch}
            self._queue = [stream for stream in self._queue if id(stream) not in taken]
        return batch

    def _answer(self, batch: list[Stream]) -> None:
        """Answer one batch; whatever goes wrong ends these streams with a sentence and leaves the worker alive."""
        try:
            lm = self._model(batch[0].run_id)
            ready = [stream for stream in batch if self._fits(lm, stream)]
            if ready:
                self.batches.append(sum(len(stream.seeds) for stream in ready))
                _TASKS[batch[0].task](lm, ready)
            for stream in batch:
                stream.finish()
        except Exception as error:  # the worker serves everybody: one bad request must not end it
            for stream in batch:
                stream.finish(_sentence(error))

    def _model(self, run_id: str) -> LanguageModel:
        if run_id not in self._models:
            lm = self.workspace.run(run_id).model()
            lm.model.eval()
            self._models[run_id] = lm
        self._models.move_to_end(run_id)
        while len(self._models) > self._capacity:
            self._models.popitem(last=False)
        return self._models[run_id]

    def _fits(self, lm: LanguageModel, stream: Stream) -> bool:
        """False, and the stream ended with a sentence, when prompt and answer do not fit into the model's context."""
        from core.models.tokenizer import encode

        answer = stream.sampling.new_tokens if stream.task == "write" else 0
        used = len(encode(lm, [stream.prompt])[0]) + 2  # the two special tokens around it
        if used + answer <= lm.context:
            return True
        stream.finish(
            f"The prompt is too long: it takes {used:,} tokens and the answer {answer}, and this model reads at most "
            f"{lm.context:,} together. Shorten the prompt."
        )
        return False


def _write(lm: LanguageModel, batch: list[Stream]) -> None:
    from core.models import generate

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
    from core.models import generate

    if lm.causal:
        raise PromptError("GPT-2 writes on from a prompt; only BERT models fill in masks.")
    for stream in batch:
        if not stream.cancelled:
            stream.ranked = generate.fill_masks(lm, stream.prompt)


_TASKS: dict[str, Callable[[LanguageModel, list[Stream]], None]] = {
    "write": _write,
    "fill": _fill,
    "load": lambda lm, batch: None,
}


def _sentence(error: Exception) -> str:
    """What a user reads: the sentence of an exception that carries one, else its type, and where to look."""
    from core.models.build import ModelNotFound
    from core.runs.run import RunNotFound

    if isinstance(error, ServingError | ModelNotFound | RunNotFound | ValueError):
        return str(error)
    return f"The model stopped with an unexpected {type(error).__name__}: {error}"
