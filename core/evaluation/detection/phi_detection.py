"""How much PHI a detector finds, and how much of what it finds is PHI, measured on text with known PHI.

A labelled identifier is *recalled* when all of its letters and digits lie in found places (a scrubber would leave
nothing of it), whatever field was named. A found place is *right* when it overlaps a labelled identifier.

    recall = recalled / labelled        precision = right / found

Both are shares of identifiers, with Wilson intervals. Recall is by the field of the label, precision by the field that
the finder named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

import core.phi
from core.corpus.synthetic.hospital import build
from core.evaluation.stats.intervals import proportion_interval
from core.phi.detector.engine import Detector, shapes
from core.phi.fields import DIRECT
from core.spec import CorpusSpec

LABELLED = Path(core.phi.__file__).parent / "shaped_labelled.txt"
ALL = "all"
COLUMNS = {
    "field": "str",
    "labelled": "int64",
    "recalled": "int64",
    "recall": "float64",
    "recall_low": "float64",
    "recall_high": "float64",
    "found": "int64",
    "right": "int64",
    "precision": "float64",
    "precision_low": "float64",
    "precision_high": "float64",
}
_MARK = re.compile(r"\[\[([a-z_]+)\|(.*?)\]\]")
Label = tuple[int, int, str]  # start, end, field


def labelled_lines() -> list[tuple[str, list[Label]]]:
    """The hand-labelled set: every line without its marks, and where the marks were."""
    lines = LABELLED.read_text(encoding="utf-8").splitlines()
    return [unmarked(line) for line in lines if line and not line.startswith("#")]


def unmarked(line: str) -> tuple[str, list[Label]]:
    """`Pt [[full_name|Ada Byron]]` → (`Pt Ada Byron`, [(3, 12, "full_name")])."""
    text, labels, at = "", [], 0
    for mark in _MARK.finditer(line):
        text += line[at : mark.start()]
        labels.append((len(text), len(text) + len(mark.group(2)), mark.group(1)))
        text += mark.group(2)
        at = mark.end()
    return text + line[at:], labels


def measured(
    texts: Iterable[tuple[str, Sequence[Label]]], detector: Detector | None = None, *, ignored: Sequence[str] = ()
) -> pd.DataFrame:
    """Recall and precision by field, `all` first, with the columns of `COLUMNS`; NaN where there is nothing to count.

    Args:
        texts: each with its labels. A label with an empty field is neutral: it counts neither as missed nor, if found
            alone, as a false find.
        detector: what searches; None: the shapes.
        ignored: fields whose found places do not count for precision, since the labels do not cover them.
    """
    detector = detector or shapes()
    return judged(((text, known, detector.find(text)) for text, known in texts), ignored=ignored)


def judged(
    texts: Iterable[tuple[str, Sequence[Label], Sequence[Label]]], *, ignored: Sequence[str] = ()
) -> pd.DataFrame:
    """`measured`, of texts with their labels and with the places that were found in them."""
    labels: list[tuple[str, bool]] = []
    finds: list[tuple[str, bool]] = []
    for text, known, places in texts:
        covered = {at for start, end, _ in places for at in range(start, end)}
        for start, end, field in known:
            letters = (at for at in range(start, end) if text[at].isalnum())
            if field:
                labels.append((field, all(at in covered for at in letters)))
        for start, end, field in places:
            hit = [label for first, last, label in known if start < last and first < end]
            if field not in ignored and (not hit or any(hit)):
                finds.append((field, bool(hit)))
    fields = [ALL, *sorted({field for field, _ in [*labels, *finds]})]
    rows = [(field, *_share(labels, field), *_share(finds, field)) for field in fields]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _share(judged: list[tuple[str, bool]], field: str) -> tuple[int, int, float, float, float]:
    mine = [good for name, good in judged if field in (ALL, name)]
    if not mine:
        return 0, 0, float("nan"), float("nan"), float("nan")
    return len(mine), sum(mine), sum(mine) / len(mine), *proportion_interval(sum(mine), len(mine))


@cache
def on_labelled_set(detector: Detector | None = None) -> pd.DataFrame:
    """`measured` on the hand-labelled set. The table is cached: do not modify it."""
    return measured(labelled_lines(), detector)


@cache
def on_hospital(spec: CorpusSpec, detector: Detector | None = None) -> pd.DataFrame:
    """`measured` on the direct identifiers of a synthetic hospital's notes, whose positions are exact.

    Its labels do not mark ages, so found ages are left out. Its names come from the same lists that the search uses:
    recall of names is higher here than on real notes. The table is cached: do not modify it.
    """
    notes = build(spec).notes
    texts = (
        (text, [(span["start"], span["end"], span["field"]) for span in spans if span["field"] in DIRECT])
        for text, spans in zip(notes["text"], notes["phi_spans"], strict=True)
    )
    return measured(texts, detector, ignored=("age",))
