"""What the models write: how many texts until a patient is named, and notes repeated word for word."""

from __future__ import annotations

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.attacks.memorisation.own_values import own_hits
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.memorisation.extraction import distinct_values, first_leaks, leak_curve
from core.evaluation.memorisation.verbatim import fields_within, longest
from core.evaluation.wording import interval_text, percent, shared_values_sentence
from core.phi.fields import DIRECT, FIELD
from core.runs.run import Run
from pages.parts.canaries import charts as canary_charts
from pages.parts.canaries import sentences
from pages.parts.canaries.tables import audit_table, no_audit, together
from pages.parts.common import chart_style, guess
from pages.parts.common.data_table import csv_button, data_table
from pages.parts.common.phi_text import literal
from pages.parts.session import owner, resources

SHOWN = 60  # notes offered for reading
ARM_NAMES = (("run", "training patients"), ("heldout", "held-out patients (control)"))


@resources.cached_data(max_entries=60, show_spinner=False)
def first_leak_tables(folder: str, _run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A run's leak curve, and every distinct value of a patient that it wrote."""
    corpus = owner.workspace().corpus(_run.spec.corpus, store=False).without(_run.spec.without)
    generations, hits = _run.table("generations"), _run.table("hits")
    curve = leak_curve(first_leaks(generations, hits, corpus), len(generations))
    return curve, distinct_values(generations, hits)


def _shared(run: Run) -> frozenset[tuple[str, str]]:
    """The values that several patients of the run's notes have, which do not count."""
    return resources.shared_values(run.spec.corpus, owner.workspace())


def questions_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """How many texts an attacker must read until one contains a direct identifier of a patient."""
    first = next(iter(chosen.values()))
    texts = len(first.table("generations"))
    answer = guess.first(
        f"An attacker reads {texts:,} texts from the first model. For how many patients do the texts contain a direct "
        "identifier (name, date of birth, number, address …)?",
        ["none", "1 in 20", "1 in 3", "all"],
        key=f"questions-{first.id}",
    )
    if answer is None:
        return
    found = {name: first_leak_tables(str(run.folder), run) for name, run in chosen.items()}
    curves = {name: tables[0] for name, tables in found.items()}
    for number, (name, curve) in enumerate(curves.items()):
        ends = curve.groupby("arm").last()
        shares = [
            f"{percent(ends.loc[arm, 'share'])} of {who} ({interval_text(ends.loc[arm, 'low'], ends.loc[arm, 'high'])})"
            for arm, who in ARM_NAMES
            if arm in ends.index
        ]
        texts = int(ends["samples"].max())
        told = f"**{name}**: {texts:,} texts contain a direct identifier of {', '.join(shares)}."
        guess.show_answer(answer if number == 0 else "", told)
    chart_style.show(
        canary_charts.leak_curve(curves),
        key="questions-chart",
        alt="Share of patients with a direct identifier in the texts, against texts read",
    )
    # Models of the same notes have the same sentence.
    for sentence in dict.fromkeys(shared_values_sentence(_shared(run)) for run in chosen.values()):
        if sentence:
            st.caption(sentence)
    data_table(together(curves), name="first-leaks")
    data_table(
        together({name: tables[1] for name, tables in found.items()}), name="leaked-values", label="Distinct values"
    )
    read_first(chosen)
    sentences.how("questions")


def read_first(chosen: dict[str, Run]) -> None:
    """Extraction ranked by likelihood ratio, and greedy decoding, if a full audit has them."""
    tables = {name: audit_table(run, "extraction_recall") for name, run in chosen.items()}
    tables = {name: table for name, table in tables.items() if len(table)}
    if not tables:
        return
    st.header("Which texts are most suspicious?", anchor=False)
    for name, table in tables.items():
        st.markdown(f"**{name}**: {ranked_sentence(table)} {greedy_sentence(chosen[name])}")
    data_table(together(tables), name="extraction-recall", label="Recall at 0, 10 and 100 errors")


def ranked_sentence(table: pd.DataFrame) -> str:
    """How many leaked values come before the 101st wrong text, sorted by likelihood ratio and by likelihood."""
    rows = table[table["errors"] == table["errors"].max()].set_index("score")
    ratio, own = rows.loc["ratio"], rows.loc["log_likelihood"]
    if not ratio["leaks"]:
        return "none of its texts contains a training patient's identifier, so there is nothing to rank."
    return (
        f"sorted by likelihood relative to the public model, {int(ratio['found'])} of {int(ratio['leaks'])} distinct "
        f"values ({percent(ratio['recall'])}) come before wrong text no. {int(ratio['errors']) + 1}; sorted by "
        f"likelihood alone, {int(own['found'])} ({percent(own['recall'])})."
    )


def greedy_sentence(run: Run) -> str:
    """For how many patients greedy decoding of each prompt gave a direct identifier."""
    asked, hits = audit_table(run, "greedy_generations"), audit_table(run, "greedy_hits")
    if asked.empty:
        return ""
    ours = own_hits(hits[(hits["rule"] == "value") & hits["field"].isin(DIRECT)], _shared(run))
    counts = [ours.loc[ours["split"] == split, "patient_id"].nunique() for split in JUDGED_SPLITS]
    return (
        f"With greedy decoding (always the likeliest token), {len(asked)} prompts reveal an identifier of {counts[0]} "
        f"training and {counts[1]} held-out patients."
    )


def words_view(chosen: dict[str, Run], knobs: DeltaGenerator) -> None:
    """Notes repeated word for word: rates with controls, and the notes themselves."""
    rates = {name: audit_table(run, "memorised") for name, run in chosen.items()}
    for name, table in rates.items():
        if table.empty:
            if chosen[name].spec.model.kind != "gpt2":
                st.info(f"“{name}” fills blanks and has no likeliest next token. This attack needs GPT-2.")
            else:
                no_audit(name)
    rates = {name: table for name, table in rates.items() if not table.empty}
    if not rates:
        sentences.how("words")
        return
    answer = guess.first(
        "Shown the first 32 tokens of a training note, how often does the model write the rest word for word?",
        ["never", "1 to 5 % of notes", "a fifth", "half of them"],
        key=f"words-{chosen[next(iter(rates))].id}",
    )
    if answer is None:
        return
    for name, table in rates.items():
        guess.show_answer(answer if name == next(iter(rates)) else "", f"**{name}** {completed(table)}")
    chart_style.show(canary_charts.verbatim(rates), key="words-chart", alt="Share of notes repeated word for word")
    data_table(together(rates), name="memorised")
    read_notes({name: chosen[name] for name in rates})
    predictors(chosen)
    sentences.how("words")


def completed(table: pd.DataFrame) -> str:
    """How many notes of each group were completed after the longest prefix, or that all of a group's are too short.

    `table`: `core.evaluation.memorisation.verbatim.memorised_rates`, which has no row of an arm without such a note.
    """
    rows = table[table["prefix_tokens"] == table["prefix_tokens"].max()].set_index("arm")
    counted, short = [], ""
    for arm, who in (("run", "training patients"), ("heldout", "held-out patients")):
        if arm not in rows.index:
            short = f" No note of {who} is long enough{', so there is no control' if arm == 'heldout' else ''}."
            continue
        row = rows.loc[arm]
        counted.append(
            f"{int(row['found']):,} of {int(row['notes']):,} notes of {who} ({percent(row['verbatim'])}, "
            f"{interval_text(row['low'], row['high'])})"
        )
    return f"completed word for word {', and '.join(counted)}.{short}"


def read_notes(chosen: dict[str, Run]) -> None:
    """One note with the repeated part highlighted, longest first."""
    st.header("Read the repeated notes")
    left, middle, right = st.columns([2, 2, 1], vertical_alignment="bottom")
    name = left.selectbox("Model", list(chosen), key="words-model")
    split = middle.segmented_control(
        "Notes of",
        ["member", "heldout"],
        default="member",
        required=True,
        key="words-split",
        format_func={"member": "training patients", "heldout": "held-out patients (control)"}.__getitem__,
    )
    run = chosen[name]
    found = longest(audit_table(run, "prefixes"), split).head(SHOWN)
    if found.empty:
        st.caption("No note of this group was tested.")
        return
    place = right.number_input(f"Note (1 to {len(found)})", 1, len(found), 1, key="words-note")
    row = found.iloc[int(place) - 1]
    note = owner.workspace().corpus(run.spec.corpus, store=False).notes.set_index("note_id").loc[row["note_id"]]
    start, end = int(row["prefix_end"]), int(row["matched_end"])
    fields = fields_within(note["phi_spans"], start, end)
    held = ", ".join(FIELD[name].label if name in FIELD else name for name in fields)
    st.markdown(
        f"Note {literal(row['note_id'])}: after {row['prefix_tokens']} tokens (dotted) the model wrote the next "
        f"**{row['matched_tokens']} of {row['rest_tokens']}** tokens word for word. They contain these values of the "
        f"patient: {held or 'none'}."
    )
    st.html(sentences.note_html(note["text"], start, end))
    data_table(found, name="longest-continuations", label="The longest continuations")


def predictors(chosen: dict[str, Run]) -> None:
    """Which notes the ratio attack finds (Mireshghallah 2022: memorised ones), if a full audit measured it."""
    tables = {name: audit_table(run, "memorisation_predictors") for name, run in chosen.items()}
    tables = {name: table[table["half"] == "judged"] for name, table in tables.items() if not table.empty}
    if not tables:
        return
    st.header("Which notes does a membership attack find?")
    st.markdown(
        "Here a training note is found if its likelihood relative to the public model exceeds a threshold that at most "
        "10\u00a0% of held-out notes exceed: so about 10\u00a0% are found by chance. A simple rule from each feature "
        "is fitted on half of the patients and tested on the others. It helps only if its precision exceeds the share "
        "of all notes that are found."
    )
    st.dataframe(
        predictor_rows(together(tables)),
        hide_index=True,
        height="content",
        alt="Precision and recall of predicting from simple features which notes are found",
    )
    csv_button(together(tables), name="memorisation-predictors")


def predictor_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The predictors' figures as text, `67 % (63 % to 71 %)`, and the share of notes that the attack finds."""

    def with_interval(value: str) -> list[str]:
        return [
            f"{percent(row[value])} ({percent(row[f'{value}_low'])} to {percent(row[f'{value}_high'])})"
            if row[value] == row[value]
            else "predicts no note"
            for row in table.to_dict("records")
        ]

    return pd.DataFrame(
        {
            "model": table["run"],
            "feature": table["features"],
            "precision (95 % interval)": with_interval("precision"),
            "share of notes found": table["memorised"].map(percent),
            "recall (95 % interval)": with_interval("recall"),
        }
    )
