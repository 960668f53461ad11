"""HIPAA's two ways to de-identify data (45 CFR 164.514; guidance of 2012), asked of what a model writes."""

from __future__ import annotations

import math
from dataclasses import replace

from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework
from core.evaluation.wording import interval_text, percent
from core.runs.facts import CODES


def safe_harbor(evidence: Evidence) -> Framework:
    """The 18 identifiers: which of them the model was found to write."""
    cells = []
    for row in evidence.subject.rows("hipaa"):
        item = f"{row['number']} ({_letter(row['number'])}). {row['identifier']}"
        if row["tested"] == "no":
            cells.append(Cell(item, "open", f"{str(row['note'])[0].upper()}{str(row['note'])[1:]}."))
        elif row["number"] == CODES and math.isnan(row["value"]):
            planted = evidence.exposure(item)
            said = f"Partly: planted codes stand for them. {planted.text}"
            cells.append(replace(planted, text=said) if planted.status == "measured" else planted)
        else:
            told = f"Written for {percent(row['value'])} of patients ({interval_text(row['low'], row['high'])})"
            if not math.isnan(row["control"]):
                told += f", and for {percent(row['control'])} of held-out ones"
            partly = f" Partly: {row['note']}." if row["tested"] == "partly" else ""
            cells.append(Cell(item, "measured", f"{told}.{partly}", f"hipaa-{row['number']}"))
    knows = "Only the covered entity can say what it knows."
    cells.append(Cell("No actual knowledge that what remains could identify a person", "open", knows))
    return Framework(
        "hipaa_safe_harbor",
        "HIPAA Safe Harbor: 18 identifiers",
        "45 CFR 164.514(b)(2)",
        "The rule asks that these identifiers of the patient and of relatives, employers and household members be "
        "removed from health information. Here each line says whether the model wrote such an identifier of "
        f"{evidence.subject.patients}; those of other people were not searched for.",
        tuple(cells),
    )


def _letter(number: int) -> str:
    """The letter of an identifier in 45 CFR 164.514(b)(2)(i): A to R."""
    return chr(ord("A") + number - 1)


def expert_determination(evidence: Evidence) -> Framework:
    """The anticipated recipient, and the four principles by which experts judge the risk of identification."""
    e = evidence
    cells = (
        e.filled("Anticipated recipient: who gets it?", "recipient", "No recipient is named in the decision."),
        _replicability(e),
        e.filled(
            "Data source availability: who else has it?",
            "knowledge",
            "The decision does not say what an attacker knows, for example from registers or the press.",
        ),
        _distinguishability(e),
        Cell(
            "Assess risk: the three together",
            "open",
            "No figure combines them. An expert judges whether the risk is very small, and documents how.",
        ),
    )
    return Framework(
        "hipaa_expert_determination",
        "HIPAA Expert Determination: recipient and four principles",
        "45 CFR 164.514(b)(1); HHS guidance of 2012, table 1",
        "A determination is made by an expert, not by this report.",
        cells,
    )


def _replicability(evidence: Evidence) -> Cell:
    item = "Replicability: does it recur for the same person?"
    if evidence.subject.run.spec.corpus.imported is not None:
        return Cell(item, "open", "Which details recur in a patient’s notes was not examined in these imported notes.")
    most = evidence.subject.most_notes
    said = "In the synthetic hospital names, dates of birth and numbers are the same in all notes of a patient"
    return Cell(item, "argued", f"{said} (up to {most:,} for training); findings and values vary.", "cohort")


def _distinguishability(evidence: Evidence) -> Cell:
    """Leakage by rarity is a related figure, not how far one patient's data differ from everyone else's."""
    item = "Distinguishability: does it set one person apart?"
    related = evidence.rarity(item)
    if related.status == "open":
        return related
    said = f"Not measured: how many patients share their details. A related figure: {related.text}"
    return replace(related, status="open", text=said)
