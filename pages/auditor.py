"""Be the auditor: guess which notes a model was trained on, alone or as a class, and see which ε that rules out."""

from __future__ import annotations

import streamlit as st

from core.evaluation.wording import percent
from core.runs.run import Run
from pages.parts.access import gate
from pages.parts.auditor import guesses, proof
from pages.parts.common import chart_style, layout, phi_text, shell
from pages.parts.pickers import run_picker
from pages.parts.session import classroom, owner
from pages.parts.session.room_values import Audited, Counts

EVERY_SECONDS = 2.0

shell.page("auditor", "Was this note in the training data? Guess, and see which ε the guesses rule out.")


def offered() -> list[Run]:
    """Runs with scores of single notes, on hospitals of our own."""
    runs = [run for run in owner.workspace().runs() if not run.figures_only and run.spec.corpus.imported is None]
    return sorted(
        (run for run in runs if not run.spec.is_base),
        key=lambda run: (not run.shipped, run.spec.privacy.private, run.spec.model.kind != "gpt2"),
    )


def say_left_out() -> None:
    """That models of imported notes are not offered, where the viewer has some."""
    if any(run.spec.corpus.imported is not None for run in owner.workspace().runs()):
        st.caption("Models of your own notes are not offered here.")


def choose(runs: list[Run]) -> tuple[Run, bool]:
    """The model and whether it helps: one's own choice, or the presenter's, which a class follows."""
    if (now := followed()) is not None:
        run = _chosen(now, runs)
        st.markdown(f"**The class audits** {phi_text.literal(run_picker.label(run))}")
        return run, now.audited is not None and now.audited.helped
    run = run_picker.pick("Model", runs, run_picker.own(runs) or run_picker.default_pair(runs)[0], key="run")
    say_left_out()
    helped = st.toggle(
        "Show a hint",
        key="helped",
        help="Shows the share of the other notes that the model finds less likely (the loss attack).",
    )
    classroom.choose(Audited(run.id, helped))
    return run, helped


def followed() -> Counts | None:
    """The class that this page follows: for a student in one, where the presenter chooses."""
    return None if classroom.host_key() else classroom.counts()


def _chosen(now: Counts, runs: list[Run]) -> Run:
    """The presenter's model; the first one until there is a choice, or if it is gone."""
    wanted = None if now.audited is None else now.audited.run_id
    return next((run for run in runs if run.id == wanted), runs[0])


def play(run: Run, *, helped: bool) -> None:
    """The note at hand with two buttons, or a button that deals the next ones."""
    card = guesses.next_card(run)
    if told := guesses.last_answer(run):
        st.markdown(told)
    if card is None and guesses.used_up(run):
        st.info(
            "Every note of this hospital's deck has been dealt. Look at the proof, or choose another hospital's model."
        )
        return
    if card is None:
        label = "Deal notes" if not guesses.votes(run) else f"Deal {guesses.hand()} more"
        st.button(label, type="primary", icon=":material/style:", on_click=guesses.deal, args=(run,), key="deal")
        return
    left = guesses.left(run)
    only = " Only you get these notes." if classroom.room() else ""
    st.caption(f"{left} note{'s' * (left > 1)} left in your hand.{only}")
    with st.container(border=True):
        st.html(phi_text.text_html(card.text))
        if helped:
            st.progress(card.familiar, f"More familiar to the model than {percent(card.familiar)} of the notes here")
    with st.container(horizontal=True):
        for label, says in (("It was in the training data", True), ("It was not", False)):
            st.button(
                label,
                key=f"guess-{says}",
                type="primary" if says else "secondary",
                on_click=guesses.guess,
                args=(run, card, says),
                kwargs={"helped": helped},
            )


def proved(run: Run, runs: list[Run]) -> None:
    """The bound so far; in a class it is redrawn every few seconds."""
    gate.fragment(_proved, run_every=EVERY_SECONDS if classroom.room() else None)(run, runs)


def _proved(run: Run, runs: list[Run]) -> None:
    now = classroom.counts()
    if now is not None and now.round != classroom.joined_round():
        classroom.next_round()
        st.rerun(scope="app")  # the presenter has restarted the class
    if followed() is not None and now is not None and _chosen(now, runs) != run:
        st.rerun(scope="app")  # the presenter has chosen another model
    found = proof.series(guesses.votes(run))
    if not found:
        if classroom.host_key():
            st.markdown("Ask the class to open this page, press **Deal notes** and guess.")
        st.caption(f"{proof.first_words()} {proof.promise(run)}")
        return
    if proof.proves_something(found):
        chart_style.show(proof.chart(found), key="proof-chart", alt=" ".join(proof.sentences(found)))
    for line in proof.sentences(found):
        st.markdown(line)
    if not proof.proves_something(found):
        st.caption(f"It takes at least {proof.FEWEST} right guesses in a row to prove anything, and more after errors.")
    st.caption(f"{proof.promise(run)} The proof counts only if no one looks up the notes on other pages.")


runs = offered()
if not runs:
    st.info("There is no trained model with scores yet. Train one first: a small one takes minutes.")
    say_left_out()
    shell.link_to_train()
    st.stop()
if followed() is None:
    picture, knobs = layout.picture_and_knobs()
else:  # there is nothing to set, and on a phone knobs are folded away
    knobs, picture = st.container(), st.container()
with knobs:
    run, helped = choose(runs)
    if classroom.room():
        st.markdown(f"**Class {classroom.room()}**")
    else:
        shell.link("lesson", "Audit as a class", icon=":material/groups:")
with picture, layout.fresh("answer", run.id):
    if not classroom.host_key():
        play(run, helped=helped)
    proved(run, runs)
    with st.expander("How is this computed?"):
        st.markdown(proof.HOW)
