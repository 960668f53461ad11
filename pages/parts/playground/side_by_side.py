"""One prompt, several models, the same seeds: text streams into columns, and PHI is marked as it is written.

Home and Playground draw with this. Everything typed or generated reaches the page through `phi_text`.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.wording import percent
from core.runs.run import Run
from core.serving.server import MASK, Sampling, Stream, clean_prompt
from pages.parts.common import phi_text
from pages.parts.playground import blanks
from pages.parts.session import models, owner, resources

if TYPE_CHECKING:
    from core.phi.spans import Span
    from pages.parts.playground.stored_attempts import Mark

DEFAULT_SAMPLING = Sampling()
REFRESH_SECONDS = 0.08  # how often growing text is redrawn
MOST_IN_FULL = 3  # more texts than these are drawn as cards


@dataclass(frozen=True)
class Answer:
    """What one model wrote for one prompt: a text and its spans for each seed, or an error."""

    run_id: str
    seeds: tuple[int, ...]
    texts: tuple[str, ...] = ()
    spans: tuple[tuple[Span | Mark, ...], ...] = ()
    ranked: tuple[tuple[tuple[str, float], ...], ...] = ()  # for each mask, best first
    error: str | None = None
    stopped: bool = False
    judged: bool = True  # False: no training patient's identifier is known, so no leak can be found
    recorded: bool = False  # whether the seeds are those of attempts that an audit recorded

    @property
    def samples_with_leak(self) -> int:
        """The number of samples with a direct identifier of a training patient, planted canary patients included."""
        return sum(any(span.kind == "leak" for span in spans) for spans in self.spans)

    @property
    def leaked(self) -> Counter[str]:
        """Patients whose direct identifier was written, with the number of samples that contain it."""
        return Counter(
            patient_id
            for spans in self.spans
            for patient_id in {patient for span in spans if span.kind == "leak" for patient in span.patient_ids}
        )


@dataclass(frozen=True)
class Try:
    """One prompt and every model's answer to it."""

    prompt: str
    answers: tuple[Answer, ...]
    removed: int = 0  # control characters that were removed from the prompt
    sampling: Sampling = DEFAULT_SAMPLING

    def samples(self) -> Iterator[tuple[tuple[str, str, int, Sampling], Answer]]:
        """Each sample as a separate answer, with what determines its text: run, prompt, seed and sampling."""
        for answer in self.answers:
            for seed, text, spans in zip(answer.seeds, answer.texts, answer.spans, strict=True):
                own = replace(answer, seeds=(seed,), texts=(text,), spans=(spans,), ranked=(), error=None)
                yield (answer.run_id, self.prompt, seed, self.sampling), own


@dataclass(frozen=True)
class Live:
    """A try that is being answered. It is kept in the session's state, because Streamlit may abandon the script.

    A click while a script runs starts the next run at once in another thread, before the old one can save anything.
    """

    prompt: str
    removed: int
    runs: tuple[Run, ...]
    streams: tuple[Stream, ...]
    sampling: Sampling = DEFAULT_SAMPLING
    recorded: bool = False  # as in `Answer`

    def ended(self) -> Try:
        """The try as it is now; unfinished streams are cancelled, and their text is kept."""
        for stream in self.streams:
            stream.cancel()
        answers = _collect(self.streams, self.runs, recorded=self.recorded)
        return Try(self.prompt, answers, self.removed, self.sampling)


def start(
    prompt: str, runs: Sequence[Run], seeds: Sequence[int], sampling: Sampling, *, recorded: bool = False
) -> Live:
    """Send the same prompt with the same seeds to every run. Raises PromptError if the prompt cannot be used.

    `recorded`: the seeds are those of attempts that an audit recorded.
    """
    prompt, removed = clean_prompt(prompt)
    prompt = re.sub(re.escape(MASK), MASK, prompt, flags=re.IGNORECASE)  # [mask] means a blank too
    streams = tuple(_start(prompt, run, seeds, sampling) for run in runs)
    return Live(prompt, removed, tuple(runs), streams, sampling, recorded)


def _start(prompt: str, run: Run, seeds: Sequence[int], sampling: Sampling) -> Stream:
    """A masked model fills the blanks of a prompt that has any; otherwise models continue it. Never raises."""
    if MASK not in prompt:
        return models.asked(run, prompt, lambda server: server.generate(run.id, prompt, seeds=seeds, sampling=sampling))
    if run.spec.model.kind == "gpt2":
        why = f"GPT-2 continues a text and cannot fill {MASK}. Pick DistilBERT or BERT for this prompt."
        return Stream.failed(run.id, prompt, why)
    return models.asked(run, prompt, lambda server: server.fill(run.id, prompt))


def watch(live: Live, slots: Sequence[DeltaGenerator], recorded: Mapping[str, Answer] | None = None) -> None:
    """Draw every stream's texts until all are done; at each redraw Streamlit may interrupt the script.

    Where an answer is recorded, it is drawn at once and stays, and only the share that is written live grows.
    """
    known = recorded or {}
    above = {  # run id → placeholder above its recorded answer
        run.id: draw_recorded(live.prompt, known[run.id], slot)
        for run, slot in zip(live.runs, slots, strict=True)
        if run.id in known
    }
    while True:
        finished = all(stream.done for stream in live.streams)
        for run, stream, slot in zip(live.runs, live.streams, slots, strict=True):
            if run.id in above:
                above[run.id].markdown(_repeated(stream, known[run.id]))
            elif stream.texts:  # not if it failed before the first word
                texts = tuple(stream.texts)
                slot.html(_texts_html(stream.prompt, texts, _written_spans(texts, stream.prompt, run), growing=True))
        if finished:
            return
        time.sleep(REFRESH_SECONDS)


