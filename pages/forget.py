"""Forget a patient: unlearning in seconds, training again in minutes, and DP, under the same attacks."""

from __future__ import annotations

import streamlit as st

from core.runs.run import Run
from pages.parts.access import viewer
from pages.parts.common import chart_style, layout, shell
from pages.parts.common.phi_text import literal
from pages.parts.forget import charts, data, live, prompt, sentences, several, tables
from pages.parts.forget.data import OUT, PICKED, SHOWN
from pages.parts.patients import to_card
from pages.parts.pickers import linked_choice, run_picker
from pages.parts.session import owner

shell.page("forget", "Can a trained model forget one patient? In seconds, in minutes, or only by never learning them?")


def pick_patient(run: Run) -> str | None:
    """The patient of the list, of the link, or typed; None, with a sentence, if the model was not trained on them."""
    known = data.patients(run)
    real = run.spec.corpus.imported is not None
    linked = st.query_params.get(OUT) or st.query_params.get("patient", "")  # `patient` stands in older links
    picked = "" if linked_choice.by_history() else st.session_state.get(PICKED, {}).get(run.id, "")
    asked = data.shown_before(run) if real else linked or picked
    ids = list(dict.fromkeys([*known, *([asked] if asked else [])]))

    def share() -> None:
        if real:  # addresses get into the logs of a proxy
            st.session_state[SHOWN] = st.session_state[key] or ""
        else:
            st.query_params[OUT] = st.session_state[key] or ""
            st.session_state.setdefault(PICKED, {})[run.id] = st.session_state[key] or ""

    key = f"forget-patient-{run.id}"
    adopted = linked_choice.adopt(OUT, key, ids)
    if ids and not real and OUT not in st.query_params and linked_choice.by_history():
        st.session_state[key], adopted = asked or ids[0], True  # what the page opened with at this address
    chosen = st.selectbox(
        "Patient",
        ids,
        index=ids.index(asked) if asked and not adopted else 0,
        key=key,
        accept_new_options=True,
        on_change=share,
        help="Patients who leak most come first. You can type any other member's ID.",
    )
    texts = known.get(chosen, 0)
    if chosen and texts:
        st.caption(sentences.texts_about(texts))
    if not chosen or not data.is_member(run, chosen):
        st.info(f"Patient “{literal(chosen or '')}” is not in this model's training data. Choose one from the list.")
        return None
    return chosen


def actions(run: Run, patient: str, named: dict[str, str], open_arms: list[str]) -> None:
    """Unlearn here and now, or train again in the queue."""
    going = live.work(run, patient)
    if going is not None and going.active:
        live.progress(run, patient, named, open_arms)
    elif open_arms:
        which = ", ".join(named[arm] for arm in open_arms)
        label = "Forget now" if set(open_arms) - {"retrained", "private"} else "Run attacks"
        st.button(
            label,
            type="primary",
            icon=":material/person_remove:",
            key="forget-now",
            on_click=live.start,
            args=(run, patient),
            **{"help": f"Runs now: {which}. It takes minutes (longer in a larger hospital). You can cancel it."}
            | viewer.locked("forget"),
        )
    told = live.refusal() or ("" if going is None or going.active else going.error)
    if told:
        st.caption(literal(told, 400))
    live.retraining(run, patient)


runs = data.offered(owner.workspace().runs())
if not runs:
    st.info("There is no trained model with weights yet. Train one without privacy first.", icon=":material/info:")
    shell.link_to_train()
    st.stop()
picture, side = layout.picture_and_knobs("Choose a patient and forget them")
with side:
    run = run_picker.pick("Model", runs, run_picker.own(runs) or runs[0], key="run")
    if why := data.why_first(run, runs):
        st.caption(why)
    patient = pick_patient(run)
if patient is None:
    st.stop()
found = data.comparison(run, patient)
named = sentences.names(found)
table, notes = data.current(found, *data.stored(run, patient))
with side:
    actions(run, patient, named, data.missing(found, table))
    to_card.link(run, patient, key="forget-card")
with picture:
    going = live.work(run, patient)
    st.markdown(sentences.headline(table, patient, named, going=going is not None and going.active))
    if not table.empty:
        if why := sentences.no_picture(table):
            st.caption(why)
        else:
            figure = charts.places(notes, table, patient, named)
            chart_style.show(
                figure,
                key="forget-places",
                alt=f"Where {patient} stands among held-out patients, in {len(table) - 1} models",
            )
            st.html(chart_style.legend_html(figure))
        for sentence in (sentences.verdict(table, patient, named), sentences.cost(table, run.spec.model.kind, named)):
            if sentence:
                st.markdown(sentence)
    told = data.against_retrained(run)
    if told is not None:
        st.header("Models not trained on the patient", anchor=False)
        st.markdown(sentences.against_retrained(told, named))
        chart_style.show(
            charts.told_apart(told, named), key="forget-told-apart", alt="How often each model is the odd one out"
        )
    prompt.show(found, named)
    if not table.empty:
        with st.expander("All figures"):
            tables.show(table, named, patient, run.spec.model.kind)
    several.show(found, named)
    with st.expander("How is this computed?"):
        st.markdown(sentences.HOW)
