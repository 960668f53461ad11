"""All crosswalk tables of a report, as a list for the template and as a frame for the files."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from core.evaluation.report.crosswalk import authorities, hipaa, nist_aml, nist_dp
from core.evaluation.report.crosswalk.cells import Evidence, Framework

COLUMNS = ("framework", "item", "status", "text", "link")


def frameworks(evidence: Evidence) -> list[Framework]:
    """Every framework with its cells, in the order of the report."""
    makers = (
        *(nist_dp.pyramid, nist_dp.hazards, hipaa.safe_harbor, hipaa.expert_determination),
        *(authorities.edpb, authorities.ico, nist_aml.attacks),
    )
    return [make(evidence) for make in makers]


def frame(found: Sequence[Framework]) -> pd.DataFrame:
    """One row per cell, with COLUMNS; `link` is the part of the report that has the evidence, or empty."""
    rows = [(one.key, cell.item, cell.status, cell.text, cell.link) for one in found for cell in one.cells]
    return pd.DataFrame(rows, columns=list(COLUMNS))
