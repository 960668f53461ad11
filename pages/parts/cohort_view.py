"""Looking at a cohort: its notes with PHI marked, how fields and codes are spread, its canaries, its downloads."""

from __future__ import annotations

import io
import math

import altair as alt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import streamlit as st

from core.corpus import profile
from core.corpus.tables import NOTES, Corpus
from pages.parts import charts
from pages.parts.phi_text import fields_html

NOTES_A_PAGE = 4
FEW_HOLDERS = 5  # a code held by fewer patients than this can point at somebody
SPLITS = {
    "member": "members (trained on)",
    "heldout": "held out (never trained on)",
    "population": "population (thresholds only)",
    "canary": "canaries (planted)",
}


def in_figures(corpus: Corpus) -> None:
    """The cohort's splits, each with its patients and notes."""
    table = profile.splits(corpus).set_index("split")
    with st.grid(4, min_column_width=170):
        for split, label in SPLITS.items():
            row = table.loc[split] if split in table.index else {"patients": 0, "notes": 0}
            st.metric(
                label.capitalize(),
                f"{row['patients']:,} {'planted' if split == 'canary' else 'patients'}",
                f"{row['notes']:,} notes",
                delta_color="off",
                delta_arrow="off",
                border=True,
            )


def read_notes(corpus: Corpus) -> None:
    """Filters, then notes a few at a time, PHI marked with the field's name in words."""
    filters = _note_filters(corpus)
    entities = st.toggle("Mark problems, tests and treatments too", key="entities", bind="query-params")
    notes = profile.matching_notes(corpus, **filters)
    if notes.empty:
        st.info("No note passes these filters. Clear one of them to see notes again.", icon=":material/filter_alt_off:")
        return
    pages = math.ceil(len(notes) / NOTES_A_PAGE)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{len(notes):,}** of {len(corpus.notes):,} notes")
        page = st.pagination(pages, key=f"notes-page-{pages}")
    for note in notes.iloc[(page - 1) * NOTES_A_PAGE : page * NOTES_A_PAGE].itertuples():
        _note_card(note, entities=entities)


def _note_filters(corpus: Corpus) -> dict:
    keep = {"bind": "query-params"}
    with st.grid(5, min_column_width=180):
        present = [split for split in SPLITS if (corpus.notes["split"] == split).any()]
        splits = st.multiselect(
            "Split", present, format_func=SPLITS.__getitem__, key="split", placeholder="all", **keep
        )
        kinds = sorted(corpus.notes["note_type"].unique())
        note_types = st.multiselect("Kind of note", kinds, key="note_type", placeholder="all", **keep)
        patient = st.text_input("Patient", key="patient", placeholder="id or name", **keep)
        code = st.text_input("ICD-10 code", key="code", placeholder="E11", **keep)
        words = st.text_input("Words in the note", key="words", placeholder="chest pain", **keep)
    return {"splits": splits, "note_types": note_types, "patient": patient, "code": code, "words": words}


def _note_card(note: object, *, entities: bool) -> None:
    with st.container(border=True):
        split = SPLITS.get(note.split, note.split)
        st.markdown(
            f"**{note.note_type}** · {note.date} · patient `{note.patient_id}` · note `{note.note_id}` · {split}"
        )
        spans = [*note.phi_spans, *(note.entity_spans if entities else ())]
        st.html(fields_html(note.text, spans))


def fields(corpus: Corpus) -> None:
    """Which fields the notes write, and for how many patients."""
    table = profile.field_profile(corpus)
    st.markdown("In how many patients' notes does each field stand at least once?")
    chart = (
        alt.Chart(table)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="share of patients", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("field:N", title=None, sort="-x", axis=alt.Axis(labelLimit=260)),
            color=alt.Color(
                "role:N",
                title="role",
                scale=alt.Scale(
                    domain=["direct", "health", "physical"],
                    range=[charts.RISK, charts.OKABE_ITO["blue"], charts.CONTROL],
                ),
            ),
            tooltip=["field", "role", alt.Tooltip("share", format=".1%"), "mentions", "patients_named", "distinct"],
        )
        .properties(height=alt.Step(28))
    )
    charts.show(chart, alt_text="Share of patients in whose notes each PHI field stands", key="fields-chart")
    st.caption(
        "Direct identifiers say who somebody is by themselves; health details do so only beside an identity; "
        "physical ones never do."
    )
    charts.numbers(table, name="fields")


