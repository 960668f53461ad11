"""HIPAA's two ways to de-identify data (45 CFR 164.514; guidance of 2012), asked of what a model writes."""

from __future__ import annotations

import math

from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework
from core.evaluation.wording import interval_text, percent
from core.runs.facts import CODES


def safe_harbor(evidence: Evidence) -> Framework:
    """The 18 identifiers: which of them the model was found to write."""
    cells = []
    for row in evidence.subject.rows("hipaa"):
        item = f"{row['number']}. {row['identifier']}"
        if row["tested"] == "no":
            cells.append(Cell(item, "open", f"{str(row['note'])[0].upper()}{str(row['note'])[1:]}."))
        elif row["number"] == CODES and math.isnan(row["value"]):
            cells.append(evidence.exposure(item))
        else:
            told = f"Written for {percent(row['value'])} of patients ({interval_text(row['low'], row['high'])})"
            if not math.isnan(row["control"]):
                told += f", and for {percent(row['control'])} of held-out ones"
            partly = f" Partly: {row['note']}." if row["tested"] == "partly" else ""
            cells.append(Cell(item, "measured", f"{told}.{partly}", f"hipaa-{row['number']}"))
    cells.append(Cell("No actual knowledge of re-identification", "open", "Only the board can say what it knows."))
    return Framework(
        "hipaa_safe_harbor",
        "HIPAA Safe Harbor: 18 identifiers",
        "45 CFR 164.514(b)(2)",
        "The rule is about records. Here each line says whether the model wrote such an identifier of "
        f"{evidence.subject.patients}.",
        tuple(cells),
    )


def expert_determination(evidence: Evidence) -> Framework:
    """The four principles by which experts judge whether information can identify somebody."""
    e = evidence
    cells = (
        e.filled("Risk: who could identify someone, and how", "recipient", "No recipient is named in the decision."),
        Cell(
            "Replicability: does it recur for the same person?",
            "argued",
            f"Names, dates of birth and numbers are the same in all notes of a patient (up to {e.subject.most_notes:,} "
            "for training); findings and values vary.",
            "cohort",
        ),
        e.filled(
            "Data source availability: who else has it?",
            "knowledge",
            "The decision does not say what an attacker knows, for example from registers or the press.",
        ),
        e.rarity("Distinguishability: does it single somebody out?"),
    )
    return Framework(
        "hipaa_expert_determination",
        "HIPAA Expert Determination: four principles",
        "45 CFR 164.514(b)(1); HHS guidance of 2012, table 1",
        "A determination is made by an expert, not by this report.",
        cells,
    )
