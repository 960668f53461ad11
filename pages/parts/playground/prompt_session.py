"""A session's prompts: chips and the text box queue them, and they are answered after the page is drawn.

State of a browser session: `tries` (newest last), `next_seed`, `queued` before a prompt is answered, `live` meanwhile;
`refused`, a prompt that goes back into its box; `linked`, a link's prompt; `unasked` once a queued one was dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlencode

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.prompts import PROMPTS
from core.runs.run import Run
from core.serving.server import PromptError, Sampling
from pages.parts.access import gate
from pages.parts.playground import leak_counts, replay, side_by_side
from pages.parts.playground.side_by_side import DEFAULT_SAMPLING, Answer, Live, Try
from pages.parts.session import classroom, gone, owner, resources

CLASS_SEEDS = 2**30
MOST_SEED = 2**31
LINKED_SECONDS = 0.3  # after which a link's prompt is answered
LINKED_CHARACTERS = 1_000  # of a prompt: browsers and proxies cut longer addresses
KEPT_TRIES = 200  # older ones are not counted any more
ANSWERED = "answers-shown"  # key of a hidden box: how many answers the browser was sent
LOST = "answers_lost"  # in the session: an earlier session of this browser ended with its answers
GONE = "Your earlier answers and counts are gone: the server was restarted, or the connection was lost for too long."
EXAMPLES = frozenset(prompt.text for prompt in PROMPTS)


def begin() -> None:
    """Initialise the session's state, and keep the partial text of a try that a click interrupted."""
    is_new = "tries" not in st.session_state
    st.session_state.setdefault("tries", [])
    _notice_loss(is_new)
    if "next_seed" not in st.session_state:
        st.session_state.next_seed = _first_seed()
    _take_live()


def _notice_loss(is_new: bool) -> None:
    """Notice that a new session talks to a browser that shows the answers of an earlier one, which are gone.

    A server that was started again, or that ended the session of a lost connection, knows nothing of them. The browser
    keeps their number in a box that the style sheet hides, and sends it with its first click.
    """
    if not is_new:
        st.session_state[ANSWERED] = len(tries())
    answered = st.number_input("Answers", min_value=0, step=1, key=ANSWERED, label_visibility="collapsed")
    if is_new and answered:
        st.session_state[LOST] = True


def say_lost() -> None:
    """Say that earlier answers are gone, until there are two new ones."""
    if st.session_state.get(LOST) and len(tries()) < 2:
        st.caption(GONE)


@gone.drops
def _drop_gone(still: gone.Still) -> None:
    """Drop the tries that asked a model that is gone: its texts may hold details of real patients.

    So may the prompt, which came from a person who has the notes. Other models' answers to it go as well, and so do
    prompts that wait to be answered or corrected, unless they are examples.
    """
    live: Live | None = st.session_state.get("live")
    if live is not None and any(run.id not in still.runs for run in live.runs):
        del st.session_state["live"]
        for stream in live.streams:
            stream.cancel()
    kept: list[Try] = st.session_state.get("tries", [])
    lost = [attempt for attempt in kept if any(answer.run_id not in still.runs for answer in attempt.answers)]
    if lost:
        prompts = {attempt.prompt for attempt in lost} - EXAMPLES
        st.session_state.tries = [one for one in kept if one not in lost and one.prompt not in prompts]
    if lost or still.lost:
        _drop_waiting()


def _drop_waiting() -> None:
    """Drop the prompts that wait to be answered or corrected, except examples."""
    queued, (linked, _) = st.session_state.get("queued"), st.session_state.get("linked", (None, None))
    for prompt, names in ((queued, ("queued", "queued_seed")), (linked, ("linked",))):
        if prompt is not None and prompt not in EXAMPLES:
            st.session_state["unasked"] = True
            for name in names:
                st.session_state.pop(name, None)
    for name in ("refused", "refused_because"):
        st.session_state.pop(name, None)


def forget() -> None:
    """Clear the counts and start again at the first seed."""
    st.session_state.tries, st.session_state.next_seed = [], _first_seed()


def _first_seed() -> int:
    """0; in a class a random number, since with the same seeds all students would get the same samples."""
    return secrets.randbelow(CLASS_SEEDS) if classroom.room() else 0


