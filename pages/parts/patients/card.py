"""One patient: profile, attack results, leaks, the effect of DP, and the notes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.attacks.membership.shadow_models import ACCUSED
from core.corpus.synthetic.records import REFERENCE_DAY
from core.evaluation.wording import percent, set_percent
from core.models.shipped_bases import ModelNotFound
from core.phi.spans import Kind, Span
from core.runs.run import Run, RunBroken
from pages.parts.common import layout, scroll, shell
from pages.parts.common.data_table import csv_button
from pages.parts.common.phi_text import fields_html, leaks_html, literal
from pages.parts.common.query_params import kept_unless_real
from pages.parts.forget import data as forget_data
from pages.parts.patients import data, to_card
from pages.parts.patients import heat as patient_heat
from pages.parts.patients.data import Choice
from pages.parts.patients.tries import show_tries
from pages.parts.patients.views import fields
from pages.parts.pickers import run_picker
from pages.parts.playground import prompt_session

if TYPE_CHECKING:
    from core.evaluation.memorisation.note_heat import Token

SPLITS = {"member": "member (trained on)", "heldout": "held out (never trained on)"}
PUBLIC = "member (not trained on by this public model)"
ADULT = 18  # years
TEXTS = 10  # generations shown
NOTES = 4  # notes per page


def card(choice: Choice, runs: Sequence[Run]) -> None:
    """The patient with the ID in the text box and, of a generated cohort, in the link; nothing while it is empty."""
    st.divider()
    to_card.take(choice.run)
    if "patient" not in st.session_state and st.query_params.get("patient"):
        scroll.ask()  # the patient of a link is below the picture and the list
    asked = st.text_input(
        "Patient",
        key="patient",
        placeholder="click a row above, or type an ID or a full name",
        max_chars=60,
        width=400,
        **kept_unless_real(choice.run.spec.corpus),
    ).strip()
    if not asked:
        return
    with layout.fresh("card", (choice.run.id, choice.attack, asked)):
        found = data.tables(choice.run).ids_of(asked)
        if len(found) > 1:
            ids = ", ".join(map(literal, found))
            st.info(f"{len(found)} patients have this name. Type an ID: {ids}.", icon=":material/group:")
            return
        _card(choice, runs, found[0] if found else asked)


def _card(choice: Choice, runs: Sequence[Run], asked: str) -> None:
    found = data.patient(choice.run, choice.attack, asked)
    if found is None:
        if _not_judged(choice, asked):
            _in_this_session(choice.run, asked)
            _notes(choice, asked)
        return
    split = PUBLIC if choice.run.spec.is_base and found["split"] == "member" else SPLITS[found["split"]]
    st.header(f"Patient {literal(found['patient_id'])}, {split}")
    _figures(choice, found)
    left, right = st.columns(2)
    with left:
        _profile(choice, found)
    with right:
        _judgements(choice, asked)
    _in_this_session(choice.run, asked)
    _leaks(choice, asked, found)
    _under_dp(choice, asked, runs)
    if found["split"] == "member" and forget_data.offered([choice.run]):
        in_link = {} if choice.run.spec.corpus.imported else {forget_data.OUT: asked}
        st.session_state[forget_data.SHOWN] = asked
        shell.link(
            "forget", "Forget this patient", icon=":material/person_remove:", query={"run": choice.run.id, **in_link}
        )
    _notes(choice, asked)


def _not_judged(choice: Choice, asked: str) -> bool:
    """Say why there are no figures. Returns whether the cohort has this patient at all."""
    record = data.tables(choice.run).record(asked)
    if record is None:
        st.info(f"There is no patient “{literal(asked)}” in this cohort.", icon=":material/person_off:")
        return False
    group = "left out" if asked in (choice.run.spec.without or ()) else record["split"]
    st.info(
        f"The attack “{choice.attack}” has no score for patient {literal(asked)} in this run (group: {group}). "
        f"{_why_not_judged(choice, asked, group)}",
        icon=":material/person_off:",
    )
    return True


def _why_not_judged(choice: Choice, asked: str, group: str) -> str:
    """Why the attack has no score for a patient of this group (the split, or `left out`)."""
    if group == "left out":
        return "The run was trained without this patient, so no attack scores them."
    if group not in SPLITS:
        return "Attacks score only members and held-out patients."
    if len(data.tables(choice.run).scores_of(list(data.attacks(choice.run).values()), [asked])):
        return "Choose another attack: some score only part of the patients."
    most = choice.run.spec.audit.patients
    if most:
        return f"The run's audits score at most {most:,} patients of each group, drawn at random."
    return "No attack on this run has one."


def _figures(choice: Choice, found: dict) -> None:
    coded = len(found["icd_codes"]) > 0
    with st.grid(4, min_column_width=190):
        st.metric(
            "Rarer than",
            percent(1 - found["percentile_rarity"]) if coded else "–",
            border=True,
            help="Share of patients whose disease profile is more common (ties count half). ln p of this profile is "
            f"{found['log_probability']:.1f}.".replace("-", "−"),
        )
        st.metric(
            "Score percentile",
            percent(found["percentile"]),
            border=True,
            help=f"Share of held-out patients with a lower score by “{choice.attack}”; for a held-out patient, "
            "50\u00a0% on average.",
        )
        st.metric("Caught by attacks", f"{found['catching']} of {found['attacks']}", border=True)
        member = found["split"] == "member"
        about = "Texts with a leak" if member else "Texts with a coincidence"
        known = data.identified(choice.run, found["patient_id"])
        texts = found["texts"] if known else "–"
        st.metric(about, texts, border=True, help="Texts generated from the run's prompts.")
    written = fields(found["fields"])
    how = "Extracted by prompts" if member else "Written by coincidence (the control)"
    extracted = f"**{how}**: {written}." if written else "The audit's prompts extracted nothing."
    if not known:
        extracted = "No identifier of this patient is known, so what prompts extract cannot be counted."
    notes = f"{found['notes']} scored note{'s' * (found['notes'] != 1)}"
    st.markdown(f"{who(found, choice.run)} with {notes}. {extracted}")
    show_tries(choice.run, found["patient_id"])
    if told := _by_shadows(choice.run, found["patient_id"]):
        st.markdown(told)


def _by_shadows(run: Run, patient: str) -> str:
    """In how many of LiRA's shadow models the patient is caught, beside the control; empty if none judged them."""
    shadows = data.shadow_patients(run)
    if patient not in shadows.index:
        return ""
    row = shadows.loc[patient]
    return (
        f"**LiRA on models like this one**, at the threshold that accuses {set_percent(ACCUSED)} of others: it catches "
        f"this patient in {row['caught']} of {row['read']} models that read their notes, and accuses them by mistake "
        f"in {row['accused']} of {row['unread']} that did not."
    )


