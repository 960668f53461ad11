"""The interface between a page and the model server: prompts, sampling, and an answer that grows."""

from __future__ import annotations

import threading
import unicodedata
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from core.models.token_view import TokenView

LONGEST_PROMPT = 20_000  # characters; longer prompts are not tokenized, since contexts hold a few hundred tokens


class PromptError(ValueError):
    """A prompt cannot be answered. The message is a sentence: what is wrong and what to do."""


class ServingError(RuntimeError):
    """The model could not be loaded or failed while writing. The message is a sentence."""


class RequestRefused(ServingError, PromptError):
    """The request cannot be answered, which was known only after the model was loaded. The message is a sentence."""


@dataclass(frozen=True)
class Sampling:
    """Sampling settings; requests with equal settings share batches."""

    new_tokens: int = 60
    temperature: float = 0.8
    top_k: int = 50
    top_p: float = 0.95


DEFAULT_SAMPLING = Sampling()


def clean_prompt(prompt: str) -> tuple[str, int]:
    """The prompt without control characters and lone surrogates, and how many were removed. Newlines and tabs stay.

    Raises:
        PromptError: The prompt is empty after that, or too long.
    """
    if len(prompt) > LONGEST_PROMPT:
        raise PromptError(
            f"The prompt has {len(prompt):,} characters. The model reads a few hundred words: shorten it to a sentence."
        )
    kept = without_controls(prompt)
    if not kept.strip():
        raise PromptError("The prompt is empty. Type the beginning of a sentence.")
    return kept, len(prompt.replace("\r\n", "\n")) - len(kept)


def without_controls(text: str) -> str:
    """`text` without control characters and lone surrogates, and with plain line ends. Newlines and tabs stay."""
    plain = text.replace("\r\n", "\n")
    return "".join(c for c in plain if c in "\n\t" or unicodedata.category(c) not in ("Cc", "Cs"))


@dataclass
class Stream:
    """One request's growing answer. Read `texts` at any time; `cancel()` keeps the text so far."""

    run_id: str
    prompt: str
    seeds: tuple[int, ...]
    sampling: Sampling
    texts: list[str] = field(default_factory=list)  # one per seed, without the prompt
    ranked: list[list[tuple[str, float]]] | None = None  # fill(): candidates for each mask, best first
    views: list[TokenView] | None = None  # inspect(): every token of the text
    error: str | None = None
    refused: bool = False  # True if the error is in the request, not in the server
    cancelled: bool = False
    task: str = (
        "write"  # or "fill": rank words for each mask; "inspect": judge every token; "load": only load the model
    )
    _finished: threading.Event = field(default_factory=threading.Event, repr=False)
    _changing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @classmethod
    def failed(cls, run_id: str, prompt: str, error: str) -> Stream:
        """A stream that ended before it began, with a sentence that says why."""
        stream = cls(run_id, prompt, (), Sampling())
        stream.finish(error)
        return stream

    @property
    def done(self) -> bool:
        """True once nothing more will come."""
        return self._finished.is_set()

    def cancel(self) -> None:
        """Stop this answer; the text so far stays in `texts`. The batch continues for the other requests in it."""
        with self._changing:  # or a token that is just being written would follow what a page has read since
            if not self.done:
                self.cancelled = True
                self._finished.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Block until done, or for `seconds`. True when done."""
        return self._finished.wait(seconds)

    def result(self, seconds: float | None = None) -> list[str]:
        """Wait for the texts and return them.

        Raises:
            ServingError: The server failed, with its sentence (RequestRefused if the error is in the request).
            TimeoutError: The answer is not complete after `seconds`.
        """
        if not self.wait(seconds):
            raise TimeoutError(f"no answer from {self.run_id} within {seconds} s")
        if self.error:
            raise (RequestRefused if self.refused else ServingError)(self.error)
        return self.texts

    def update(self, row: int, text: str) -> bool:
        """Called by the server: sample `row` now reads `text`. Returns False after a cancel: stop writing it."""
        with self._changing:
            if not self.done:
                self.texts[row] = text
            return not self.done

    def finish(self, error: str | None = None, *, refused: bool = False) -> None:
        """Called by the server: nothing more will come."""
        with self._changing:
            if not self.done:
                self.error, self.refused = error, refused
                self._finished.set()
