"""Cohort: who are the patients, and what do their notes say?"""

import streamlit as st

from core.corpus.tables import Corpus
from core.runs.integrity.disk import error_sentence
from pages.parts.cohort import labelling, view
from pages.parts.common import layout, shell
from pages.parts.common.query_params import drop_unless_offered
from pages.parts.pickers.cohort_picker import (
    ask_for_notes,
    asks_for_notes,
    choose_cohort,
    describe,
    show_command,
    too_large_to_build,
)
from pages.parts.session import owner
from pages.parts.uploads import after, form

shell.page("cohort", "Who are the patients of this cohort, and what do their notes say?")

VIEWS = {
    "Notes": view.read_notes,
    "Fields": view.fields,
    "Codes": view.codes,
    "Lengths": view.lengths,
    "Canaries": view.canaries,
    "Download": view.downloads,
}


def show_cohort(corpus: Corpus) -> None:
    """The six views, and one more of uploaded notes; only the open one is computed."""
    view.split_counts(corpus)
    views = VIEWS if corpus.spec is None or corpus.spec.imported is None else VIEWS | {"Label": labelling.label_notes}
    drop_unless_offered("view", views)
    for tab, draw in zip(st.tabs(list(views), key="view", on_change="rerun"), views.values(), strict=True):
        if tab.open:
            with tab:
                draw(corpus)


spec = choose_cohort()
if asks_for_notes():
    after.say(same_page=shell.same_page())
    upload = {upload.digest: upload for upload in form.mine()}.get(spec.digest() if spec is not None else "")
    if upload is not None:
        form.manage(upload)
    with st.expander("Upload your own notes", icon=":material/upload_file:", expanded=spec is None):
        form.upload_form()
    if upload is None:
        form.delete_by_code()
    if upload is not None or not after.session_ended():
        after.mark(upload is not None)
else:
    after.mark(False)
if spec is not None and too_large_to_build(spec):
    st.caption(describe(spec))
    show_command(spec)
elif spec is not None:
    with st.container(horizontal=True, vertical_alignment="center"):
        described = st.empty()
        described.caption(describe(spec))
        shell.link("train", "Train a model on this cohort", icon=":material/model_training:")
        if spec.imported is None:
            st.button("Upload your own notes", icon=":material/upload_file:", type="tertiary", on_click=ask_for_notes)
    try:
        with layout.fresh("answer", spec.digest()):
            with st.skeleton(height=400):
                cohort = owner.workspace().corpus(spec, store=False)
            counted = int((cohort.notes["split"] != "canary").sum())
            described.caption(view.describe(cohort, describe(spec, counted)))
            show_cohort(cohort)
    except OSError as error:
        st.error(error_sentence(error), icon=":material/hard_drive:")
    except ValueError as error:
        st.error(f"This cohort cannot be built: {error}.", icon=":material/error:")
