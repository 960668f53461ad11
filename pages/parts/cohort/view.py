"""A cohort on screen: notes with PHI marked, the distribution of fields and codes, canaries, downloads."""

from __future__ import annotations

import html
import io
import math
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.parquet as pq
import streamlit as st

from core.corpus import profile
from core.corpus.canary_forms import PATIENT
from core.corpus.tables import NOTES, Corpus
from core.evaluation.wording import percent
from pages.parts.access import viewer
from pages.parts.common import chart_style
from pages.parts.common.data_table import csv_button, data_table
from pages.parts.common.phi_text import fields_html, fields_legend_html, literal, visible
from pages.parts.common.query_params import KEEP, kept_unless_real
from pages.parts.session import owner

NOTES_A_PAGE = 4
FEW_HOLDERS = 5  # a code that fewer patients have can identify someone
ROLE_COLOURS = {
    "direct": chart_style.RISK,
    "health": chart_style.OKABE_ITO["purple"],
    "physical": chart_style.OKABE_ITO["sky"],
}
SPLITS = {
    "member": "members (trained on)",
    "heldout": "held out (never trained on)",
    "population": "population (for the attacker)",
    "canary": "canaries (planted)",
}


def describe(corpus: Corpus, planned: str) -> str:
    """One line on a cohort that exists, with its own number of notes; `planned` where notes were uploaded."""
    spec = corpus.spec
    if spec is None or spec.imported is not None:
        return planned
    kind = "short notes" if spec.note_length == "brief" else "notes"
    return (
        f"{len(corpus.notes):,} {kind}, counted by group below; {percent(spec.naming_rate)} of the notes name their "
        f"patient; seed {spec.seed}."
    )


def split_counts(corpus: Corpus) -> None:
    """The cohort's splits, each with its patients and notes."""
    table = profile.splits(corpus).set_index("split")
    with st.container(key="split-counts"), st.grid(4, min_column_width=150):
        for split, label in SPLITS.items():
            row = table.loc[split] if split in table.index else {"patients": 0, "notes": 0}
            st.metric(
                label.capitalize(),
                f"{row['patients']:,}",
                _of_what(corpus, split, int(row["notes"])),
                delta_color="off",
                delta_arrow="off",
                border=True,
            )


def _of_what(corpus: Corpus, split: str, notes: int) -> str:
    """What a split counts. Of canaries, how many there are: a coin left some out, the others were planted."""
    if split != "canary":
        return f"patients, {notes:,} note{'s' * (notes != 1)}"
    whole = int((corpus.canaries["form"] == PATIENT).sum())
    count = f"of {len(corpus.canaries):,}"
    return f"{count}, {whole:,} of them patients" if whole else f"{count} sentences"


def read_notes(corpus: Corpus) -> None:
    """Filters, then a few notes per page, PHI marked with the name of its field."""
    notes = profile.matching_notes(corpus, **_note_filters(corpus))
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        count = st.empty()
        entities = st.toggle("Mark problems, tests and treatments too", key="entities", bind="query-params")
        turned = st.empty()
    if notes.empty:
        st.info("No note matches these filters. Clear one of them to see notes.", icon=":material/filter_alt_off:")
        return
    pages = math.ceil(len(notes) / NOTES_A_PAGE)
    count.markdown(f"**{len(notes):,}** of {len(corpus.notes):,} notes", width="content")
    page = turned.pagination(pages, key=f"notes-page-{pages}")
    found = corpus.spec is None or corpus.spec.imported is not None  # by a detector, and not known from the records
    st.html(fields_legend_html(entities=entities, by_detector=found))
    for note in notes.iloc[(page - 1) * NOTES_A_PAGE : page * NOTES_A_PAGE].itertuples():
        _note_card(note, entities=entities)


def _note_filters(corpus: Corpus) -> dict:
    keep, typed = KEEP, kept_unless_real(corpus.spec)
    with st.grid(5, min_column_width=150):
        present = [split for split in SPLITS if (corpus.notes["split"] == split).any()]
        splits = st.multiselect(
            "Group", present, format_func=SPLITS.__getitem__, key="split", placeholder="all", **keep
        )
        kinds = sorted(corpus.notes["note_type"].unique())
        note_types = st.multiselect("Type of note", kinds, key="note_type", placeholder="all", **typed)
        patient = st.text_input("Patient", key="patient", placeholder="ID or name", **typed)
        code = st.text_input("ICD code", key="code", placeholder="E11", **typed)
        words = st.text_input("Words in the note", key="words", placeholder="chest pain", **typed)
    return {"splits": splits, "note_types": note_types, "patient": patient, "code": code, "words": words}


def _note_card(note: Any, *, entities: bool) -> None:
    with st.container(border=True):
        split = SPLITS.get(note.split, note.split)
        about = [f"patient {literal(note.patient_id)}", f"note {literal(note.note_id)}", split]
        st.markdown(" · ".join([f"**{literal(note.note_type)}**", *filter(None, [literal(note.date)]), *about]))
        spans = [*note.phi_spans, *(note.entity_spans if entities else ())]
        st.html(fields_html(note.text, spans))


