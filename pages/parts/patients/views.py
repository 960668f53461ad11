"""The Patients page above the single patient: the answer, the chart, and the patients of a bucket."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from core.attacks.membership.decision import LOSS
from core.evaluation.rarity.profiles import LEAST
from core.evaluation.rarity.trend import (
    Trend,
    adjusted_sentence,
    figures_sentence,
    headline,
    slopes_sentence,
    verdict_of,
)
from core.evaluation.wording import p_value_text, percent, signed
from core.phi.fields import FIELD
from core.runs.run import Run
from core.spec.model_names import MODEL_NAMES
from pages.parts.common import chart_style, scroll
from pages.parts.common.data_table import csv_button, data_table
from pages.parts.common.phi_text import literal
from pages.parts.common.query_params import KEEP
from pages.parts.patients import charts as patient_charts
from pages.parts.patients import controls, data
from pages.parts.patients.data import PAGE_SIZE, Choice
from pages.parts.patients.methods import HOW
from pages.parts.patients.tries import HELP as TRY
from pages.parts.patients.tries import easiest_label, easiest_sentence, missing_tries
from pages.parts.pickers import run_picker

NO_CODES = (
    "These notes have no ICD codes, so the rarity of diseases is unknown and all patients are in one bucket. To "
    "compare rare and common diseases, upload the notes again with a table of identifiers that has a column "
    "`icd_codes`, or as a folder of MIMIC-III."
)

LEVELS = (
    "Score percentile: the share of held-out patients with a lower score. Where both lines rise or fall together, "
    "rarity moves the scores by itself. Only the gap between the lines shows membership."
)


def buckets_view(choice: Choice, beside: str, runs: Sequence[Run], bucket: int | None) -> None:
    """The answer, the chart and its table, with the chosen bucket marked (None: all of them)."""
    table = data.bucket_table(choice)
    drawn = bool(table["kept"].any())
    if not data.has_codes(choice.run):
        st.info(NO_CODES, icon=":material/label_off:")
    elif drawn and beside == controls.BESIDE[0]:
        _answer(choice)
    elif not drawn:
        st.info(_why_empty(choice, table), icon=":material/group_off:")
    if drawn and beside == controls.BESIDE[0]:
        _one_run(choice, table, bucket)
    elif drawn:
        _several(choice, beside, runs)
    st.caption(spread(table, choice) + controls.without_codes_text(choice))
    with st.expander("How is this computed, and why do attacks disagree?"):
        if drawn:
            found = data.trends(choice)[choice.attack]
            st.markdown("\n\n".join(filter(None, (adjusted_sentence(found), slopes_sentence(found)))))
            chart_style.show(
                patient_charts.levels(table),
                key=f"levels-{choice.run.id}-{choice.attack}-{choice.level}-{hash(choice.filters)}",
                alt="Mean score percentile of members and of held-out patients, from the rarest to the most common "
                "disease profiles.",
            )
            st.caption(LEVELS)
        st.markdown(HOW)


def _answer(choice: Choice) -> None:
    """The answer in a heading, with its figures below."""
    found = data.trends(choice)[choice.attack]
    st.markdown(f"## {headline(choice.attack, found)}")
    at_patient = " The test is per patient, even if the chart shows admissions." if choice.level == "admission" else ""
    st.caption(f"{figures_sentence(found)}{at_patient}")


def spread(table: pd.DataFrame, choice: Choice) -> str:
    """How many buckets there are, and how many have no figure."""
    bare, count = table[~table["kept"]], len(table)
    unit = "patients" if choice.level == "patient" else "admissions"
    only = controls.filters_text(choice.filters)
    if count == 1:
        parts = [f"One bucket with all {unit}{': there are too few for several' * data.has_codes(choice.run)}"]
    else:
        parts = [f"{count} buckets with about equally many {unit}, by rarity of the set of diagnoses"]
    if len(bare):
        people = int(bare["members"].sum() + bare["heldout"].sum())
        parts.append(
            f"{len(bare)} with fewer than {LEAST} members or {LEAST} held-out patients "
            f"{'has' if len(bare) == 1 else 'have'} no figure ({people:,} patients, who are in the list)"
        )
    return "; ".join(parts) + "." + (f" Only patients with {only}." if only else "")


def _why_empty(choice: Choice, table: pd.DataFrame) -> str:
    if table.empty and choice.level == "admission" and not controls.filters_text(choice.filters):
        return (
            "The notes of this cohort do not mention their patients' codes, so admissions have no profile. Evaluate "
            "by patient instead."
        )
    if table.empty:
        return "No patient matches these filters. Clear one of them to see patients."
    needs = f"Too few patients to compare: a bucket needs {LEAST} members and {LEAST} held-out patients"
    if controls.filters_text(choice.filters):
        return (
            f"{needs} that this attack scored and that match the filters. Widen the filters or choose another attack. "
            "The list below has all patients."
        )
    members, heldout = (int(table[side].sum()) for side in ("members", "heldout"))
    return f"{needs}, and this attack scored {members:,} and {heldout:,} in all. The list below has them all."


def _one_run(choice: Choice, table: pd.DataFrame, bucket: int | None) -> None:
    key = f"bars-{choice.run.id}-{choice.attack}-{choice.level}-{hash(choice.filters)}"

    def clicked() -> None:
        points = st.session_state[key].selection.points
        if points and points[0].get("x") is not None:
            st.session_state["bucket"] = str(int(points[0]["x"]))

    base, control = data.public_model(choice.run), None
    if base is not None:
        control = data.bucket_table(replace(choice, run=base, attack=LOSS))
    figure = patient_charts.bars(table, control if control is None or len(control) == len(table) else None, bucket)
    alt = f"AUC in {int(table['kept'].sum())} buckets, from the rarest to the most common disease profiles."
    chart_style.show(figure, key=key, alt=alt, on_select=clicked)
    pair = ("a member", "a held-out patient", "its patients")
    if choice.level == "admission":
        pair = ("an admission of a member", "one of a held-out patient", "the patients of its admissions")
    st.caption(
        f"{literal(run_picker.label(choice.run))}, attack “{choice.attack}”. AUC: how often {pair[0]} scores above "
        f"{pair[1]} in the same bucket, with its 95\u00a0% interval. Click a bar to see {pair[2]}."
    )
    data_table(table.assign(bucket=table["bucket"] + 1), name="patients-buckets")


def _several(choice: Choice, beside: str, runs: Sequence[Run]) -> None:
    others, left = side_by_side(choice, beside, runs)
    found = {name: data.bucket_table(one) for name, (one, _) in others.items()}
    tested = {name: data.trends(one)[one.attack] for name, (one, _) in others.items()}
    colours = {name: colour for name, (_, colour) in others.items() if colour}
    if data.has_codes(choice.run):
        st.markdown(verdicts_sentence(tested))
    alt = f"AUC by rarity for {len(found)}: {', '.join(found)}."
    chart_style.show(patient_charts.lines(found, colours), key="lines", alt=alt)
    compared = comparison(tested, "attack" if beside == OTHER_ATTACKS else "run")
    texts = {"AUC": "{:.3f}", "change": signed, "p": _p_text, "ρ held out": signed}
    st.dataframe(compared.style.format(texts, na_rep="–"), hide_index=True, alt=alt)
    caption = (
        "Change: the difference in AUC from the most common to the rarest profiles; above 0, rarer patients leak more. "
        "p is corrected over the attacks of each run; a small p means that chance rarely gives such a change. ρ held "
        "out: above 0, held-out patients with rarer profiles score higher."
    )
    caption += (
        " Each point is one bucket, the rarest on the left, with its 95\u00a0% interval. The section below is about "
        f"{literal(run_picker.label(choice.run))}, attack “{choice.attack}”."
    )
    if len(found) == 1:
        caption += " There is nothing to compare here: no other run on the same notes has stored scores of this attack."
    if left:
        caption += f" Not yet run on {left} more: “{choice.attack}” (`python -m core audit RUN --suite full`)."
    st.caption(caption)
    rows = pd.concat([one.assign(line=name, bucket=one["bucket"] + 1) for name, one in found.items()])
    data_table(rows, name="patients-beside")


OTHER_ATTACKS = "other attacks"


def verdicts_sentence(tested: Mapping[str, Trend]) -> str:
    """The answer for each of several runs or attacks: those with the same verdict together."""
    groups: dict[str, list[str]] = {}
    for name, one in tested.items():
        groups.setdefault(verdict_of(one), []).append(literal(name))
    told = "; ".join(f"**{verdict}** ({', '.join(names)})" for verdict, names in groups.items())
    return f"Does rarity change what leaks? {told[:2]}{told[2:3].upper()}{told[3:]}."


def side_by_side(choice: Choice, beside: str, runs: Sequence[Run]) -> tuple[dict[str, tuple[Choice, str | None]], int]:
    """What a choice is compared with, by name, each with its colour on every page; and how many lack the attack."""
    if beside == OTHER_ATTACKS:
        return {name: (replace(choice, attack=name), None) for name in data.attacks(choice.run)}, 0
    if beside == "other models":
        chosen = data.other_models(choice.run, runs)
        named: dict[str, tuple[str, str | None]] = {
            run.id: (MODEL_NAMES[run.spec.model.kind], chart_style.MODEL_COLOURS[run.spec.model.kind]) for run in chosen
        }
    else:
        chosen = data.other_epsilons(choice.run, runs)
        named = {run.id: (run_picker.privacy_label(run), _end_colour(run)) for run in chosen}
    chosen = data.comparable(choice.attack, chosen)
    having = [run for run in chosen if choice.attack in data.attacks(run)]
    found = {named[run.id][0]: (replace(choice, run=run), named[run.id][1]) for run in having}
    return found, len(chosen) - len(having)


def _end_colour(run: Run) -> str | None:
    """The fixed colours of the public model and of the run without privacy; None for the runs between them."""
    if run.spec.is_base:
        return chart_style.CONTROL
    return None if run.spec.privacy.private else chart_style.RISK


def _p_text(p_value: float) -> str:
    """`0.060`, `< 0.001`: the form of sentences, without `p` and the sign of equality."""
    return p_value_text(p_value).removeprefix("p ").removeprefix("= ")


def comparison(tested: Mapping[str, Trend], what: str = "run") -> pd.DataFrame:
    """One row per run or attack: its AUC over all patients, how it changes with rarity, and the test's verdict."""
    rows = [
        (name, one.auc, one.slope.value, one.corrected, one.heldout_rho, verdict_of(one))
        for name, one in tested.items()
    ]
    return pd.DataFrame(rows, columns=[what, "AUC", "change", "p", "ρ held out", "rarity"])


