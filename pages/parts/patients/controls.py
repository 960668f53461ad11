"""The knobs of the Patients page: run, attack, unit, comparison, filters, bucket; all of them are in the link."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.phi.fields import FIELD, FIELDS
from core.runs.patients.disease_profiles import Level
from core.runs.patients.queries import Filters
from core.runs.run import Run
from pages.parts.common.query_params import KEEP, kept_unless_real
from pages.parts.patients import data
from pages.parts.patients.data import Choice
from pages.parts.pickers import run_picker

BESIDE = ("this run only", "other ε", "other models", "other attacks")
ANY = "any"
ALL = "all"
ATTACK = (
    "“ratio base” compares the model with the public model, so that notes that are easy for any model do not look like "
    "training notes; “loss” does not correct for this. An attack that scores few patients, or gets nearly all of them "
    "right, cannot show a trend."
)


def choose(runs: Sequence[Run]) -> tuple[Choice, str]:
    """Draw the knobs. Returns the choice, and what the run is compared with (one of BESIDE)."""
    keep = KEEP
    run = run_picker.pick("Model", runs, run_picker.own(runs) or run_picker.default_pair(runs)[0], key="run")
    attacks = list(data.attacks(run))
    attack = st.selectbox("Attack", attacks, _able(run, attacks), key="attack", help=ATTACK, **keep)
    levels: list[Level] = ["patient", "admission"]
    level = st.segmented_control("Evaluate by", levels, default="patient", required=True, key="judge", **keep)
    beside = st.segmented_control("Compare", list(BESIDE), default=BESIDE[0], required=True, key="beside", **keep)
    with st.popover("Only patients with …", icon=":material/filter_alt:", width="stretch"):
        filters = _filters(run)
    return Choice(run, attack, level, filters), beside


def _able(run: Run, attacks: Sequence[str]) -> int:
    """The place of the first attack that can answer the page's question; 0 if none can.

    Whether an attack can answer depends on how many patients it scored and on its AUC over all of them
    (`core.evaluation.rarity.trend`), not on what it would answer.
    """
    if not attacks or not data.has_codes(run):
        return 0
    found = data.trends(Choice(run, attacks[0], "patient", Filters()))
    return next((at for at, name in enumerate(attacks) if name in found and not found[name].obstacle), 0)


def choose_bucket(choice: Choice) -> int | None:
    """The bucket whose patients are listed, from 0; None for all of them."""
    options = [ALL, *(str(bucket + 1) for bucket in data.bucket_table(choice)["bucket"])]
    picked = st.selectbox(
        "Bucket (1 = rarest profiles)", options, key="bucket", bind="query-params", help="Click a bar, or choose here."
    )
    return None if picked in (ALL, None) else int(picked) - 1


def _filters(run: Run) -> Filters:
    keep, typed = KEEP, kept_unless_real(run.spec.corpus)
    code = st.text_input("an ICD code starting with", key="code", placeholder="E11", max_chars=10, **typed)
    written = st.selectbox(
        "a field extracted by prompts", [ANY, *(field.name for field in FIELDS)], key="field", **keep
    )
    left, right = st.columns(2)
    # Any number filters. With a range, the browser would keep one outside it back, above the patients before.
    youngest = left.number_input("age from", value=None, step=1, key="age_from", placeholder="any", **typed)
    oldest = right.number_input("age to", value=None, step=1, key="age_to", placeholder="any", **typed)
    least = left.number_input("notes from", value=None, step=1, key="notes_from", placeholder="any", **keep)
    most = right.number_input("notes to", value=None, step=1, key="notes_to", placeholder="any", **keep)
    return Filters(code.strip(), youngest, oldest, least, most, "" if written == ANY else written)


def without_codes_text(choice: Choice) -> str:
    """A sentence about patients without a code, for a caption; empty if there are none, or if they have no bucket."""
    bare, patients = data.without_codes(choice.run)
    if choice.level != "patient" or not 0 < bare < patients:
        return ""
    return (
        f" No ICD code is known for {bare:,} of the cohort's {patients:,} patients. Here they count as patients "
        "without any of these diseases."
    )


def filters_text(filters: Filters) -> str:
    """The filters in words, for a caption; empty if none is set."""
    parts = []
    if filters.code:
        parts.append(f"an ICD code starting with {filters.code.upper()}")
    if filters.field:
        parts.append(f"an extracted {FIELD[filters.field].label}")
    for low, high, what in (
        (filters.youngest, filters.oldest, "years of age"),
        (filters.least_notes, filters.most_notes, "scored notes"),
    ):
        if low is not None or high is not None:
            span = (
                f"{low} to {high}"
                if None not in (low, high)
                else f"at least {low}"
                if high is None
                else f"up to {high}"
            )
            parts.append(f"{span} {what}")
    return ", ".join(parts)
