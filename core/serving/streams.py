"""One request's answer while it grows, and what may be asked: what a page and the model server say to each other."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field

LOOK_SECONDS = 0.03  # between two looks at a stream that is iterated
LONGEST_PROMPT = 20_000  # characters; nothing longer is worth tokenizing, contexts are some hundred tokens


class PromptError(ValueError):
    """A prompt cannot be answered. The text is a sentence: what is wrong and what to do."""


class ServingError(RuntimeError):
    """The model could not be loaded or failed while writing. The text is a sentence."""


class RequestRefused(ServingError, PromptError):
    """What was asked fits no answer, which showed only once the model was there. The text is a sentence."""


@dataclass(frozen=True)
class Sampling:
    """How text is drawn; requests that share it share batches."""

    new_tokens: int = 60
    temperature: float = 0.8
    top_k: int = 50
    top_p: float = 0.95


USUAL = Sampling()


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
    refused: bool = False  # the error is the request's, not the server's
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
        """Wait for and return the texts.

        Raises ServingError with the server's sentence (RequestRefused where the request is at fault), TimeoutError when
        not done.
        """
        if not self.wait(seconds):
            raise TimeoutError(f"no answer from {self.run_id} within {seconds} s")
        if self.error:
            raise (RequestRefused if self.refused else ServingError)(self.error)
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

    def finish(self, error: str | None = None, *, refused: bool = False) -> None:
        """Called by the server: nothing more will come."""
        if not self.done:
            self.error, self.refused = error, refused
            self._finished.set()