def who(found: dict, run: Run) -> str:
    """`A woman aged 61 on 1 January 2023`; records of uploaded notes may have neither sex nor age, and no day."""
    grown = pd.isna(found["age"]) or found["age"] >= ADULT
    sex = {"F": "woman" if grown else "girl", "M": "man" if grown else "boy"}.get(found["sex"], "patient")
    if pd.isna(found["age"]):
        return f"A {sex} of unknown age"
    day = "" if run.spec.corpus.imported else f" on {REFERENCE_DAY.day} {REFERENCE_DAY:%B %Y}"  # notes are older
    return f"A {sex} aged {found['age']:.0f}{day}"


def _profile(choice: Choice, found: dict) -> None:
    st.markdown("**Disease profile**, rarest first")
    if not len(found["icd_codes"]):
        st.caption("No ICD code of this patient is known.")
        return
    rates, words = data.tables(choice.run).rates(list(found["icd_codes"])), data.wordings(choice.run)
    table = pd.DataFrame(
        [(code, words.get(code, "no description"), rates.get(code)) for code in dict.fromkeys(found["icd_codes"])],
        columns=["code", "disease", "share"],
    ).sort_values("share", ignore_index=True)
    st.dataframe(
        table.style.format({"share": percent}, na_rep="–"),
        hide_index=True,
        alt="Codes of this patient",
        column_config={"share": st.column_config.NumberColumn("share of patients")},
    )


def _judgements(choice: Choice, patient_id: str) -> None:
    made = data.attacks(choice.run)
    table = data.tables(choice.run).scores_of(list(made.values()), [patient_id]).drop(columns="patient_id")
    st.markdown("**Attacks**, each at its own threshold")
    st.dataframe(
        table.style.format(lambda score: f"{score:.3f}".replace("-", "−"), ["score", "threshold"], na_rep="–"),
        hide_index=True,
        alt="The result of each attack for this patient",
        column_config={"caught": st.column_config.CheckboxColumn("called a member")},
    )


def _in_this_session(run: Run, patient_id: str) -> None:
    """Texts about the patient that the session's prompts on Home and Playground led to."""
    written = prompt_session.written_about(patient_id, run)
    if not written:
        return
    st.markdown(f"### Texts about this patient in this session: {len(written)}")
    for prompt, sample in written[:TEXTS]:
        st.html(leaks_html(sample.texts[0], sample.spans[0], prompt=prompt))
    if len(written) > TEXTS:
        st.caption(f"Not shown: {len(written) - TEXTS} more.")


