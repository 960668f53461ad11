"""What European and British data protection authorities ask about a model: EDPB Opinion 28/2024, and the ICO's test."""

from __future__ import annotations

from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework


def edpb(evidence: Evidence) -> Framework:
    """Elements by which a claim is judged that a model is anonymous."""
    e = evidence
    per_patient = e.label["unit"] == "patient"
    each = (
        e.guaranteed(
            "For each data subject", "The guarantee holds for every patient, whatever an attack finds.", "label-unit"
        )
        if per_patient
        else Cell(
            "For each data subject",
            "open",
            "Figures are shares and averages: they bound no single patient. Only a guarantee per patient does.",
            "fact-many_notes",
        )
    )
    cells = (
        e.verbatim("Direct extraction"),
        e.tries("Probabilistic extraction"),
        e.extraction("Personal data from queries"),
        each,
        e.filled(
            "All means reasonably likely to be used",
            "cost",
            "The decision does not say how much an attacker may spend.",
        ),
        e.guaranteed("Design: a measure against memorisation", "Trained with differential privacy.", "label-mechanism"),
        Cell(
            "Design: selecting and minimising data", "open", "This report does not say which notes were chosen, or why."
        ),
        _resistance(e),
        Cell("Documentation", "argued", "This report: settings, versions, checksums, commands, limits.", "reproduce"),
    )
    return Framework(
        "edpb_opinion_28_2024",
        "EDPB Opinion 28/2024: is the model anonymous?",
        "European Data Protection Board, adopted 17 December 2024",
        "Both the likelihood of extraction and that of obtaining personal data by queries must be insignificant. "
        "A supervisory authority judges this case by case.",
        cells,
    )


def _resistance(evidence: Evidence) -> Cell:
    """Which attacks were made, and how far the strongest on membership came."""
    e, item = evidence, "Resistance to attacks"
    strongest = e.membership(item)
    if strongest.status != "measured":
        return strongest
    tried = len({row["attack"] for row in e.subject.rows("attacks")}) or 1
    made = [f"{tried} membership attack{'s' if tried > 1 else ''}", "prompts"]
    made += (["canaries"] if e.facts["cohort"]["canaries"] else []) + (["probes"] if e.subject.rows("probes") else [])
    made += ["planted gradients"] if e.subject.planted() else []
    more = "" if e.subject.rows("attacks") else " The full audit has more."
    return Cell(item, "measured", f"{strongest.text} Made: {', '.join(made)}.{more}", strongest.link)


def ico(evidence: Evidence) -> Framework:
    """The motivated intruder: a competent person without prior knowledge who wants to identify somebody."""
    e = evidence
    cells = (
        e.extraction("Is reasonably competent: prompts the model"),
        Cell(
            "Has the internet, libraries and public documents",
            "open",
            "No attack of the audit uses these. Its attackers have what an intruder may lack: the weights, the public "
            "base model and notes of other patients.",
            "attacks",
        ),
        Cell("Asks people who may know more", "open", "No attack of the audit combines the model with enquiries."),
        e.filled("Prior knowledge", "knowledge", "The decision does not say what an attacker knows beforehand."),
        e.membership("Singling out: was this patient trained on?"),
        e.probes("Linking and inferring: whose disease is it?", "Names, parts of names and diseases"),
        e.filled("Open release, or known recipients", "recipient", "No recipient is named in the decision."),
        e.filled("Review of the assessment", "review", "No date of review is set."),
    )
    return Framework(
        "ico_motivated_intruder",
        "ICO: the motivated intruder",
        "Information Commissioner’s Office, anonymisation guidance, March 2025",
        "The intruder is not assumed to be a specialist or a criminal. The audit’s attackers are specialists.",
        cells,
    )