# Patients ------------------------------------------------------------------------------------------------------------


def patients_view(choice: Choice, bucket: int | None) -> None:
    """The patients of the bucket, fewest tries or highest attack score first; a click on a row opens the patient."""
    where = "all buckets" if bucket is None else f"bucket {bucket + 1}"
    row = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
    title = row.container(width="content")
    tries = data.tries_file(choice.run)
    with row:
        by_tries = tries is not None and _by_tries()
    state = f"{choice.run.id}-{choice.attack}-{choice.level}-{hash(choice.filters)}-{bucket}-{by_tries}"
    page = st.session_state.get(f"page-{state}") or 1
    found = data.patients(choice, bucket, page=page, tries=tries, by_tries=by_tries)
    if found.empty:
        st.info(f"No patient in {where} matches the filters.", icon=":material/filter_alt_off:")
        return
    total, key = int(found["total"].iloc[0]), f"patients-{state}-{page}"

    def clicked() -> None:
        rows = st.session_state[key].selection.rows
        if rows:
            st.session_state["patient"] = found["patient_id"].iloc[rows[0]]
            scroll.ask()  # the card is below the list

    first = "fewest tries to extract a value" if by_tries else "highest attack score"
    title.markdown(f"**{total:,} patients** in {where}, {first} first")
    if bucket is None and (part := part_of_cohort(choice, total)):
        st.caption(part)
    if tries is not None and by_tries and (told := easiest_sentence(data.easiest_first(choice, bucket, tries))):
        st.markdown(told)
    table = shown(found, choice.run, tries=tries is not None)
    if total > PAGE_SIZE:
        row.pagination(math.ceil(total / PAGE_SIZE), key=f"page-{state}")
    st.dataframe(
        table.style.format({name: percent for name in (RARER, PERCENTILE) if name in table}, na_rep="–"),
        hide_index=True,
        key=key,
        on_select=clicked,
        selection_mode="single-row",
        height="content",
        alt=f"{total} patients in {where}",
        column_config=_columns(),
    )
    st.caption(CAUGHT_OF)
    if tries is None and choice.run.spec.model.kind == "gpt2":
        st.markdown(missing_tries(choice.run))
    all_patients = data.every_patient(choice, bucket, tries=tries, by_tries=by_tries)
    csv_button(lambda: for_csv(all_patients()), name=csv_name(choice, where))


