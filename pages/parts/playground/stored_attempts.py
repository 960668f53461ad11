"""What a run's stored audit wrote for a prompt, attempt by attempt, with its PHI marked."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from core.runs.figures_only import examples
from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.session import resources


@dataclass(frozen=True)
class Mark:
    """A stored hit, as `phi_text.leaks_html` draws it."""

    start: int
    end: int
    field: str
    kind: str
    patient_ids: tuple[str, ...]


@resources.cached_object(max_entries=400, show_spinner=False)
def of_prompt(
    root: str, run_id: str, prompt: int, _run: Run
) -> tuple[pd.DataFrame | None, dict[int, tuple[Mark, ...]]]:
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
