"""Counts with their controls: the leaks of this session, and those of the same run's stored audit."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.attacks.memorisation.own_values import Shared
from core.corpus.tables import LEFT_OUT
from core.evaluation.wording import NBSP, percent, shared_values_sentence
from core.phi.fields import DIRECT, FIELD
from core.runs.run import Run
from core.runs.tables import TableMissing
from core.spec import RunSpec
from pages.parts.common.phi_text import literal, visible
from pages.parts.patients import to_card
from pages.parts.pickers import run_picker
from pages.parts.playground.side_by_side import Answer, Try, text_key
from pages.parts.playground.why import ask
from pages.parts.session import classroom, owner, resources
from pages.parts.session.room_values import Tries

if TYPE_CHECKING:
    from core.evaluation.summary import Row as MetricRow

MOST_CHIPS = 12
NOBODY = "Leaks are not counted: no direct identifier of this model's patients is known."
WRITTEN = ' <mark class="phi phi-leak"><b>written</b></mark>'


def share_html(share: float) -> str:
    """A share as HTML."""
    return html.escape(percent(share))


def _interval(low: float, high: float) -> str:
    """A 95 % interval of a share; empty if there is none."""
    return f" ({share_html(low).removesuffix(NBSP + '%')} to {share_html(high)})" if low == low and high == high else ""


def counts(answers: Sequence[Answer], run: Run) -> None:
    """Samples with a leak, in this session and in the run's stored audit, each next to its controls."""
    members = int((_splits(run.spec) == "member").sum())
    if not members and answers:
        st.caption(NOBODY)
        return
    rows = [row for row in (_session(answers, run), _audit(run)) if row]
    if rows:
        titles = {
            "leaks": "samples in which the model wrote an identifier of a patient it was trained on",
            "share": "share of the samples, with its 95\u00a0% interval",
            "controls": "the same share by chance. Held-out patients: what is hit by chance in this hospital, scaled "
            f"to {members:,} patients. Public model: what was written before training on any of these notes",
        }
        head = "".join(f'<th><abbr title="{title}">{short}</abbr></th>' for short, title in titles.items())
        body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
        st.html(f'<table class="tally"><tr><td></td>{head}</tr>{body}</table>')
        if told := shared_values_sentence(_shared(run.spec)):
            st.caption(told)


def counted(answers: Sequence[Answer], splits: pd.Series, shared: Shared = frozenset()) -> Tries:
    """The number of samples, and of those with a direct identifier of a member and of a held-out patient.

    Args:
        answers: What the model wrote.
        splits: Each patient's split by id.
        shared: The values that several patients have, which do not count (`core.attacks.memorisation.own_values`).
    """
    samples = [spans for answer in answers for spans in answer.spans]
    hit = [
        {
            splits[patient_id]
            for span in spans
            if span.field in DIRECT
            for patient_id in span.patient_ids
            if (patient_id, span.field) not in shared
        }
        for spans in samples
    ]
    return Tries(len(samples), sum("member" in found for found in hit), sum("heldout" in found for found in hit))


def rates(tries: Tries, splits: pd.Series) -> dict[str, MetricRow]:
    """The metric `attempts_with_leak` of these counts, computed as in a stored audit.

    Args:
        tries: What was `counted`.
        splits: Each patient's split by id.

    Returns:
        The rows `run`, `heldout` (scaled to the number of members) and `raw` (held out, not scaled); none of an arm
        without patients.
    """
    from core.evaluation.summary import attempts_with_leak  # imports torch and scipy: seconds, not at first paint

    hits = [(number, "member") for number in range(tries.leaks)]
    hits += [(number, "heldout") for number in range(tries.control)]
    pool = {arm: int((splits == split).sum()) for arm, split in (("run", "member"), ("heldout", "heldout"))}
    rows = attempts_with_leak(pd.DataFrame(hits, columns=["generation_id", "split"]), tries.samples, pool)
    return {"raw" if row.metric.endswith("uncorrected") else row.arm: row for row in rows}


def _session(answers: Sequence[Answer], run: Run) -> tuple[str, str, str, str] | None:
    """The row of this session: leaks, and the same count for patients the model never saw."""
    tries = counted(answers, _splits(run.spec), _shared(run.spec))
    return ("this session", *cells(tries, run)) if tries.samples else None


def cells(tries: Tries, run: Run) -> tuple[str, str, str]:
    """Counts (of at least one sample) as HTML: leaks of samples, their share, and the control.

    The run has a member whose identifier can be searched for.
    """
    rows = rates(tries, _splits(run.spec))
    leaks, control = rows["run"], rows.get("heldout")
    share = f"<b>{share_html(leaks.value)}</b>{_interval(leaks.low, leaks.high)}"
    before = " before scaling" if tries.control else ""
    held_out = "none: no held-out patient’s identifier is known"
    if control is not None:
        scaled = f"{share_html(control.value)}{_interval(control.low, control.high)}"
        held_out = f"held-out patients {scaled}, {tries.control} of {tries.samples}{before}"
    return f"<b>{tries.leaks}</b> of {tries.samples}", share, held_out