def part_of_cohort(choice: Choice, listed: int) -> str:
    """Why the list of all buckets has fewer patients than the cohort; empty where it has all, or with filters."""
    every = choice.run.spec.corpus.patients
    if choice.level != "patient" or controls.filters_text(choice.filters) or listed >= every:
        return ""
    return f"{listed:,} of {every:,} members and held-out patients: the attack was run on these."


FIRST = ("fewest tries", "highest score")
GROUPS = {"member": "member", "heldout": "held out"}
RARER, TRY_IN, PERCENTILE, CAUGHT_BY = "rarer than", "one try in", "score percentile", "caught by"
LIRA = "LiRA: caught in"
CAUGHT_OF = "“Caught by” counts only the attacks that scored the patient: some score only part of the patients."


def _by_tries() -> bool:
    """Whether the list starts with the patients whose values take fewest tries."""
    first = st.segmented_control(
        "Sort by", FIRST, default=FIRST[0], required=True, key="first", label_visibility="collapsed", **KEEP
    )
    return first == FIRST[0]


def shown(found: pd.DataFrame, run: Run, *, tries: bool = False) -> pd.DataFrame:
    """The rows as the table on the page has them; with `tries`, the columns about the tries to extract a value."""
    words, shadows = data.wordings(run), data.shadow_patients(run)
    table = pd.DataFrame(
        {
            "patient": found["patient_id"],
            "group": found["split"].map(GROUPS),
            RARER: (1 - found["percentile_rarity"]).round(9),
            "notes": found["notes"],
            TRY_IN: found["one_in"].round(),
            "easiest": found["easiest"].map(easiest_label),
            PERCENTILE: found["percentile"],
            CAUGHT_BY: [f"{c} of {n}" for c, n in zip(found["catching"], found["attacks"], strict=True)],
            LIRA: [_caught_in(shadows, patient) for patient in found["patient_id"]],
            "extracted": [fields(one) for one in found["fields"]],
            "texts": found["texts"],
            "profile": [
                ", ".join(f"{code} {words.get(code, '')}".strip() for code in codes) for codes in found["icd_codes"]
            ],
        }
    )
    absent = [] if tries else [TRY_IN, "easiest"]
    absent += [LIRA] if shadows.empty else []
    absent += [] if data.has_codes(run) else [RARER, "profile"]  # without codes nothing is known of rarity
    return table.drop(columns=absent)


