"""Playground: one prompt, two models, the same seed; what leaks is marked."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.prompts import PROMPTS
from core.runs.run import Run
from core.serving import PromptError, Sampling
from pages.parts import phi_text, run_picker, shell, side_by_side, tally
from pages.parts.side_by_side import Answer

SHOWN_CHIPS = 6
KEPT_TRIES = 200  # a session's tally forgets older ones
SAMPLES = (1, 4, 8, 16)
BLANKS = ("Patient name: [MASK] [MASK]", "The patient was given [MASK] for [MASK].")

shell.page(
    "Playground",
    "Does a model repeat the patients it was trained on, and does privacy training stop it? "
    "Both columns get the same prompt and the same random seed.",
)
state = st.session_state
state.setdefault("tries", [])
state.setdefault("next_seed", 0)


def queue(prompt: str) -> None:
    """Remember what to ask at the end of this run, when the page stands."""
    state.queued = prompt


def pick_pair(runs: list[Run]) -> list[Run]:
    """The pickers on top of the two columns."""
    left, right = run_picker.default_pair(runs)
    first, second = st.columns(2, gap="large")
    with first:
        chosen = run_picker.pick("Left model", runs, left, key="left")
    with second:
        other = run_picker.pick("Right model", runs, right or left, key="right")
    return [chosen or runs[0], other or runs[0]]


def settings() -> tuple[int, int]:
    """Samples a try, and the first seed."""
    with st.popover("Settings", icon=":material/tune:"):
        samples = st.segmented_control(
            "Samples a try", SAMPLES, default=1, required=True, key="samples", bind="query-params",
            help="More samples, each with its own seed, are more chances to leak.",
        )  # fmt: skip
        seed = st.number_input(
            "First seed", 0, 2**31, value=None, key="seed", bind="query-params", placeholder="the next one",
            help="Empty: a new seed each time. The same prompt, seed and model always give the same text.",
        )  # fmt: skip
        if st.button("Forget this session's tries", icon=":material/delete:"):
            state.tries, state.next_seed = [], 0
    return samples or 1, state.next_seed if seed is None else int(seed)


def picked(key: str) -> None:
    """Queue the prompt of a chip and let go of it, so that it can be picked again."""
    if state[key]:
        queue(state[key])
        state[key] = None


def chips(masked: bool) -> None:
    """Example prompts; all but the first are folded away."""
    texts = [prompt.text for prompt in PROMPTS]
    st.pills(
        "Example prompts", texts[:SHOWN_CHIPS], key="chips", on_change=picked, args=("chips",),
        label_visibility="collapsed",
    )  # fmt: skip
    with st.popover("More prompts"):
        st.pills("More prompts", texts[SHOWN_CHIPS:], key="more_chips", on_change=picked, args=("more_chips",))
        if masked:
            st.pills("Blanks for BERT models to fill in", BLANKS, key="blanks", on_change=picked, args=("blanks",))


def answers_of(run: Run) -> list[Answer]:
    """Everything this run answered in this session."""
    return [answer for attempt in state.tries for answer in attempt.answers if answer.run_id == run.id]


def columns(pair: list[Run]) -> list[DeltaGenerator]:
    """Two columns, each with a place for the text, the counts with their controls, and who leaked."""
    slots = []
    latest = state.tries[-1] if state.tries else None
    for side, (column, run) in enumerate(zip(st.columns(2, gap="large"), pair, strict=True)):
        with column:
            slots.append(st.empty())
            for answer in latest.answers if latest else ():
                if answer.run_id == run.id:
                    side_by_side.draw(latest.prompt, answer, slots[-1])
            if side and run == pair[0]:
                st.caption("The same model as on the left: pick another one to compare.")
                continue
            tally.session(answers_of(run))
            tally.audit(run)
            tally.who_leaked(answers_of(run), run, key=f"who{side}")
    return slots


def earlier() -> None:
    """The tries before the one on screen, newest first, each with its texts."""
    with st.expander(f"Earlier tries ({len(state.tries) - 1})"):
        for attempt in reversed(state.tries[-11:-1]):
            for side, answer in zip(st.columns(2, gap="large"), attempt.answers, strict=False):
                side_by_side.draw(attempt.prompt, answer, side.empty())


def answer_queued(pair: list[Run], slots: list[DeltaGenerator], samples: int, first: int) -> None:
    """Ask both models what was queued, with a Stop button while they write, then draw the page anew with the counts."""
    prompt = state.pop("queued", None)
    if prompt is None:
        return
    asked = {run.id: (run, slot) for run, slot in reversed(list(zip(pair, slots, strict=True)))}
    runs, places = zip(*reversed(asked.values()), strict=True)
    state.next_seed = first + samples
    notice.button("Stop", icon=":material/stop_circle:", key="stop", help="What is written so far stays.")
    try:
        state.tries = [*state.tries, side_by_side.ask(prompt, runs, range(first, first + samples), Sampling(), places)]
    except PromptError as error:
        notice.error(str(error), icon=":material/error:")
        return
    st.rerun()


runs = run_picker.promptable()
if not runs:
    st.info("There is no trained model to talk to yet. Train one first: a small one takes minutes.")
    shell.link("train", "Train a model", icon=":material/model_training:")
    st.stop()
interrupted = state.pop("interrupted", None)
state.tries = [*state.tries, *([interrupted] if interrupted else [])][-KEPT_TRIES:]

pair = pick_pair(runs)
with st.container(horizontal=True, vertical_alignment="center"):
    typed = st.chat_input("Type the beginning of a note, for example: Patient name:", key="typed")
    samples, first_seed = settings()
if typed is not None:
    queue(typed)
with st.container(horizontal=True, vertical_alignment="center"):
    chips(any(run.spec.model.kind != "gpt2" for run in pair))
notice = st.empty()
if state.tries and state.tries[-1].removed:
    notice.caption(f"Control characters taken out of the prompt: {state.tries[-1].removed}.")
slots = columns(pair)
st.html(phi_text.legend_html())
if len(state.tries) > 1:
    earlier()
answer_queued(pair, slots, samples, first_seed)