def draw_recorded(prompt: str, answer: Answer, slot: DeltaGenerator) -> DeltaGenerator:
    """A recorded answer with its PHI marked. Returns a placeholder above it."""
    with slot.container():
        line = st.empty()
        st.html(_texts_html(prompt, answer.texts, answer.spans))
        return line


def _repeated(stream: Stream, answer: Answer) -> str:
    written = sum(map(len, stream.texts)) / max(1, sum(map(len, answer.texts)))
    live = f"writing it again: {percent(min(1.0, written))}" if any(stream.texts) else "the model is loading"
    return f"{_badge(answer)} :small[recorded in the audit; {live}]"


def _texts_html(
    prompt: str,
    texts: Sequence[str],
    spans: Sequence[Sequence[Span | Mark]],
    *,
    growing: bool = False,
    keys: Sequence[str | None] | None = None,
) -> str:
    """A few texts in full, one below the other; more of them as cards. With `keys`, their marks can be clicked."""
    if len(texts) > MOST_IN_FULL:
        return phi_text.cards_html(texts, spans, prompt=prompt, growing=growing, keys=keys)
    return "".join(
        phi_text.leaks_html(text, found, prompt=prompt, growing=growing, key=key)
        for text, found, key in zip(texts, spans, keys or [None] * len(texts), strict=True)
    )


def _written_spans(texts: Sequence[str], prompt: str, run: Run) -> tuple[tuple[Span, ...], ...]:
    """The spans in texts that still grow; one that touches the end may become another word."""
    found = _spans(texts, prompt, run)
    return tuple(tuple(span for span in one if span.end < len(text)) for text, one in zip(texts, found, strict=True))


def _collect(streams: Sequence[Stream], runs: Sequence[Run], *, recorded: bool = False) -> tuple[Answer, ...]:
    """Every stream as it is now, with its PHI marked."""
    answers = []
    for stream, run in zip(streams, runs, strict=True):
        rows = list(zip(stream.seeds, stream.texts, strict=True)) if not (stream.error or stream.task == "fill") else []
        if stream.cancelled:  # a sample that was stopped before its first word does not count
            rows = [row for row in rows if row[1]]
        texts = tuple(text for _, text in rows)
        answers.append(
            Answer(
                run_id=stream.run_id,
                seeds=tuple(seed for seed, _ in rows),
                texts=texts,
                spans=_spans(texts, stream.prompt, run),
                ranked=tuple(tuple(mask) for mask in stream.ranked or ()),
                error=stream.error,
                stopped=stream.cancelled,
                judged=resources.leaks_can_be_found(run.spec.corpus, owner.workspace()),
                recorded=recorded,
            )
        )
    return tuple(answers)


def _spans(texts: Sequence[str], prompt: str, run: Run) -> tuple[tuple[Span, ...], ...]:
    if not any(texts):
        return tuple(() for _ in texts)
    from core.phi.leaks import find_many

    index = resources.phi_index(run.spec.corpus, run.spec.without, owner.workspace())
    return tuple(tuple(spans) for spans in find_many(texts, index, [prompt] * len(texts)))


def draw(prompt: str, answer: Answer, slot: DeltaGenerator) -> None:
    """A badge with the result, and the answer with its PHI marked."""
    with slot.container():
        if answer.error:
            st.error(phi_text.literal(answer.error, 600), icon=":material/error:")
        if answer.ranked:
            st.html(blanks.ranked_html(prompt, answer.ranked))
        if answer.stopped and not answer.texts:
            st.caption("Stopped before the first word.")
        if answer.texts:
            why = " · click\u00a0a\u00a0mark" * any(answer.spans)
            caption = f"{_seeds_text(answer)}{' · stopped early' * answer.stopped}{why}"
            st.markdown(f"{_badge(answer)} :small[{caption}]")
            keys = [text_key(answer.run_id, text) for text in answer.texts]
            st.html(_texts_html(prompt, answer.texts, answer.spans, keys=keys))


def text_key(run_id: str, text: str) -> str:
    """What names a text in a page's HTML, so that a click on one of its marks says which text it is in."""
    return hashlib.blake2s(f"{run_id}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _badge(answer: Answer) -> str:
    samples, leaks = len(answer.texts), answer.samples_with_leak
    if not answer.judged:
        return ":gray-badge[:material/question_mark: cannot be checked: no identifier of its patients is known]"
    if not leaks:
        return f":gray-badge[no leak in {'this text' if samples == 1 else f'these {samples} texts'}]"
    patients_named = len(answer.leaked)
    several = f" ({_with_several(answer)})" if patients_named > leaks > 1 else ""
    many = f"{leaks} of {samples} texts leak" if samples > 1 else "leaks"
    return f":red-badge[:material/warning: {many}: {patients_named} patient{'s' * (patients_named > 1)}{several}]"


def _with_several(answer: Answer) -> str:
    """In how many texts the leaks fit several patients: without it, more patients than texts look like a mistake."""
    patients = [
        {patient for span in spans if span.kind == "leak" for patient in span.patient_ids} for spans in answer.spans
    ]
    count = sum(len(of_text) > 1 for of_text in patients)
    return "1 text fits several" if count == 1 else f"{count} texts fit several"


def _seeds_text(answer: Answer) -> str:
    seeds = answer.seeds
    if answer.recorded:  # numbers of up to 63 bits
        return f"the audit’s seed{'s' * (len(seeds) > 1)}, written again live"
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    if seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"seeds {seeds[0]} to {seeds[-1]}"
    *first, last = map(str, seeds)  # a stop drops samples without a word
    return f"seeds {', '.join(first)} and {last}"