def _caught_in(shadows: pd.DataFrame, patient: str) -> str:
    """`12 of 31`: of the shadow models that read the patient; empty for one whom LiRA did not judge."""
    if patient not in shadows.index:
        return ""
    return f"{shadows.at[patient, 'caught']} of {shadows.at[patient, 'read']}"


def _columns() -> dict:
    """Widths that fit a screen of 1280 pixels together; a click on a cell shows all of a long profile."""
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "patient": text(width=70),
        "group": text(width=75),
        RARER: number(width=85, help="Share of patients with a more common profile (ties count half)."),
        "notes": number(width=60),
        TRY_IN: number(
            width=105, format="localized", help=f"{TRY} The number for the easiest field; empty: no try writes any."
        ),
        "easiest": text(width=90, help="The identifier that takes fewest tries."),
        PERCENTILE: number(width=120, help="Share of held-out patients with a lower score."),
        CAUGHT_BY: text(width=85, help="Attacks that call this patient a member, of those that scored them."),
        LIRA: text(width=105, help="Of the shadow models that read this patient, those in which LiRA catches them."),
        "extracted": text(width=160, help="Fields that the model wrote after prompts."),
        "texts": number(width=60, help="Generated texts with a value of this patient."),
        "profile": text(width=150),
    }


def fields(names: Any) -> str:
    """Labels of PHI fields, separated by commas; empty if there are none."""
    return (
        ", ".join(FIELD[name].label for name in names)
        if isinstance(names, (list, tuple)) or hasattr(names, "tolist")
        else ""
    )


def for_csv(found: pd.DataFrame) -> pd.DataFrame:
    """The rows for the CSV file: those of the list under its names, in full digits, and what else is known of each."""
    return pd.DataFrame(
        {
            "patient": found["patient_id"],
            "group": found["split"].map(GROUPS),
            "age": found["age"],
            "sex": found["sex"],
            RARER: (1 - found["percentile_rarity"]).round(9),  # without the last digits of a difference of floats
            "ln p of profile": found["log_probability"],
            "notes": found["notes"],
            TRY_IN: found["one_in"],
            "easiest": found["easiest"].map(easiest_label),
            "score": found["score"],
            PERCENTILE: found["percentile"],
            "caught by this attack": found["caught"],
            CAUGHT_BY: found["catching"],
            "attacks": found["attacks"],
            "extracted": found["fields"].map(fields),
            "texts": found["texts"],
            "profile": found["icd_codes"].map(" ".join),
        }
    )


def csv_name(choice: Choice, where: str) -> str:
    """The name of the CSV file, without `.csv`: whose list it is, and of which patients."""
    parts = ("patients", choice.run.id, choice.attack, f"per {choice.level}", where)
    only = ("filtered",) if controls.filters_text(choice.filters) else ()
    return "-".join((*parts, *only)).replace(" ", "-")
