"""The same prompt at every ε: one stored attempt of the run at the slider, beside the same attempt of its controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from core.attacks.prompts import PROMPTS
from core.evaluation.sweep import beside
from core.evaluation.wording import interval_text, percent
from core.runs.figures_only import examples
from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.common import phi_text
from pages.parts.common.query_params import KEEP
from pages.parts.session import owner, resources
from pages.parts.tradeoff.charts import epsilon_label
from pages.parts.tradeoff.models import Models

NOT_KEPT = "This run keeps its figures only: its texts were not stored."


@dataclass(frozen=True)
class Mark:
    """A stored hit, as `phi_text.leaks_html` draws it."""

    start: int
    end: int
    field: str
    kind: str
    patient_ids: tuple[str, ...]


def show(models: Sequence[tuple[str, Run | None]]) -> None:
    """Draw the prompt and attempt pickers, and the stored text of each model side by side.

    Args:
        models: each model's heading, and the run whose text is shown; None if it was not trained.
    """
    prompt, attempt = _choose([run for _, run in models if run is not None])
    for column, (heading, run) in zip(st.columns(len(models), gap="medium"), models, strict=True):
        with column, st.container(gap="xxsmall"):
            st.markdown(f"**{heading}**")
            _text(run, prompt, attempt)


def shown_at(epsilon: float, models: Models) -> list[tuple[str, Run | None]]:
    """What stands side by side at ε: the public base, the private run, its control without noise, the unconstrained.

    All are of one seed, the first one that the private runs (at ∞: the plain runs) have.
    """
    private, noiseless, plain, base = models
    shown: list[tuple[str, Run | None]] = [(beside.BASE.capitalize(), base)]
    chosen = min(private, key=_seed, default=None)
    if private:
        shown.append((f"ε = {epsilon_label(epsilon)}", chosen))
    same = [run for run in noiseless if chosen is not None and _seed(run) == _seed(chosen)]
    if same:
        shown.append((beside.NOISELESS.capitalize(), same[0]))
    same = [run for run in plain if chosen is not None and _seed(run) == _seed(chosen)] or sorted(plain, key=_seed)
    shown.append(("Unconstrained: no privacy", same[0] if same else None))
    return shown


def _seed(run: Run) -> int:
    return run.spec.training.seed


def _choose(runs: Sequence[Run]) -> tuple[int, int]:
    """The number of the prompt and of the attempt, in one line. A run with figures only keeps fewer attempts."""
    with st.container(horizontal=True, vertical_alignment="center", key="same-prompt"):
        st.markdown("**The same prompt at every ε**", width="content")
        texts = {prompt.text: prompt.prompt_id for prompt in PROMPTS}
        chosen = st.selectbox("Prompt", list(texts), key="prompt", label_visibility="collapsed", width=270, **KEEP)
        attempt = st.number_input("Attempt", 1, 10_000, key="attempt", label_visibility="collapsed", width=130, **KEEP)
        root = str(owner.workspace().root)
        kept = [0 if (rows := _stored(root, run.id, texts[chosen], run)[0]) is None else len(rows) for run in runs]
        st.markdown(f"attempt of {max(kept, default=0):,}", width="content")
    return texts[chosen], int(attempt)


def _text(run: Run | None, prompt: int, attempt: int) -> None:
    if run is None:
        st.caption("Not trained here.")
        return
    rows, marks = _stored(str(owner.workspace().root), run.id, prompt, run)
    if rows is None:
        st.caption(NOT_KEPT)
        return
    if attempt > len(rows):
        st.caption(f"This run keeps {len(rows):,} attempts of this prompt.")
        return
    row = rows.iloc[attempt - 1]
    st.html(phi_text.leaks_html(row["text"], marks.get(int(row["generation_id"]), ()), prompt=row["prompt"]))
    said = leaking_texts(run)
    if said:
        st.caption(said)


@resources.cached_object(max_entries=400, show_spinner=False)
def _stored(root: str, run_id: str, prompt: int, _run: Run) -> tuple[pd.DataFrame | None, dict[int, tuple[Mark, ...]]]:
    """A run's stored attempts for a prompt, in their order, and the marks of each; None if it keeps no texts."""
    texts, hits = texts_of(_run)
    if texts.empty:
        return None, {}
    rows = texts[texts["prompt_id"] == prompt].sort_values("generation_id").reset_index(drop=True)
    found = hits[(hits["rule"] == "value") & hits["generation_id"].isin(rows["generation_id"])]
    marks: dict[int, list[Mark]] = {}
    for (text, start, end, field, kind), group in found.groupby(["generation_id", "start", "end", "field", "kind"]):
        patients = tuple(group["patient_id"].dropna().unique())
        marks.setdefault(int(text), []).append(Mark(int(start), int(end), str(field), str(kind), patients))
    return rows, {text: tuple(one) for text, one in marks.items()}


def texts_of(run: Run) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A run's stored texts and the hits in them; of a run with figures only its examples. Empty if it keeps none."""
    try:
        return run.table("generations"), run.table("hits")
    except TableMissing:
        pass
    try:
        return examples(run)
    except TableMissing:
        return pd.DataFrame(columns=["generation_id", "prompt_id", "prompt", "text"]), pd.DataFrame()


def leaking_texts(run: Run) -> str:
    """How many of the run's stored texts hold a direct identifier of a member, beside the held-out control."""
    rows = run.metrics
    rows = rows[(rows["metric"] == "attempts_with_leak") & rows["value"].notna()].set_index("arm")
    if "run" not in rows.index:
        return ""
    now = rows.loc["run"]
    control = f"; held-out control {percent(rows.loc['heldout', 'value'])}" if "heldout" in rows.index else ""
    limits = interval_text(now["low"], now["high"])
    leaks, of = round(now["value"] * now["n"]), int(now["n"])
    return f"{leaks:,} of {of:,} texts leak an identifier: {percent(now['value'])} ({limits}{control})."
