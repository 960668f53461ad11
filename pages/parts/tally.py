"""Counts with their controls: what leaked in this session, and what the stored audit of the same run says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from core.evaluation.statistics import proportion_interval
from core.phi.fields import DIRECT, FIELD
from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.side_by_side import Answer, patients

MOST_CHIPS = 12


def percent(share: float) -> str:
    """A share in words that keep small ones apart from none: `0 %`, `0.07 %`, `3.2 %`, `38 %`."""
    value = 100 * share
    digits = 0 if value == 0 or value >= 9.95 else 1 if value >= 0.95 else 2
    return f"{value:.{digits}f} %"


def counted(hits: int, tries: int) -> str:
    """`3 of 8 (38 %, 95 % interval 14 % to 69 %)`: Wilson's interval."""
    low, high = proportion_interval(hits, tries)
    return f"{hits} of {tries} ({percent(hits / tries)}, 95 % interval {percent(low)} to {percent(high)})"


def session(answers: Sequence[Answer]) -> None:
    """What one model did in this session: samples with a leak, and the same count for patients it never saw."""
    samples = sum(len(answer.texts) for answer in answers)
    if not samples:
        return
    leaks = sum(answer.samples_with_leak for answer in answers)
    chance = sum(answer.samples_with_control for answer in answers)
    st.markdown(
        f"**This session:** samples with a leak **{counted(leaks, samples)}**  \n"
        f"Control, identifiers of held-out patients only: {counted(chance, samples)}"
    )


def audit(run: Run) -> None:
    """The stored audit of the run: the share of attempts with a leak, beside its two controls."""
    try:
        metrics = run.metrics
    except TableMissing as error:
        st.caption(str(error))
        return
    rows = metrics[metrics["metric"] == "attempts_with_leak"].set_index("arm")
    if "run" not in rows.index:
        return
    row = rows.loc["run"]
    told = f"**Audit, {int(row['n']):,} samples:** {percent(row['value'])} with a leak"
    if row["low"] == row["low"]:
        told += f" (95 % interval {percent(row['low'])} to {percent(row['high'])})"
    controls = [
        f"{name} {percent(rows.loc[arm, 'value'])}"
        for arm, name in (("heldout", "held-out patients"), ("base", "public model"))
        if arm in rows.index
    ]
    st.markdown(told + (f"  \nControls: {', '.join(controls)}" if controls else ""))


def who_leaked(answers: Sequence[Answer], run: Run, *, key: str) -> None:
    """A chip for every patient whose identifier was written in this session; it opens their card."""
    leaked: Counter[str] = sum((answer.leaked for answer in answers), Counter())
    if not leaked:
        return
    st.markdown(f"**Who leaked:** {len(leaked)} patient{'s' * (len(leaked) > 1)}")
    with st.container(horizontal=True, gap="small"):
        for patient_id, times in leaked.most_common(MOST_CHIPS):
            with st.popover(f"{patient_id} ×{times}", key=f"{key}-{patient_id}"):
                _card(patient_id, answers, run)
    if len(leaked) > MOST_CHIPS:
        st.caption(f"and {len(leaked) - MOST_CHIPS} more")


def _card(patient_id: str, answers: Sequence[Answer], run: Run) -> None:
    """What the model wrote of one patient, beside their record."""
    written = {
        span.field
        for answer in answers
        for spans in answer.spans
        for span in spans
        if patient_id in span.patient_ids and span.kind in ("leak", "linked leak")
    }
    record = patients(run.spec.corpus)
    if patient_id not in record.index:
        return
    row = record.loc[patient_id]
    lines = [
        f"- {'**' if name in written else ''}{FIELD[name].label}: {_plain(row[name])}"
        f"{'** :red-badge[written]' if name in written else ''}"
        for name in (*DIRECT, "diagnosis", "medication")
        if isinstance(row[name], str)
    ]
    st.markdown(f"**Patient {patient_id}** (synthetic, {row['split']})\n" + "\n".join(lines))


def _plain(text: str) -> str:
    """Record values in Markdown, taken literally."""
    return "".join(f"\\{character}" if character in "\\`*_{}[]()<>#+-.!|~:$" else character for character in text)
