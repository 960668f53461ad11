"""Train: what does a privacy guarantee cost, and what does training without one reveal?"""

import streamlit as st

from core.corpus.tables import Corpus
from core.runs.integrity.disk import error_sentence
from core.spec import RunSpec, TrainingSpec
from pages.parts.access import viewer
from pages.parts.common import shell
from pages.parts.jobs import monitor, verdict_view
from pages.parts.pickers.cohort_picker import asks_for_notes, choose_cohort, describe, show_command, too_large_to_build
from pages.parts.session import owner
from pages.parts.train.preview import duration_sentence, preview, show_preview
from pages.parts.train.training_settings import choose_run

NOTE_CAP = TrainingSpec().max_notes_per_patient

shell.page("train", "What does a privacy guarantee cost, and what does training without one reveal?")


def cohort() -> Corpus | None:
    """The cohort to train on, chosen here or on the Cohort page; None if there is none (a sentence says why)."""
    with st.popover("Choose the cohort", icon=":material/groups:"):
        spec = choose_cohort()
        shell.link("cohort", "Read its notes", icon=":material/menu_book:")
    if spec is None:
        if asks_for_notes():
            st.info("You have no uploaded notes here. Upload them on the Cohort page.", icon=":material/upload_file:")
        return None
    st.caption(describe(spec))
    if too_large_to_build(spec):
        show_command(spec)
        return None
    try:
        return owner.workspace().corpus(spec, store=False)
    except OSError as error:
        st.error(error_sentence(error), icon=":material/hard_drive:")
    except ValueError as error:
        st.error(f"This cohort cannot be built: {error}.", icon=":material/error:")
    return None


def before_training(corpus: Corpus, spec: RunSpec) -> bool:
    """Show what the run will cost; False if it cannot be trained with these settings."""
    notes = corpus.training_notes(spec.note_cap)
    per_patient = notes["patient_id"].value_counts()
    try:
        with st.skeleton(height=260):
            coming = preview(spec.privacy, spec.training, spec.vocabulary, notes=len(notes), patients=len(per_patient))
    except ValueError as error:
        st.error(f"This run cannot be trained: {error}.", icon=":material/error:")
        return False
    st.markdown(duration_sentence(spec))
    show_preview(spec, coming, most_notes=int(per_patient.max()))
    return True


picture, knobs = st.columns([3, 2], gap="large")
with picture:
    job = monitor.watched()
    # In a class the newest run is another student's. Elsewhere it is most likely one's own, before a reload. One that
    # was cancelled or failed has no result that should come before the next training.
    in_class = monitor.engine().limits.in_class
    live_first = job is not None and not ((in_class or job.state != "done") and monitor.is_of_others(job))
    first, second = st.container(), st.container()
    live, coming = (first, second) if live_first else (second, first)
with knobs:
    st.header("Settings", anchor="settings")
    button = st.empty()  # above the fold: the settings below it start at the recipe's
    refused = st.container()  # why, where the button was pressed
    corpus = cohort()
    chosen = (
        choose_run(corpus.spec, notes=len(corpus.training_notes()), capped=len(corpus.training_notes(NOTE_CAP)))
        if corpus is not None and corpus.spec is not None
        else None
    )
    spec = chosen if isinstance(chosen, RunSpec) else None
    with button.container():
        if isinstance(chosen, str):
            monitor.cannot_train(chosen)
        asked = spec is not None and monitor.train_button(spec)
with coming:
    st.header("Before the next training" if live_first else "Before training")
    ready = corpus is not None and spec is not None and before_training(corpus, spec)
if ready and asked and spec is not None:
    with refused:
        submitted = monitor.submit(spec)
    if submitted:
        with button:  # without a rerun the message appears sooner
            monitor.in_progress()
with live:
    if job is None or job.active:
        heading = "While training"
    elif monitor.is_of_others(job) and job.state == "done":
        heading = "Latest run on this server"
    else:
        heading = "After training" if job.state == "done" else "Last training"
    st.header(heading, anchor="live")
    monitor.watch(ended=verdict_view.show)
st.header("Training queue")
monitor.queue()
if viewer.may("train"):
    monitor.engine().warm()
