"""Playground: one prompt, two models, the same seed; leaks are marked."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.prompts import PROMPTS
from core.evaluation import comparison
from core.runs.run import Run
from pages.parts.common import layout, phi_text, scroll, shell, together
from pages.parts.pickers import gone_models, hospitals, run_picker
from pages.parts.playground import leak_counts, look_inside, prompt_session, side_by_side, why
from pages.parts.playground.side_by_side import Try

SHOWN_CHIPS = 6
SHOWN_EARLIER = 10
SHOWN_CHARACTERS = 60  # of a prompt, on a button
SAMPLES = (1, 4, 8, 16)
BLANKS = ("The patient takes sertraline for [MASK] and is well.", "The patient is a 31-year-old [MASK] with [MASK].")


def pick_pair(runs: list[Run]) -> list[Run]:
    """The model pickers above the two columns."""
    left, right = run_picker.opening_pair(runs)
    first, second = st.columns(2, gap="large")
    with first:
        chosen = run_picker.pick("Left model", runs, left, key="left")
    with second:
        other = run_picker.pick("Right model", runs, right or left, key="right")
    return [chosen, other]


def settings() -> tuple[int, int]:
    """The number of samples per prompt, and the first seed."""
    with st.popover("Settings", icon=":material/tune:"):
        samples = st.segmented_control(
            "Samples per prompt",
            SAMPLES,
            default=1,
            required=True,
            key="samples",
            bind="query-params",
            help="Each sample has its own seed. More samples give a model more chances to leak.",
        )
        seed = st.number_input(
            "First seed",
            0,
            prompt_session.MOST_SEED,
            value=None,
            key="seed",
            bind="query-params",
            placeholder="next",
            help="Leave empty for a new seed each time. The same prompt, seed and model give the same text, which "
            "counts once.",
        )
        st.button("Clear this session's counts", icon=":material/delete:", on_click=prompt_session.forget)
    return samples or 1, st.session_state.next_seed if seed is None else int(seed)


def prompts(masked: bool) -> None:
    """Example prompts; all but the first few are in a popover. Masked models get some with blanks."""
    texts = [prompt.text for prompt in PROMPTS]
    with st.container(horizontal=True, vertical_alignment="center"):
        prompt_session.chips("Example prompts", texts[:SHOWN_CHIPS], key="chips", label_shown=False)
        with st.popover("More prompts"):
            prompt_session.chips("More prompts", texts[SHOWN_CHIPS:], key="more_chips")
    if masked:
        prompt_session.chips("Blanks to fill", BLANKS, key="blanks", label_shown=False)
        st.caption(
            "DistilBERT and BERT rank their guesses for every [MASK] in a prompt. Without one, they continue the "
            "prompt: masks are added after it and sampled one by one (Gibbs sampling)."
        )


def columns(pair: list[Run]) -> list[DeltaGenerator]:
    """Two columns, each with a placeholder for the text, the counts with their controls, and who leaked."""
    slots = []
    latest = prompt_session.tries()[-1] if prompt_session.tries() else None
    for side, (column, run) in enumerate(zip(st.columns(2, gap="large"), pair, strict=True)):
        with column, layout.fresh(f"answer-{side}", run.id):
            slots.append(st.empty())
            if side and run == pair[0]:
                slots[-1].caption("This is the same model as on the left. Pick another one to compare.")
                continue
            if latest is not None:
                answered(latest, run, slots[-1], key=f"again{side}")
            leak_counts.counts(prompt_session.answers_of(run), run)
            leak_counts.who_leaked(prompt_session.answers_of(run), run, key=f"who{side}")
    return slots


def answered(latest: Try, run: Run, slot: DeltaGenerator, *, key: str) -> None:
    """The model's answer to the newest prompt; a button that asks it if another model was picked since."""
    found = [answer for answer in latest.answers if answer.run_id == run.id]
    for answer in found:
        side_by_side.draw(latest.prompt, answer, slot)
    if not found:
        told = phi_text.literal(latest.prompt, SHOWN_CHARACTERS)
        label = f"Ask this model too: {told}"
        slot.button(label, icon=":material/replay:", key=key, on_click=prompt_session.ask_again, args=(latest,))


def share(pair: list[Run]) -> None:
    """The link to the newest answers, to be copied."""
    found = prompt_session.link(pair)
    if found is None or together.has_uploads():
        return
    with st.popover("Link", icon=":material/link:"):
        st.code(found, language=None, wrap_lines=True)
        st.caption("Opens these models with this prompt and seed. The link contains the prompt: share it with care.")


def earlier() -> None:
    """The prompts before the current one, newest first."""
    before = prompt_session.tries()[:-1]
    with st.expander(f"Earlier prompts ({len(before)})"):
        for attempt in before[: -SHOWN_EARLIER - 1 : -1]:
            for side, answer in zip(st.columns(2, gap="large"), attempt.answers, strict=False):
                side_by_side.draw(attempt.prompt, answer, side.empty())


shell.page(
    "playground",
    "Does a model repeat details of the patients it was trained on, and does differential privacy limit that? "
    "Both models get the same prompt and the same seed.",
)
prompt_session.begin()
prompt_session.from_link()
runs = run_picker.promptable(unaudited=True)
if not runs:
    st.info("There is no trained model yet. Train one first: a small one takes minutes.")
    shell.link_to_train()
    st.stop()

pair = pick_pair(runs)
unasked = gone_models.found_now("left", "right") and prompt_session.unqueue("typed")
prompt_session.put_back("typed")
with st.container(horizontal=True, vertical_alignment="center"):
    typed = st.chat_input("Start of a note, for example: Patient:", key="typed")
    samples, first_seed = settings()
    share(pair)
    look_inside.button(pair, prompt_session.newest_text())
if typed is not None:
    prompt_session.queue(typed)
prompts(masked=any(run.spec.model.kind != "gpt2" for run in pair))
answers_at = st.container()
notice = st.empty()
prompt_session.say_lost()
if unasked:
    notice.caption("The chosen model is gone, so the prompt was not sent. Choose a model and ask again.")
if prompt_session.tries() and prompt_session.tries()[-1].removed:
    notice.caption(f"Control characters removed from the prompt: {prompt_session.tries()[-1].removed}.")
asked = typed or (prompt_session.tries()[-1].prompt if prompt_session.tries() else "")
if asked.rstrip().endswith("?"):
    st.caption("These models continue a text; they do not answer questions. Try the start of a note: “Patient:”.")
slots = columns(pair)
st.html(phi_text.legend_html())
if told := hospitals.differ(pair):
    st.caption(told)
elif unlike := comparison.differences(pair, with_epsilon=True):
    st.caption(f"{unlike} {comparison.LOOK}")
if len(prompt_session.tries()) > 1:
    earlier()
if prompt_session.waiting():
    scroll.ask()
scroll.here(answers_at, if_low=True)
why.open_asked(prompt_session.samples(), pair)
prompt_session.answer_queued(pair, slots, notice, samples=samples, first_seed=first_seed)