def _leaks(choice: Choice, patient_id: str, found: dict) -> None:
    if not found["texts"]:
        return
    rows = data.tables(choice.run).leaks_of(
        patient_id, data.hits(choice.run), data.hits(choice.run).with_name("generations.parquet")
    )
    st.markdown(f"### Texts about this patient in the audit: {found['texts']}")
    texts = [list(group) for _, group in groupby(rows.itertuples(), key=attrgetter("generation_id"))]
    for group in texts[:TEXTS]:
        st.html(leaks_html(group[0].text, _spans(group), prompt=group[0].prompt))
    if len(texts) > TEXTS:
        st.caption(f"Not shown: {len(texts) - TEXTS} more, in the CSV file.")
    csv_button(rows.drop(columns="text"), name=f"leaks-of-{found['patient_id']}")


def _spans(rows: Sequence) -> list[Span]:
    """The rows of one text as spans; in the table, a span that fits several patients has one row per patient."""
    kept: dict[tuple[int, int, str, str, Kind], list[str]] = {}
    for row in rows:
        ids = kept.setdefault((int(row.start), int(row.end), row.field, row.value, row.kind), [])
        if isinstance(row.patient_id, str):
            ids.append(row.patient_id)
    return [Span(*place, patient_ids=tuple(dict.fromkeys(ids))) for place, ids in kept.items()]


def _under_dp(choice: Choice, patient_id: str, runs: Sequence[Run]) -> None:
    others = data.comparable(choice.attack, data.other_epsilons(choice.run, runs))
    if len(others) < 2:
        return
    rows = []
    for run in others:
        found = data.patient(run, choice.attack, patient_id, all_attacks=False)
        if found is not None:
            rows.append(
                (
                    run_picker.privacy_label(run),
                    found["percentile"],
                    found["caught"],
                    found["texts"],
                    fields(found["fields"]),
                    run.id,
                )
            )
    columns = ["model", "score percentile", "called a member", "texts with a leak", "extracted", "run"]
    st.markdown(f"### How ε changes the result for this patient (attack “{choice.attack}”)")
    table = pd.DataFrame(rows, columns=columns)
    st.dataframe(
        table.style.format({"score percentile": percent}, na_rep="–"),
        hide_index=True,
        alt="The same figures at other ε",
        column_config={"called a member": st.column_config.CheckboxColumn()},
    )
    st.caption(
        "Compare the percentiles. “Called a member” means that the score is above the attack's threshold for that "
        "model. If a model learned nothing, members and others exceed it equally often."
    )
    missing = len(others) - len(rows)
    if missing:
        further = f"{missing} further run{'s' * (missing != 1)}"
        st.caption(f"This attack was not run on {further}. The attack “loss” was run on all.")
    csv_button(table, name=f"privacy-of-{patient_id}")


def _notes(choice: Choice, patient_id: str) -> None:
    notes = data.tables(choice.run).notes_of(patient_id)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"### {len(notes)} note{'s' * (len(notes) != 1)}", width="content")
        heat = st.toggle(
            "Heat map: how training changed each word's likelihood",
            key="heat",
            bind="query-params",
            disabled=not choice.run.has_model or choice.run.spec.is_base,
        )
    if choice.run.spec.is_base:
        st.caption("This is the public model itself, so there is nothing to compare it with.")
    elif not choice.run.has_model:
        st.caption(
            "The heat map needs this run's weights, which are not stored. Choose a run with weights (the first ones in "
            "the list), or train it here."
        )
    pages = -(-len(notes) // NOTES)
    page = st.pagination(pages, key=f"notes-{patient_id}") if pages > 1 else 1
    warm = heat and choice.run.has_model and not choice.run.spec.is_base
    if warm:
        st.html(patient_heat.key_html())
    for note in notes.iloc[(page - 1) * NOTES : page * NOTES].itertuples():
        with st.container(border=True):
            head = (f"**{literal(note.note_type)}**", literal(note.date), f"note {literal(note.note_id)}")
            st.markdown(" · ".join(filter(None, head)))
            tokens = _gains(choice.run, note.text) if warm else None
            if tokens is None:
                warm = False  # the same would fail for each note
                st.html(fields_html(note.text, note.phi_spans))
            else:
                st.html(patient_heat.heat_html(note.text, tokens))
                st.caption(literal(patient_heat.summary(note.text, tokens), 600))
    csv_button(notes, name=f"notes-of-{patient_id}")


def _gains(run: Run, text: str) -> list[Token] | None:
    """The gain of each token of a note; None, with a sentence, if a model cannot be loaded."""
    try:
        return patient_heat.gains(str(run.folder), text, run)
    except (ModelNotFound, RunBroken) as error:  # RunBroken: its weights have just been removed
        st.error(literal(str(error), 600), icon=":material/error:")
        return None
