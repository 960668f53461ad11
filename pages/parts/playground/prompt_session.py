"""A session's tries: prompts are queued by chips or a box and answered at the end of the run, when the page stands.

State of a browser session: `tries` (newest last), `next_seed`, `queued` before a prompt is asked, `live` while it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.runs.run import Run
from core.serving.server import PromptError, Sampling
from pages.parts.playground import leak_counts, side_by_side
from pages.parts.playground.side_by_side import USUAL, Answer, Try
from pages.parts.session import classroom, resources

CLASS_SEEDS = 2**30
KEPT_TRIES = 200  # the tally forgets older ones


def begin() -> None:
    """Make the session's state, and take in a try that a click interrupted: its partial text stays."""
    st.session_state.setdefault("tries", [])
    if "next_seed" not in st.session_state:
        st.session_state.next_seed = _first_seed()
    _take_live()


def forget() -> None:
    """Empty the tally and start again at the first seed."""
    st.session_state.tries, st.session_state.next_seed = [], _first_seed()


def _first_seed() -> int:
    """0; in a class somewhere else for everybody, since the same seeds would give all of them the same samples."""
    return secrets.randbelow(CLASS_SEEDS) if classroom.room() else 0


def tries() -> list[Try]:
    """Every try of this session that is remembered, newest last."""
    return st.session_state.tries


def answers_of(run: Run) -> list[Answer]:
    """Every sample that this run wrote in this session, an answer each."""
    return each_once(tries(), run.id)


def each_once(attempts: Sequence[Try], run_id: str) -> list[Answer]:
    """A run's samples, those of one prompt, seed and sampling once: asked again they are no further evidence.

    A text that was stopped and the whole one are one sample, and the longer of both stands.
    """
    longest: dict[tuple, Answer] = {}
    for attempt in attempts:
        for key, sample in attempt.samples():
            known = longest.get(key)
            if sample.run_id == run_id and (known is None or len(sample.texts[0]) > len(known.texts[0])):
                longest[key] = sample
    return list(longest.values())


def queue(prompt: str) -> None:
    """Ask this at the end of the run."""
    st.session_state.queued = prompt


def chips(label: str, prompts: Sequence[str], *, key: str, label_shown: bool = True) -> None:
    """Prompts to click on. A chip lets go at once, so that it can be clicked again for another seed."""

    def picked() -> None:
        if st.session_state[key]:
            queue(st.session_state[key])
            st.session_state[key] = None

    st.pills(label, prompts, key=key, on_change=picked, label_visibility="visible" if label_shown else "collapsed")


def answer_queued(
    pair: Sequence[Run],
    slots: Sequence[DeltaGenerator],
    notice: DeltaGenerator,
    *,
    samples: int,
    first_seed: int,
    sampling: Sampling = USUAL,
) -> None:
    """Ask the models what is queued, with a Stop button while they write; then draw the page anew with its counts.

    Call it last on a page: where Streamlit interrupts it, everything else already stands. A refused prompt is told in
    `notice`. With nothing queued, the models are loaded in the background.
    """
    prompt = st.session_state.pop("queued", None)
    if prompt is None:
        for run in pair:
            resources.server().warm(run.id)
        return
    places: dict[str, tuple[Run, DeltaGenerator]] = {}
    for run, slot in zip(pair, slots, strict=True):
        places.setdefault(run.id, (run, slot))
    runs, where = zip(*places.values(), strict=True)
    notice.button("Stop", icon=":material/stop_circle:", key="stop", help="What is written so far stays.")
    st.session_state.next_seed = first_seed + samples
    seeds = range(first_seed, first_seed + samples)
    try:
        st.session_state.live = side_by_side.start(prompt, runs, seeds, sampling)
    except PromptError as error:
        notice.error(str(error), icon=":material/error:")
        return
    side_by_side.watch(st.session_state.live.streams, where)
    _take_live()
    st.rerun()


def _take_live() -> None:
    """Move the try that is being answered to the session's tries, finished or not."""
    live = st.session_state.pop("live", None)
    if live is not None:
        ended = live.ended()
        st.session_state.tries = [*st.session_state.tries, ended][-KEPT_TRIES:]
        leak_counts.add_to_class(ended, live.runs)