def tries() -> list[Try]:
    """Every try that this session keeps, newest last."""
    return st.session_state.tries


def answers_of(run: Run) -> list[Answer]:
    """Every sample that this run wrote in this session, one answer each."""
    return each_once(tries(), run.id)


def each_once(attempts: Sequence[Try], run_id: str) -> list[Answer]:
    """A run's samples, one per prompt, seed and sampling: repeating them gives no further evidence.

    A text that was stopped and the complete one are one sample; the longer one is kept.
    """
    longest: dict[tuple, Answer] = {}
    for attempt in attempts:
        for key, sample in attempt.samples():
            known = longest.get(key)
            if sample.run_id == run_id and (known is None or len(sample.texts[0]) > len(known.texts[0])):
                longest[key] = sample
    return list(longest.values())


def written_about(patient_id: str, run: Run) -> list[tuple[str, Answer]]:
    """Samples of a run in this session with a leak of this patient: (prompt, one sample), newest first, each once."""
    found: dict[tuple, tuple[str, Answer]] = {}
    for attempt in reversed(st.session_state.get("tries", [])):
        for key, sample in attempt.samples():
            if sample.run_id == run.id and patient_id in sample.leaked:
                found.setdefault(key, (attempt.prompt, sample))
    return list(found.values())


def samples() -> list[tuple[str, Answer]]:
    """Every sample of this session with its prompt, newest first."""
    return [(attempt.prompt, sample) for attempt in reversed(tries()) for _, sample in attempt.samples()]


def newest_text() -> str:
    """The newest prompt with the first text after it; empty if there is none."""
    prompt, answer = next(((prompt, one) for prompt, one in samples()), ("", None))
    return prompt + answer.texts[0] if answer else ""


def queue(prompt: str) -> None:
    """Answer this prompt at the end of the script run."""
    st.session_state.queued, st.session_state.queued_seed = prompt, None


def waiting() -> bool:
    """Whether a prompt will be answered at the end of this run of the script."""
    return st.session_state.get("queued") is not None


def unqueue(box: str) -> bool:
    """Answer no prompt at the end of the script run: what was clicked or typed was meant for another model.

    What was typed into the text box with this key goes back into it (`put_back`). Call it before the box is drawn.

    Returns:
        Whether there was a prompt.
    """
    typed: str | None = st.session_state.get(box)
    if typed:
        st.session_state.refused = typed
    found = [st.session_state.pop(name, None) for name in ("queued", "linked", "unasked")]
    st.session_state.pop("queued_seed", None)
    return bool(typed or any(found))


def put_back(box: str) -> None:
    """Put a refused prompt back into the text box with this key, to be corrected. Call it before the box is drawn."""
    if (refused := st.session_state.pop("refused", None)) is not None:
        st.session_state[box] = refused


def ask_again(attempt: Try) -> None:
    """Answer an earlier prompt again, for a model that has no answer to it, with its first seed (a callback)."""
    seeds = _seeds(attempt)
    st.session_state.queued, st.session_state.queued_seed = attempt.prompt, seeds[0] if seeds else None


def link(runs: Sequence[Run]) -> str | None:
    """The address that shows these models' answers to the newest prompt to anyone; None before the first answer.

    A prompt may contain what only its author may see, so it is never put into the page's own address.
    """
    newest = tries()[-1] if tries() else None
    seeds = () if newest is None else _seeds(newest)
    if newest is None or not seeds or len(newest.prompt) > LINKED_CHARACTERS:
        return None
    left, right = runs[0].id, runs[-1].id
    asked = {"prompt": newest.prompt, "first": str(seeds[0]), "samples": str(len(seeds))}
    return f"{(st.context.url or '').split('?')[0]}?{urlencode({'left': left, 'right': right, **asked})}"


def _seeds(attempt: Try) -> tuple[int, ...]:
    """The seeds of a try; none if no model could answer it."""
    return next((answer.seeds for answer in attempt.answers if answer.seeds), ())