def fields(corpus: Corpus) -> None:
    """Which fields the notes contain, and for how many patients."""
    table = profile.field_profile(corpus).sort_values("share")
    st.markdown(
        "For how many patients do the notes contain each field? **Direct** identifiers count as a leak by themselves, "
        "**health** details only together with an identity, **physical** details never."
    )
    figure = go.Figure()
    for role, colour in ROLE_COLOURS.items():
        part = table[table["role"] == role]
        figure.add_bar(
            x=part["share"],
            y=part["field"],
            name=role,
            orientation="h",
            marker_color=colour,
            customdata=part[["mentions", "patients_named"]].assign(share=chart_style.hover_texts(part["share"])),
            hovertemplate="%{y}: %{customdata[2]} of patients (%{customdata[1]}), %{customdata[0]} times"
            "<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "share of patients with notes", "tickformat": "~%", "range": [0, 1.02]},
        yaxis={"categoryorder": "array", "categoryarray": table["field"].tolist()},
        legend={"orientation": "h", "y": 1.08},
        height=480,
        margin={"t": 30, "b": 10, "l": 10, "r": 10},
    )
    chart_style.show(figure, key="fields-chart", alt="Share of patients whose notes contain each PHI field")
    data_table(table.iloc[::-1], name="fields")


def codes(corpus: Corpus) -> None:
    """The long tail: how many patients have each ICD code, and how many codes are rare."""
    patients = corpus.patients[corpus.patients["split"] != "canary"]
    table = profile.holders_per_code(patients)
    if table.empty:
        st.info("No patient of this cohort has an ICD code on record.", icon=":material/label_off:")
        return
    rare = table["holders"] < FEW_HOLDERS
    st.markdown(
        f"**{rare.sum()} of the {len(table)} codes** are rare: each belongs to fewer than {FEW_HOLDERS} of "
        f"{len(patients):,} patients. Anyone who knows that a person has such a code has at most {FEW_HOLDERS - 1} "
        "patients to choose from."
    )
    figure = go.Figure()
    for part, name, colour in (
        (table[~rare], f"{FEW_HOLDERS} patients or more", chart_style.CONTROL),
        (table[rare], f"fewer than {FEW_HOLDERS} patients", chart_style.RISK),
    ):
        figure.add_bar(
            x=part["rank"],
            y=part["holders"],
            name=name,
            marker={"color": colour, "line_width": 0},
            customdata=part["code"],
            hovertemplate="%{customdata}: %{y} patients<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "codes, most common first"},
        yaxis={
            "title": "patients with the code (log scale)",
            "type": "log",
            "tickvals": [1, 2, 5, 10, 20, 50, 100, 1_000],
        },
        legend={"orientation": "h", "y": 1.1},
        bargap=0,
        height=380,
        margin={"t": 30, "b": 10, "l": 10, "r": 10},
    )
    chart_style.show(
        figure, key="codes-chart", alt="Patients per ICD-10 code: few common codes, a long tail of rare ones"
    )
    data_table(table, name="codes")


def lengths(corpus: Corpus) -> None:
    """How many notes of each type there are, and how long they are."""
    table = profile.length_profile(corpus.notes)
    st.markdown("How many notes of each type are there, and how long are they?")
    figure = go.Figure(
        go.Box(
            # Plotly reads markup in names, and an uploaded file gives these.
            y=[f"{html.escape(visible(row.note_type))} ({row.notes:,})" for row in table.itertuples()],
            lowerfence=table["p5"],
            q1=table["p25"],
            median=table["median"],
            q3=table["p75"],
            upperfence=table["p95"],
            orientation="h",
            marker_color=chart_style.UTILITY,
        )
    )
    figure.update_layout(
        xaxis={"title": "words per note (box: middle half; whiskers: 5th to 95th percentile)", "rangemode": "tozero"},
        yaxis={"autorange": "reversed"},
        height=110 + 60 * len(table),
        margin=chart_style.MARGIN,
    )
    chart_style.show(figure, key="lengths-chart", alt="Words per note, by type of note")
    data_table(table, name="note-lengths")


def canaries(corpus: Corpus) -> None:
    """The canaries, and why a coin decided which of them were planted."""
    planted = corpus.canaries
    if planted.empty:
        own = corpus.spec is None or corpus.spec.imported is not None
        how = "Import your notes again with “Canary sentences” set" if own else "Design a custom cohort with canaries"
        st.info(f"This cohort has no canaries. {how} to measure memorisation.", icon=":material/egg:")
        return
    put_in = int(planted["inserted"].sum())
    st.markdown(
        f"A **canary** is a made-up secret. A fair coin was tossed for each of the {len(planted)} canaries. "
        f"Heads ({put_in} of them): it was planted in the training notes, in the number of copies shown in the table. "
        f"Tails ({len(planted) - put_in}): no model of this cohort was trained on it. Both kinds were drawn in the "
        "same way, so a clear difference between them comes from training. "
        "A form consists of a secret (S) and generic words (H); `patient` is a whole canary patient."
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
    csv_button(shown, name="canaries")


def downloads(corpus: Corpus) -> None:
    """The notes as CSV (cells that would start a formula are escaped) and as Parquet (exact, with spans)."""
    st.markdown(
        f"{len(corpus.notes):,} notes. The **Parquet** file is exact and keeps the spans as lists. "
        "In the **CSV** files, spans are JSON, and a cell that a spreadsheet would run as a formula starts with an "
        "apostrophe."
    )
    space, spec = owner.workspace(), corpus.spec
    assert spec is not None  # the page shows cohorts of a spec

    def now() -> Corpus:
        """The cohort when a button is pressed. Raises CohortGone for notes that were deleted after they were drawn."""
        return space.corpus(spec, store=False)

    with st.container(horizontal=True):
        csv_button(lambda: now().notes, name="notes", label="Notes (CSV)")
        st.download_button(
            "Notes (Parquet)",
            data=viewer.later(lambda: _parquet(now().notes)),
            file_name="notes.parquet",
            mime="application/vnd.apache.parquet",
            icon=":material/download:",
            on_click="ignore",
            key="parquet-notes",
        )
        csv_button(lambda: now().patients, name="patients", label="Patients (CSV)")


def _parquet(notes: pd.DataFrame) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(notes, schema=NOTES, preserve_index=False), buffer, compression="zstd")
    return buffer.getvalue()
