"""Real or written? Eight pairs of a held-out note and a model's text; the reader says which one the model wrote."""

from __future__ import annotations

import math
import secrets

import streamlit as st

from core.common.formatting import setting_text
from core.evaluation import readers_test
from core.evaluation.readers_test import PAIRS, Pair
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.wording import interval_text, percent
from core.runs.run import Run
from pages.parts.common import phi_text
from pages.parts.pickers.epsilon_slider import epsilon_key, pick
from pages.parts.playground.stored_attempts import texts_of
from pages.parts.session import owner, resources
from pages.parts.tradeoff.models import curve_runs

STATE = "readers_test"  # this session's rounds: (run id, seed) → answers, True where the reader was right
REAL_NOTES = (
    "This hospital was imported from notes that may be about real people. The test would show real notes of held-out "
    "patients beside generated ones, so it is not offered here. Take it on a synthetic hospital."
)


def show(sweep: Sweep) -> None:
    """The test for one model of this curve, chosen by its ε."""
    if sweep.corpus.imported is not None:
        st.info(REAL_NOTES, icon=":material/lock:")
        return
    models = _with_texts(sweep)
    if not models:
        st.info(
            "None of these runs keeps its texts. Choose other runs, or train one of them again: a run made here keeps "
            "its texts.",
            icon=":material/info:",
        )
        return
    options = {epsilon_key(epsilon): epsilon for epsilon in models}
    (chosen, *others) = options
    if others:
        start = "8" if "8" in options else others[-1]
        chosen = pick("Which model? ε: ← more private · more useful →", "reader_at", options, start)
    epsilon = options[chosen]
    run = models[epsilon]
    model = (
        "the model without privacy" if math.isinf(epsilon) else f"the model trained with ε = {setting_text(epsilon)}"
    )
    seed = st.session_state.setdefault(f"{STATE}_seed", secrets.randbelow(2**31))
    drawn = _pairs(str(owner.workspace().root), run.id, seed, run)
    if not drawn:
        st.info("No held-out note of this hospital begins with a prompt of the audit.", icon=":material/info:")
        return
    st.markdown(
        f"In each of {len(drawn)} pairs one text is from the note of a held-out patient, and {model} wrote the other. "
        "Both begin with the same words and are equally long. **Which one did the model write?**"
    )
    answers: list[bool] = st.session_state.setdefault(STATE, {}).setdefault((run.id, seed), [])
    if len(answers) < len(drawn):
        _ask(drawn[len(answers)], len(answers), len(drawn), run.id, seed)
    else:
        _result(drawn, answers, model)


def _ask(pair: Pair, number: int, of: int, run_id: str, seed: int) -> None:
    st.progress(number / of, text=f"Pair {number + 1} of {of}")
    columns = st.columns(2, gap="large", border=True)
    for place, (column, text) in enumerate(zip(columns, pair.texts, strict=True)):
        with column:
            st.html(phi_text.text_html(text))
            st.button(
                "The model wrote this one",
                key=f"reader-{place}",
                on_click=_answer,
                args=(run_id, seed, number, (place == 0) == pair.written_first),
                width="stretch",
            )


def _answer(run_id: str, seed: int, number: int, right: bool) -> None:
    """Keep an answer; a button that is pressed twice counts once."""
    answers = st.session_state[STATE].setdefault((run_id, seed), [])
    if len(answers) == number:
        answers.append(right)


def _result(drawn: list[Pair], answers: list[bool], model: str) -> None:
    found = readers_test.score(sum(answers), len(answers))
    st.header(f"You found the model's text in {found.right} of {found.of} pairs", anchor=False)
    st.markdown(
        f"{percent(found.share)} right ({interval_text(found.low, found.high)}). Guessing gets {found.of / 2:g} of "
        f"{found.of} on average, and at least as many as you with a chance of {percent(found.chance)}."
    )
    st.caption(
        f"{found.of} pairs say little: only a score near {found.of} or a whole class tells {model} from real notes. "
        "Your answers stay in this browser session."
    )
    st.button("Eight more pairs", icon=":material/refresh:", key="reader-again", on_click=_again)
    for number, (pair, right) in enumerate(zip(drawn, answers, strict=True), start=1):
        with st.expander(f"Pair {number}: {'right' if right else 'wrong'}"):
            for column, (what, text) in zip(
                st.columns(2), (("Written by the model", pair.written), ("Real", pair.real)), strict=True
            ):
                column.markdown(f"**{what}**")
                column.html(phi_text.text_html(text))


def _again() -> None:
    st.session_state[f"{STATE}_seed"] = secrets.randbelow(2**31)


def _with_texts(sweep: Sweep) -> dict[float, Run]:
    """For each measured ε the run of the lowest seed that keeps its texts, the most private first."""
    runs = [owner.workspace().run(run_id) for run_id in curve_runs(sweep)]
    found: dict[float, Run] = {}
    for run in sorted(runs, key=lambda one: one.spec.training.seed):
        epsilon = run.spec.privacy.target_epsilon if run.spec.privacy.private else math.inf
        if epsilon is not None and epsilon not in found and _keeps_texts(str(run.folder), run):
            found[epsilon] = run
    return {epsilon: found[epsilon] for epsilon in sorted(found)}


@resources.cached_data(max_entries=1_000, show_spinner=False)
def _keeps_texts(folder: str, _run: Run) -> bool:
    return not texts_of(_run)[0].empty


@resources.cached_data(max_entries=50, show_spinner="Drawing the pairs …")
def _pairs(root: str, run_id: str, seed: int, _run: Run) -> list[Pair]:
    notes = owner.workspace().corpus(_run.spec.corpus, store=False).notes
    return readers_test.pairs(texts_of(_run)[0], notes[notes["split"] == "heldout"], seed=seed, count=PAIRS)
