"""Recall and precision of the detectors as `bench detector --write` measured them, for pages that cannot measure.

The labelled texts are not part of this project, so the figures are stored. They are by the detector's name, and a test
fails when a detector has another name than those that were measured.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pandas as pd

STORED = Path(__file__).parent / "detector_figures.json"
CLINICAL, GENERAL = "asq-phi, unseen", "presidio-research, identifiers, unseen"
ALL = "all"


@cache
def _stored() -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
    return figures


def figures(detector: str, corpus: str, share: Literal["recall", "precision"]) -> pd.DataFrame:
    """A row a type of identifier, `all` first: type, n, value, low, high (Wilson's 95 % interval).

    Recall is by the type of the label, precision by the field that the detector named. The table is empty if the
    detector was not measured.
    """
    by_type = _stored().get(detector, {}).get(share, {}).get(corpus, {})
    rows = [(name, one["n"], one["value"], one["low"], one["high"]) for name, one in by_type.items()]
    return pd.DataFrame(rows, columns=["type", "n", "value", "low", "high"])