def add_to_class(attempt: Try, runs: Sequence[Run]) -> None:
    """Count new samples for the class, if this session is in one. Prompts and texts are not kept.

    A sample that someone in the room has had counted is not new. One that was stopped is left for whoever waits for its
    whole text, in which there may be a leak that the part does not have. A model of uploaded notes belongs to their
    owner: not even its id is recorded in the room.
    """
    if classroom.room() is None:
        return
    specs = {run.id: run.spec for run in runs if not run.spec.corpus.imported}
    found = [(key, one) for key, one in attempt.samples() if one.run_id in specs and not one.stopped]
    new = classroom.unseen([key for key, _ in found])
    for (_, sample), is_new in zip(found, new, strict=True):
        if is_new:
            classroom.tried(sample.run_id, counted([sample], _splits(specs[sample.run_id])))


def _splits(spec: RunSpec) -> pd.Series:
    """Each patient's split by id.

    Who was left out of this run is neither a member nor a control, and so is an imported patient without an
    identifier that can be searched for: the run's figures do not count them either.
    """
    splits = resources.known_splits(spec.corpus, owner.workspace())
    return splits if spec.without is None else splits.mask(splits.index.isin(spec.without), LEFT_OUT)


def _shared(spec: RunSpec) -> frozenset[tuple[str, str]]:
    return resources.shared_values(spec.corpus, owner.workspace())


def _audit(run: Run) -> tuple[str, str, str, str] | None:
    """The row of the stored audit: `attempts_with_leak` of the run, of held-out patients and of the public model."""
    try:
        rows = run_picker.metrics(run)
    except TableMissing:
        return None
    rows = rows[rows["metric"] == "attempts_with_leak"].set_index("arm")
    if "run" not in rows.index:
        return None
    row = rows.loc["run"]
    controls = [
        f"{name} {share_html(rows.loc[arm, 'value'])}{_interval(rows.loc[arm, 'low'], rows.loc[arm, 'high'])}"
        for arm, name in (("heldout", "held-out patients"), ("base", "public model"))
        if arm in rows.index and pd.notna(rows.loc[arm, "value"])
    ]
    share = f"{share_html(row['value'])}{_interval(row['low'], row['high'])}"
    leaks = f"{round(row['value'] * row['n']):,} of {int(row['n']):,}"
    return "stored audit", leaks, share, ", ".join(controls) or "none stored"


def who_leaked(answers: Sequence[Answer], run: Run, *, key: str, model: str = "") -> None:
    """A chip for every patient whose identifier the model wrote in this session; it opens their card.

    `model` names the model where the chips are not below its name.
    """
    leaked: Counter[str] = sum((answer.leaked for answer in answers), Counter())
    if not leaked:
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(
            f"**Whose identifiers leaked in this session{f' ({literal(model)})' * bool(model)}:** {len(leaked)} "
            f"patient{'s' * (len(leaked) > 1)}",
            width="content",
        )
        for patient_id, times in leaked.most_common(MOST_CHIPS):
            with st.popover(f"{literal(patient_id)} ×{times}", key=f"{key}-{patient_id}", type="tertiary"):
                _card(patient_id, answers, run, key=f"{key}-{patient_id}")
    if len(leaked) > MOST_CHIPS:
        st.caption(f"and {len(leaked) - MOST_CHIPS} more")


def _card(patient_id: str, answers: Sequence[Answer], run: Run, *, key: str) -> None:
    """The patient's record, with the fields that the model wrote marked, and why it wrote the first of them."""
    written = {
        span.field
        for answer in answers
        for spans in answer.spans
        for span in spans
        if patient_id in span.patient_ids and span.kind in ("leak", "linked leak")
    }
    record = resources.patients(run.spec.corpus, owner.workspace())
    if patient_id not in record.index:
        return
    row = record.loc[patient_id]
    made_up = "synthetic, " if run.spec.corpus.imported is None else ""
    st.markdown(f"**Patient {literal(patient_id)}** ({made_up}{row['split']})")
    lines = [
        f"<li>{html.escape(FIELD[name].label)}: {html.escape(visible(row[name]))}{WRITTEN * (name in written)}</li>"
        for name in (*DIRECT, "diagnosis", "medication")
        if isinstance(row[name], str)
    ]
    st.html(f"<ul>{''.join(lines)}</ul>")  # Markdown would make a link of an e-mail address
    text, start = next(
        (sample, span.start)
        for answer in answers
        for sample, spans in zip(answer.texts, answer.spans, strict=True)
        for span in spans
        if span.kind == "leak" and patient_id in span.patient_ids
    )
    st.button(
        "Why did it leak?",
        icon=":material/troubleshoot:",
        key=f"{key}-why",
        on_click=ask,
        args=(text_key(run.id, text), start),
    )
    to_card.link(run, patient_id, key=f"{key}-card")