def from_link() -> None:
    """Answer the link's prompt (`?prompt=…&first=7`), once; tell a class which one is on the screen."""
    asked, first = st.query_params.get("prompt", ""), st.query_params.get("first", "")
    if asked:
        for name in ("prompt", "first"):
            st.query_params.pop(name, None)
        seed = min(int(first), MOST_SEED) if first.isdecimal() and len(first) < 11 else None
        st.session_state.linked, st.session_state.linked_drawn = (asked, seed), True
        gate.fragment(_answer_linked, run_every=LINKED_SECONDS)()
    elif linked := st.session_state.pop("linked", None):
        queue(linked[0])
        st.session_state.queued_seed = linked[1]
    seeds = _seeds(tries()[-1]) if tries() else ()
    if seeds:  # a prompt that was refused has none
        classroom.on_screen(prompt=tries()[-1].prompt, first=str(seeds[0]), samples=str(len(seeds)))


def _answer_linked() -> None:
    """Draw the page anew for the link's prompt, after the run that took the link's settings has ended.

    Streamlit warns of widgets with two values if the run that seeds them from a link ends in `st.rerun`.
    """
    if not st.session_state.pop("linked_drawn", False) and "linked" in st.session_state:
        st.rerun(scope="app")


def chips(label: str, prompts: Sequence[str], *, key: str, label_shown: bool = True) -> None:
    """Prompts to click on. A chip is deselected at once, so that it can be clicked again for another seed."""

    def picked() -> None:
        if st.session_state[key]:
            queue(st.session_state[key])
            st.session_state[key] = None

    taken = f"{key}_taken"
    if st.session_state.pop(taken, False):
        st.session_state[key] = None
    shown: Literal["visible", "collapsed"] = "visible" if label_shown else "collapsed"
    chosen = st.pills(label, prompts, key=key, on_change=picked, label_visibility=shown)
    if chosen is not None:  # the first click after a lost session: a new one has no callback yet
        queue(chosen)
        st.session_state[taken] = True


def answer_queued(
    pair: Sequence[Run],
    slots: Sequence[DeltaGenerator],
    notice: DeltaGenerator,
    *,
    samples: int,
    first_seed: int,
    sampling: Sampling = DEFAULT_SAMPLING,
    replayed: bool = False,
) -> None:
    """Send the queued prompt to the models, with a Stop button while they write; then rerun the page with its counts.

    Call it last on a page: if Streamlit interrupts it, everything else is drawn already. With no prompt in the queue,
    the models and what finds patients in their texts are loaded in the background.

    Args:
        pair: The models.
        slots: The placeholder for each model's text.
        notice: The placeholder for the Stop button, or for the error about a refused prompt.
        samples: Samples per model.
        first_seed: The seed of the first sample; the others follow.
        sampling: How texts are sampled.
        replayed: Show recorded attempts of the prompt while the models write the same ones, if there are any.
    """
    prompt = st.session_state.pop("queued", None)
    if because := st.session_state.pop("refused_because", ""):
        notice.error(because, icon=":material/error:")
    if prompt is None:
        for run in pair:
            resources.server().warm(run.id)
            resources.warm_phi_index(run, owner.workspace())
        return
    places: dict[str, tuple[Run, DeltaGenerator]] = {}
    for run, slot in zip(pair, slots, strict=True):
        places.setdefault(run.id, (run, slot))
    runs, where = zip(*places.values(), strict=True)
    notice.button("Stop", icon=":material/stop_circle:", key="stop", help="The text written so far is kept.")
    linked = st.session_state.pop("queued_seed", None)  # the presenter's; one's own next seed stays
    recorded = replay.find(prompt, runs, samples, sampling, tries()) if replayed else None
    first = first_seed if linked is None else linked
    seeds = range(first, first + samples) if recorded is None else recorded.seeds
    try:
        st.session_state.live = side_by_side.start(prompt, runs, seeds, sampling, recorded=recorded is not None)
    except PromptError as error:
        st.session_state.refused, st.session_state.refused_because = prompt, str(error)
        st.rerun()  # so that the prompt can be put back into its box, which is drawn already
    if recorded is None and linked is None:
        st.session_state.next_seed = first_seed + samples
    side_by_side.watch(st.session_state.live, where, recorded.answers if recorded else None)
    _take_live()
    st.rerun()


def _take_live() -> None:
    """Move the try that is being answered to the session's tries, finished or not."""
    live = st.session_state.pop("live", None)
    if live is not None:
        ended = live.ended()
        st.session_state.tries = [*st.session_state.tries, ended][-KEPT_TRIES:]
        leak_counts.add_to_class(ended, live.runs)