def codes(corpus: Corpus) -> None:
    """The long tail: how many patients hold each ICD-10-CM code, and how many codes nearly nobody holds."""
    patients = corpus.patients[corpus.patients["split"] != "canary"]
    table = profile.holders_per_code(patients)
    rare = table["holders"] < FEW_HOLDERS
    st.markdown(
        f"**{rare.sum()} of {len(table)} codes** are held by fewer than {FEW_HOLDERS} of {len(patients):,} patients. "
        "A rare code is nearly a name: whoever learns it has few people left to choose from."
    )
    few, many = f"fewer than {FEW_HOLDERS} holders", f"{FEW_HOLDERS} holders or more"
    chart = (
        alt.Chart(table.assign(group=rare.map({True: few, False: many})))
        .mark_area(interpolate="step")
        .encode(
            x=alt.X("rank:Q", title="codes, most common first", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "holders:Q",
                title="patients who hold it",
                scale=alt.Scale(type="symlog", constant=1, nice=False),
                axis=alt.Axis(values=[0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 10_000]),
            ),
            color=alt.Color(
                "group:N", title=None, scale=alt.Scale(domain=[many, few], range=[charts.CONTROL, charts.RISK])
            ),
            tooltip=["code", "holders", "rank"],
        )
        .properties(height=320)
    )
    charts.show(
        chart, alt_text="Patients per ICD-10 code: a few common codes and a long tail of rare ones", key="codes-chart"
    )
    charts.numbers(table, name="codes")


def lengths(corpus: Corpus) -> None:
    """How many notes of each kind there are, and how long they run."""
    table = profile.length_profile(corpus.notes)
    st.markdown("How many notes of each kind are there, and how long are they? Bars: the middle half of the notes.")
    row = alt.Chart(table).encode(y=alt.Y("note_type:N", title=None, axis=alt.Axis(labelLimit=260)))
    tooltip = ["note_type", "notes", "shortest", "p5", "p25", "median", "p75", "p95", "longest"]
    words = alt.X("p5:Q", title="words a note (line: 5th to 95th percentile)", scale=alt.Scale(zero=True))
    chart = (
        row.mark_rule(strokeWidth=2).encode(x=words, x2="p95", tooltip=tooltip)
        + row.mark_bar(size=22, color=charts.OKABE_ITO["blue"]).encode(x="p25", x2="p75", tooltip=tooltip)
        + row.mark_tick(size=30, thickness=4, color=charts.OKABE_ITO["orange"]).encode(x="median", tooltip=tooltip)
    ).properties(height=alt.Step(46))
    charts.show(chart, alt_text="Words a note, by kind of note", key="lengths-chart")
    charts.numbers(table, name="note-lengths")


def canaries(corpus: Corpus) -> None:
    """The planted secrets, and why a coin decided which of them went in."""
    planted = corpus.canaries
    if planted.empty:
        st.info("This cohort has no canaries. Shape one with canaries to measure memorisation.", icon=":material/egg:")
        return
    put_in = int(planted["inserted"].sum())
    st.markdown(
        f"A **canary** is a made-up secret. For each of the {len(planted)} canaries a fair coin was thrown. "
        f"Heads ({put_in} of them): it was planted in the training notes, in as many copies as the table says. "
        f"Tails ({len(planted) - put_in}): no model of this cohort has ever read it. Both kinds were drawn in the same "
        "way, so whatever an attacker can tell about the planted ones beyond the others was learned in training. "
        "A form is made of a secret (S) and generic words (H); `patient` is a whole canary patient."
    )
    shown = planted[["canary_id", "form", "text", "secret", "insertions", "inserted"]]
    st.dataframe(
        shown,
        hide_index=True,
        column_config={
            "canary_id": "canary",
            "insertions": st.column_config.NumberColumn("copies if heads"),
            "inserted": st.column_config.CheckboxColumn("heads: planted"),
            "text": st.column_config.TextColumn("planted sentence", width="large"),
        },
        alt="Every canary, its form, secret, copies, and whether the coin planted it",
    )
    _csv_button(shown, "canaries")


def downloads(corpus: Corpus) -> None:
    """The notes as CSV (cells that would start a formula are disarmed) and as Parquet (exact, with spans)."""
    st.markdown(
        f"{len(corpus.notes):,} synthetic notes. The **Parquet** file is exact and keeps the spans as lists. "
        "In the **CSV** files spans are JSON, and a cell that a spreadsheet would run as a formula starts with an "
        "apostrophe."
    )
    with st.container(horizontal=True):
        _csv_button(corpus.notes, "notes", label="Notes (CSV)")
        st.download_button(
            "Notes (Parquet)",
            data=lambda: _parquet(corpus.notes),
            file_name="notes.parquet",
            mime="application/vnd.apache.parquet",
            icon=":material/download:",
            on_click="ignore",
            key="parquet-notes",
        )
        _csv_button(corpus.patients, "patients", label="Patients (CSV)")


def _csv_button(table: pd.DataFrame, name: str, label: str = "CSV") -> None:
    st.download_button(
        label,
        data=lambda: profile.spreadsheet_csv(table),
        file_name=f"{name}.csv",
        mime="text/csv",
        icon=":material/download:",
        on_click="ignore",
        key=f"csv-{name}",
    )


def _parquet(notes: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(notes, schema=NOTES, preserve_index=False), buffer, compression="zstd")
    return buffer.getvalue()
