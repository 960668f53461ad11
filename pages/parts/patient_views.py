"""The Patients page from buckets to one patient: the picture, what it says in words, and the patients of a bucket."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from core.evaluation.patient_leakage import RankCorrelation, rank_correlation
from core.evaluation.rarity import LEAST_PATIENTS
from core.evaluation.wording import p_value_text, percent
from core.phi.fields import FIELD
from core.runs.run import Run
from pages.parts import charts, patient_charts, patient_controls, patient_data, run_picker
from pages.parts.numbers import csv_button, numbers
from pages.parts.patient_data import A_PAGE, Choice
from pages.parts.patient_how import HOW
from pages.parts.shell import workspace

ALL = "all"
CHANCE = 0.05
NO_CODES = (
    "These notes came without ICD codes, so nobody's diseases are rarer than another's: all patients stand in one "
    "bucket. Bring the notes again with a table of identifiers that has a column `icd_codes`, or as a folder of "
    "MIMIC-III, to compare rare and common diseases."
)


def buckets_view(choice: Choice, beside: str, runs: Sequence[Run]) -> int | None:
    """The picture with its sentence and its table; returns the chosen bucket (None: all of them)."""
    table = patient_data.bucket_table(choice)
    kept = table[table["kept"]]
    drawn = kept["value"].notna().any()
    options = [ALL, *(str(bucket + 1) for bucket in table["bucket"])]
    selected = st.session_state.get("bucket") or st.query_params.get("bucket", ALL)
    bucket = int(selected) - 1 if selected in options[1:] else None
    if not patient_data.has_codes(choice.run):
        st.info(NO_CODES, icon=":material/label_off:")
    elif drawn:
        st.markdown(f"### {sentence(choice, rank_correlation(kept['log_probability'], kept['value']))}")
    else:
        st.info(_why_empty(choice, table), icon=":material/group_off:")
    st.caption(spread(table, patient_data.buckets_of(choice.run, choice.level), choice))
    if drawn and beside == patient_controls.BESIDE[0]:
        _one_run(choice, table, bucket)
    elif drawn:
        _several(choice, beside, runs)
    with st.expander("How is this computed?"):
        st.markdown(HOW)
    picked = st.selectbox(
        "Bucket (1 = rarest profiles)", options, key="bucket", bind="query-params",
        help="Click a bar, or choose here.", width=300,
    )  # fmt: skip
    return None if picked in (ALL, None) else int(picked) - 1


def sentence(choice: Choice, found: RankCorrelation) -> str:
    """What the rank correlation says, in one sentence."""
    what = "leakage" if choice.measure == "privacy leakage" else "the score percentile"
    if math.isnan(found.rho):
        return f"Too few buckets ({found.points}) to tell whether rarity and {what} go together."
    figures = f"Spearman's ρ = {found.rho:+.2f}, {p_value_text(found.p_value)}, {found.points} buckets"
    if found.p_value >= CHANCE:
        return f"No link between rarity and {what} can be told from chance ({figures})."
    direction = "more" if found.rho < 0 else "less"
    return f"Rarer profiles leak {direction} here ({figures})."


def spread(table: pd.DataFrame, count: int, choice: Choice) -> str:
    """How many buckets there are, and who was dropped."""
    dropped = table[~table["kept"]]
    empty = count - len(table)
    only = patient_controls.told(choice.filters)
    full = int(table["kept"].sum())
    parts = [
        f"{count} equal range{'s' * (count != 1)} of log probability: {full} hold{'s' * (full == 1)} {LEAST_PATIENTS} "
        "patients or more"
    ]
    if len(dropped):
        parts.append(
            f"{len(dropped)} with fewer are dropped ({int(dropped['patients'].sum()):,} patients; they are in the list)"
        )
    if empty:
        parts.append(f"{empty} hold{'s' * (empty == 1)} nobody")
    return "; ".join(parts) + "." + (f" Only patients with {only}." if only else "")


def _why_empty(choice: Choice, table: pd.DataFrame) -> str:
    if table.empty and choice.level == "admission" and not patient_controls.told(choice.filters):
        return (
            "The notes of this cohort do not name their patients' codes, so admissions have no profile: judge patients."
        )
    if table.empty:
        return "Nobody passes these filters. Clear one of them to see patients again."
    if not table["kept"].any():
        return f"No bucket holds {LEAST_PATIENTS} patients: widen the filters. The list below has everybody who passes."
    return (
        "Leakage compares members with held-out patients, and the filters leave one of the two groups empty in every "
        "bucket. Choose the figure “score percentile” in the sidebar, or widen the filters."
    )


def _one_run(choice: Choice, table: pd.DataFrame, bucket: int | None) -> None:
    key = f"bars-{choice.run.id}-{choice.attack}-{choice.level}-{choice.measure}-{hash(choice.filters)}"

    def clicked() -> None:
        points = st.session_state[key].selection.points
        if points and points[0].get("x") is not None:
            st.session_state["bucket"] = str(int(points[0]["x"]))

    base = workspace().find(choice.run.spec.base_spec())
    control = None
    if base is not None and base.id != choice.run.id and choice.attack in patient_data.attacks(base):
        control = patient_data.bucket_table(replace(choice, run=base))
    figure = patient_charts.bars(table, control, choice.measure, bucket)
    alt = f"{choice.measure} in {int(table['kept'].sum())} buckets from rarest to most common disease profiles."
    charts.show(figure, key=key, alt=alt, on_select=clicked)
    st.caption(
        f"{run_picker.label(choice.run)}, attack “{choice.attack}”. Bars with 95\u00a0% intervals over patients: "
        "click one to see its patients."
    )
    numbers(table.assign(bucket=table["bucket"] + 1), name="patients-buckets")


def _several(choice: Choice, beside: str, runs: Sequence[Run]) -> None:
    others, left = side_by_side(choice, beside, runs)
    found = {name: patient_data.bucket_table(one) for name, (one, _) in others.items()}
    colours = {name: colour for name, (_, colour) in others.items() if colour}
    alt = f"{choice.measure} by rarity for {len(found)}: {', '.join(found)}."
    charts.show(patient_charts.lines(found, choice.measure, colours), key="lines", alt=alt)
    st.dataframe(
        comparison(found, "attack" if beside == OTHER_ATTACKS else "run"), hide_index=True, alt=alt,
        column_config={
            name: st.column_config.NumberColumn(format=form) for name, form in (("ρ", "%+.2f"), ("p", "%.4f"),
            ("caught", "percent"), ("accused", "percent"), ("leakage", "%.3f"))
        },
    )  # fmt: skip
    told = "ρ below 0: rarer profiles leak more. Of many rows, some have a small p by chance."
    if left:
        told += f" {left} more have not had the attack “{choice.attack}”: `python -m core audit RUN --suite full`"
    st.caption(told)
    rows = pd.concat([one.assign(line=name, bucket=one["bucket"] + 1) for name, one in found.items()])
    numbers(rows, name="patients-beside")


OTHER_ATTACKS = "other attacks"


def side_by_side(choice: Choice, beside: str, runs: Sequence[Run]) -> tuple[dict[str, tuple[Choice, str | None]], int]:
    """What stands beside a choice, by name, each with the colour it has on every page; and how many lack the attack."""
    if beside == OTHER_ATTACKS:
        return {name: (replace(choice, attack=name), None) for name in patient_data.attacks(choice.run)}, 0
    if beside == "other models":
        chosen = patient_data.other_models(choice.run, runs)
        named = {run.id: (charts.MODEL_NAMES[run.spec.model.kind], charts.MODEL_COLOURS[run.spec.model.kind])
                 for run in chosen}  # fmt: skip
    else:
        chosen = patient_data.other_epsilons(choice.run, runs)
        named = {run.id: (run_picker.privacy_label(run), _end_colour(run)) for run in chosen}
    having = [run for run in chosen if choice.attack in patient_data.attacks(run)]
    found = {named[run.id][0]: (replace(choice, run=run), named[run.id][1]) for run in having}
    return found, len(chosen) - len(having)


def _end_colour(run: Run) -> str | None:
    """The public model and the one without privacy look alike on every page; those between have no colour yet."""
    if run.spec.is_base:
        return charts.CONTROL
    return None if run.spec.privacy.private else charts.RISK


def _overall(rates: pd.Series, units: pd.Series) -> float:
    """The rate over all units of several buckets; NaN without units."""
    return float((rates * units).sum() / units.sum()) if units.sum() else math.nan


def comparison(found: Mapping[str, pd.DataFrame], what: str = "run") -> pd.DataFrame:
    """One row a run: its rates over all units of the kept buckets, and the rank correlation."""
    rows = []
    for name, table in found.items():
        kept = table[table["kept"]]
        rank = rank_correlation(kept["log_probability"], kept["value"])
        tpr, fpr = (
            _overall(kept[rate], kept[units]) for rate, units in (("tpr", "member_units"), ("fpr", "heldout_units"))
        )
        rows.append((name, tpr, fpr, tpr - fpr, rank.rho, rank.p_value, rank.points))
    return pd.DataFrame(rows, columns=[what, "caught", "accused", "leakage", "ρ", "p", "buckets"])


# Patients ------------------------------------------------------------------------------------------------------------


def patients_view(choice: Choice, bucket: int | None) -> None:
    """The patients of the bucket, the likeliest members first; a click on a row opens the patient."""
    where = "all buckets" if bucket is None else f"bucket {bucket + 1}"
    state = f"{choice.run.id}-{choice.attack}-{choice.level}-{hash(choice.filters)}-{bucket}"
    page = st.session_state.get(f"page-{state}") or 1
    found = patient_data.patients(choice, bucket, page=page)
    if found.empty:
        st.info(f"Nobody in {where} passes the filters.", icon=":material/filter_alt_off:")
        return
    total, key = int(found["total"].iloc[0]), f"patients-{state}-{page}"

    def clicked() -> None:
        rows = st.session_state[key].selection.rows
        if rows:
            st.session_state["patient"] = found["patient_id"].iloc[rows[0]]

    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"**{total:,} patients** of {where}, the likeliest members first", width="content")
        if total > A_PAGE:
            st.pagination(math.ceil(total / A_PAGE), key=f"page-{state}")
    st.dataframe(
        shown(found, choice.run), hide_index=True, key=key, on_select=clicked, selection_mode="single-row",
        height="content", alt=f"{total} patients of {where}", column_config=_columns(),
    )  # fmt: skip
    csv_button(lambda: for_csv(patient_data.patients(choice, bucket)), name=f"patients-{where.replace(' ', '-')}")


def shown(found: pd.DataFrame, run: Run) -> pd.DataFrame:
    """The rows as the table on the page has them."""
    words = patient_data.wordings(run)
    return pd.DataFrame(
        {
            "patient": found["patient_id"],
            "group": found["split"].map({"member": "member", "heldout": "held out"}),
            "rarer than": 1 - found["percentile_rarity"],
            "notes": found["notes"],
            "score percentile": found["percentile"],
            "caught by": [
                f"{c} of {n} attacks" if n != 1 else f"{c} of 1 attack"
                for c, n in zip(found["catching"], found["attacks"], strict=True)
            ],
            "extracted": [fields(one) for one in found["fields"]],
            "texts": found["texts"],
            "profile": [
                ", ".join(f"{code} {words.get(code, '')}".strip() for code in codes) for codes in found["icd_codes"]
            ],
        }
    )


def _columns() -> dict:
    number = st.column_config.NumberColumn
    return {
        "rarer than": number("rarer than", format="percent", help="Share of patients whose profile is more common."),
        "score percentile": number(format="percent", help="Share of held-out patients who score less."),
        "caught by": st.column_config.TextColumn(help="Attacks that call this patient a member, at their thresholds."),
        "extracted": st.column_config.TextColumn(help="Fields that prompts made the model write."),
        "texts": number(help="Generated texts with a value of this patient."),
        "profile": st.column_config.TextColumn(width="large"),
    }


def fields(names: object) -> str:
    """Labels of PHI fields, or nothing."""
    return (
        ", ".join(FIELD[name].label for name in names)
        if isinstance(names, (list, tuple)) or hasattr(names, "tolist")
        else ""
    )


def for_csv(found: pd.DataFrame) -> pd.DataFrame:
    """The rows as a file has them: every column, lists joined."""
    joined = found.drop(columns="total").assign(
        icd_codes=found["icd_codes"].map(" ".join), fields=found["fields"].map(fields)
    )
    return joined


def percentile(value: float) -> str:
    """A percentile in words."""
    return "–" if value is None or math.isnan(value) else percent(value)
