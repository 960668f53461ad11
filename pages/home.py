"""Home: the app in three pictures, a first leak, and links to the other pages."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.prompts import PROMPTS
from core.evaluation import comparison
from core.runs.run import Run
from pages.parts.common import phi_text, shell
from pages.parts.home import best, pictures
from pages.parts.pickers import run_picker
from pages.parts.playground import leak_counts, prompt_session, side_by_side, why

CHIPS = [prompt.text for prompt in PROMPTS[:5]]
SAMPLES = 8  # per column, each with its own seed
SECTIONS = (
    (
        "Teach",
        "A lesson in five steps: predict first, then see the answer. Or train a model and watch it live.",
        {"lesson": "Lesson", "train": "Train"},
    ),
    (
        "Decide",
        "Move ε to compare usefulness and risk, with intervals. Download a report.",
        {"tradeoff": "ε trade-off", "report": "Report"},
    ),
    (
        "Inspect",
        "Question two models, and find the patients whose details leak.",
        {"playground": "Playground", "patients": "Patients"},
    ),
)


def pair_of(runs: list[Run]) -> list[Run]:
    """The two models that Home prompts, one without privacy and one with it; a single one if there is no pair."""
    return [run for run in run_picker.default_pair(runs) if run is not None]


def columns(pair: list[Run]) -> list[DeltaGenerator]:
    """One column per model: its name and a placeholder for its text; below both, who leaked in this session."""
    names = run_picker.labels(pair)
    latest = prompt_session.tries()[-1] if prompt_session.tries() else None
    slots = []
    for column, run in zip(st.columns(2, gap="large"), pair, strict=False):
        with column:
            st.markdown(f"**{phi_text.literal(names[run.id])}**")
            slots.append(st.empty())
            slots[-1].caption("Pick a prompt. The answer appears here.")
            for answer in latest.answers if latest else ():
                if latest and answer.run_id == run.id:
                    side_by_side.draw(latest.prompt, answer, slots[-1])
    who_leaked(pair)
    return slots


def who_leaked(pair: list[Run]) -> None:
    """Who leaked, in columns below those of the texts: on a telephone both texts then come first."""
    answers = [prompt_session.answers_of(run) for run in pair]
    if not any(answer.leaked for of_run in answers for answer in of_run):
        return
    for side, (column, run) in enumerate(zip(st.columns(2, gap="large"), pair, strict=False)):
        with column:
            label = run_picker.privacy_label(run)
            leak_counts.who_leaked(answers[side], run, key=f"home-who{side}", model=label)


def three_pictures(pair: list[Run]) -> None:
    """What this app is about, with the figures of the models on this server."""
    plain = next((run for run in pair if not run.spec.privacy.private and not run.spec.is_base), None)
    private = next((run for run in pair if run.spec.privacy.private), None)
    protected = "any one patient's notes" if private and private.spec.privacy.unit == "patient" else "any one note"
    sentence = f"Training limits and blurs what {protected} can teach"
    sentence += f" ({run_picker.privacy_label(private)})." if private else "."
    first, second, third = st.columns(3, gap="large")
    first.html(pictures.training(pictures.patients_of(pair[0]) if pair else None))
    second.html(
        pictures.named(
            "2. Trained without privacy",
            plain,
            "pic-open",
            "Given the opening of a note, it can repeat patients' details.",
        )
    )
    third.html(pictures.named("3. Trained with differential privacy", private, "pic-private", sentence))


def sections() -> None:
    """Links for teachers, decision makers and analysts."""
    for column, (title, sentence, links) in zip(st.columns(3, gap="large"), SECTIONS, strict=True):
        with column, st.container(border=True, height="stretch"):
            st.markdown(f"**{title}**  \n{sentence}")
            for name, label in links.items():
                shell.link(name, label, icon=":material/arrow_forward:")


shell.page(
    "home",
    "A language model was trained on patients' notes. What does it reveal, and what limits that?",
    heading="PHI Leak Lab",
)
prompt_session.begin()
pair = pair_of(run_picker.promptable())
if pair:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        prompt_session.chips(
            "See a leak now: pick a prompt. Two models continue it, one trained without privacy and one with.",
            CHIPS,
            key="home_chips",
        )
        notice = st.empty()
        if prompt_session.tries():  # where the Stop button was: on the first screen, above the texts
            with notice:
                shell.link("lesson", "Next: the lesson, in five steps", icon=":material/arrow_forward:")
    prompt_session.say_lost()
    slots = columns(pair)
    st.html(phi_text.legend_html())
else:
    st.info("There is no trained model yet. Train one first: a small one takes minutes.")
    shell.link_to_train()
three_pictures(pair)
if differences := comparison.differences(pair, with_epsilon=True):
    st.caption(f"{differences} {comparison.LOOK}")
if useful := best.best_measured():
    st.markdown(f":material/trending_up: {useful}")
sections()
if pair:
    why.open_asked(prompt_session.samples(), pair)
    seed = st.session_state.next_seed
    prompt_session.answer_queued(pair, slots, notice, samples=SAMPLES, first_seed=seed, replayed=True)
