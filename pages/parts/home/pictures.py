"""Three small pictures that show what this app is about, drawn in HTML so that they follow the theme."""

from __future__ import annotations

import html
import math

from core.evaluation.wording import interval_text
from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.pickers.run_picker import metrics
from pages.parts.playground.leak_counts import share_html


def training(patients: int | None) -> str:
    """Picture 1: notes go into a model. `patients` is how many patients it was trained on, if known."""
    trained_on = f"the notes of {patients:,} patients" if patients else "patients' notes"
    sheets = "".join('<i class="pic-sheet"><u></u><u></u><u></u></i>' for _ in range(3))
    return _picture(
        f'<span class="pic-row">{sheets}<b class="pic-arrow">→</b><b class="pic-model">model</b></span>',
        "1. A model is trained on notes",
        f"A language model is trained on {trained_on}, to write clinical notes.",
    )


def named(title: str, run: Run | None, style: str, sentence: str) -> str:
    """Pictures 2 and 3: a hundred patients. Filled in are those whose full name the model wrote in its audit.

    Where that was not measured, no patients are drawn: a hundred empty dots would say that it named nobody.
    """
    figures = _patients_named(run) if run else {}
    if "run" not in figures:
        unknown = " Whose names it wrote was not measured." if run else ""
        drawn = "names not measured" if run else "no such model yet"
        return _picture(f'<span class="pic-unknown">{drawn}</span>', title, f"{sentence}{unknown}")
    share, low, high = figures["run"]
    control = f"; {_never_saw(*figures['heldout'])}" if "heldout" in figures else ""
    found = f"In the audit of this one run, it wrote the full names of <b>{share_html(share)}</b> of its patients "
    found += f"({html.escape(interval_text(low, high))}{control})."
    return _picture(_people(_of_100(share), style), title, f"{sentence} {found}")


def _never_saw(share: float, low: float, high: float) -> str:
    """The control in brackets, with the ends of its 95 % interval if there is one."""
    ends = "" if math.isnan(low) or math.isnan(high) else f", {share_html(low)} to {share_html(high)}"
    return f"patients it never saw: {share_html(share)}{ends}"


def _of_100(share: float) -> int:
    """Rounded, but none and all only where it is none and all."""
    return round(share * 100) if share in (0.0, 1.0) else min(99, max(1, round(100 * share)))


def _patients_named(run: Run) -> dict[str, tuple[float, float, float]]:
    """The share of patients named, with its interval, by arm (`run`, `heldout`, `base`); empty if the run has none."""
    try:
        rows = metrics(run)
    except TableMissing:
        return {}
    rows = rows[(rows["metric"] == "full_name_patients") & rows["value"].notna()]
    return dict(zip(rows["arm"], zip(rows["value"], rows["low"], rows["high"], strict=True), strict=True))


def patients_of(run: Run) -> int | None:
    """The number of patients the run was trained on, from its metrics; None if they do not have it.

    Of imported notes they count only those patients whose name is known.
    """
    if run.spec.corpus.imported is not None:
        return None
    try:
        rows = metrics(run)
    except TableMissing:
        return None
    rows = rows[(rows["metric"] == "full_name_patients") & (rows["arm"] == "run") & rows["n"].notna()]
    return int(rows["n"].iloc[0]) if len(rows) else None


def _people(filled: int, style: str) -> str:
    dots = "".join(f'<i class="{style if number < filled else ""}"></i>' for number in range(100))
    return f'<span class="pic-people" role="img" aria-label="{filled} of 100 patients named">{dots}</span>'


def _picture(drawing: str, title: str, sentence: str) -> str:
    return f'<figure class="pic">{drawing}<figcaption><b>{title}</b><br>{sentence}</figcaption></figure>'
