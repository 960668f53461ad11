"""What European and British data protection authorities ask about a model: EDPB Opinion 28/2024, and the ICO's test."""

from __future__ import annotations

from dataclasses import replace

from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework
from core.phi.fields import DIRECT


def edpb(evidence: Evidence) -> Framework:
    """Elements by which a claim is judged that a model is anonymous."""
    e = evidence
    design = e.guaranteed(
        "Design: a measure against memorisation", "Trained with differential privacy.", "label-mechanism"
    )
    cells = (
        _also(e.verbatim("Direct extraction"), "Through the model’s outputs: nothing was read from its weights."),
        _also(e.tries("Probabilistic extraction"), "Through the model’s outputs, too."),
        _also(
            e.extraction("Personal data from queries"),
            f"Partly: only {len(DIRECT)} direct identifiers were looked for.",
        ),
        _each_person(e),
        _also(
            e.filled(
                "All means reasonably likely to be used",
                "cost",
                "The decision does not say how much an attacker may spend.",
            ),
            "Only cost and time are answered, not technology, other data, or a model that gets out by mistake.",
        ),
        replace(design, status="recorded") if design.status == "guaranteed" else design,
        Cell(
            "Design: selecting and minimising data", "open", "This report does not say which notes were chosen, or why."
        ),
        _resistance(e),
        Cell(
            "Documentation",
            "argued",
            "In part: settings, versions, checksums, commands, limits. Not in this report: an impact assessment, the "
            "advice of the data protection officer, the size of the training data beside the model’s.",
            "reproduce",
        ),
    )
    return Framework(
        "edpb_opinion_28_2024",
        "EDPB Opinion 28/2024: is the model anonymous?",
        "European Data Protection Board, adopted 17 December 2024",
        "For a model to count as anonymous, both the likelihood of extracting personal data from it (also "
        "probabilistically) and that of obtaining them by queries should be insignificant for any person in the data, "
        "given all the means reasonably likely to be used (paragraph 43). A supervisory authority judges this case by "
        "case.",
        cells,
    )


def _also(cell: Cell, limit: str) -> Cell:
    """An answered cell with what the answer leaves out."""
    return cell if cell.status == "open" else replace(cell, text=f"{cell.text} {limit}")


def _each_person(evidence: Evidence) -> Cell:
    """A guarantee per patient bounds each one's risk; shares, averages and an ε that limits nothing do not."""
    e, item = evidence, "For each data subject"
    if e.label["unit"] != "patient":
        said = "Figures are shares and averages: they bound no single patient. A guarantee per patient would."
        return Cell(item, "open", said, "fact-many_notes")
    if e.facts["subject"]["verdict"] == "empty":
        return Cell(item, "open", "The ε of the guarantee is too large to bound a patient’s risk.", "fact-guesses")
    said = (
        "The guarantee holds for every patient up to its ε, whatever an attack finds. It does not cover relatives or "
        "staff."
    )
    return e.guaranteed(item, said, "label-unit")


def _resistance(evidence: Evidence) -> Cell:
    """Which attacks were made, and how far the strongest on membership came."""
    e, item = evidence, "Resistance to attacks"
    strongest = e.membership(item)
    if strongest.status != "measured":
        return strongest
    tried = len({row["attack"] for row in e.subject.rows("attacks")}) or 1
    made = [f"{tried} membership attack{'s' if tried > 1 else ''}", "prompts"]
    made += ["canaries"] if e.facts["cohort"]["canaries"] else []
    further = {"probes": "probes", "memorised": "word-for-word completion", "tries": "number of tries"}
    made += [name for table, name in further.items() if e.subject.rows(table)]
    more = "" if e.subject.rows("attacks") else " The full audit has more."
    said = (
        f"{strongest.text} Run: {', '.join(made)}. Not run: model inversion.{more} Nothing is known about other "
        "attacks."
    )
    return Cell(item, "measured", said, strongest.link)


def ico(evidence: Evidence) -> Framework:
    """The motivated intruder: someone reasonably competent who wants to identify a person."""
    e = evidence
    cells = (
        _also(
            e.extraction("Is reasonably competent: prompts the model"),
            "The prompts are fixed, and none searches for one person.",
        ),
        Cell(
            "Has the internet, libraries and public documents",
            "open",
            "No attack of the audit uses these. Its attackers have what an intruder may lack: the weights, the public "
            "base model and notes of other patients.",
            "attacks",
        ),
        Cell(
            "Asks, or advertises for, people who may know more",
            "open",
            "No attack of the audit combines the model with enquiries.",
        ),
        e.filled("Prior knowledge", "knowledge", "The decision does not say what an attacker knows beforehand."),
        e.membership("Membership: was this patient trained on?"),
        Cell(
            "Singling out one person",
            "open",
            "Not measured as such: the audit asks who was trained on, and whose identifiers are written.",
        ),
        e.probes("Linking and inferring: whose disease is it?", "Names, parts of names and diseases"),
        e.filled("Open release, or known recipients", "recipient", "No recipient is named in the decision."),
        e.filled("Review of the assessment", "review", "No date of review is set."),
    )
    return Framework(
        "ico_motivated_intruder",
        "ICO: the motivated intruder",
        "Information Commissioner’s Office, anonymisation guidance, March 2025 (later editions not considered)",
        "The intruder is reasonably competent and determined. If the data are worth it, they may use special "
        "knowledge, equipment or crime, and may be a person with permitted access.",
        cells,
    )
