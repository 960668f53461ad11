"""NIST SP 800-226 (2025): the pyramid of a differential-privacy guarantee, and the hazards to it."""

from __future__ import annotations

from dataclasses import replace

from core.common.formatting import delta_text, limit_text, promised_text
from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework, Status
from core.evaluation.report.glance import CONTRADICTED
from core.evaluation.report.label import COUNTED
from core.runs.facts import FLOATING_POINT


def pyramid(evidence: Evidence) -> Framework:
    """The nine components, from the top of the pyramid to its base."""
    e, label = evidence, evidence.label
    private = label["unit"] is not None
    held = f"ε = {promised_text(label['epsilon'])} at δ = {delta_text(label['delta'])}." if private else ""
    cells = (
        e.guaranteed("Privacy parameters", held, "label-epsilon"),
        e.guaranteed(
            "Unit of privacy", f"One {label['unit']}; neighbours: {label.get('neighbours', '')}.", "label-unit"
        ),
        Cell("Algorithms and correctness", "open", CONTRADICTED, "fact-audit")
        if e.subject.alarmed
        else Cell(
            "Algorithms and correctness",
            "argued",
            "Each unit’s gradient is clipped, noise is added once per step, and the losses of all steps are composed "
            "by a certified bound. Tests compare each part with a plain computation. An audit can contradict this, but "
            "never prove it.",
            "label-mechanism",
        )
        if private
        else Cell("Algorithms and correctness", "open", "Trained without a private algorithm."),
        Cell("Utility", "measured", e.fact("useful"), e.at("controls", "perplexity_heldout"))
        if e.fact("useful") != "Not measured."
        else Cell("Utility", "open", "Not measured."),
        Cell("Bias", "open", "Usefulness was not measured by group of patients; noise costs small groups the most."),
        Cell("Access control", "open", "Those who hold the notes, the runs and this report decide who reads them."),
        Cell(
            "Trust model",
            "argued",
            "Central: those who train see all notes and are trusted. Recipients are not, and may know all other notes.",
            "not-protected" if private else "",
        ),
        Cell("Side channels", "open", f"{FLOATING_POINT} The time of a training is not hidden."),
        _collection(evidence),
    )
    return Framework(
        "nist_sp_800_226_pyramid",
        "NIST SP 800-226: the pyramid",
        "Near, Darais, Lefkovitz & Howarth 2025, figure 1",
        "Each component holds only if those below it do.",
        cells,
    )


def _collection(evidence: Evidence) -> Cell:
    if evidence.subject.run.spec.corpus.imported is None:
        return Cell(
            "Data collection exposure", "argued", "Nothing was collected: the patients are synthetic.", "cohort"
        )
    return Cell(
        "Data collection exposure", "open", "Whether these notes had to be collected is not a question about the model."
    )


def hazards(evidence: Evidence) -> Framework:
    """Pitfalls that the publication warns of, as they apply to the training of a language model."""
    e, label = evidence, evidence.label
    private = label["unit"] is not None
    cells = (
        _unless(
            e.facts["subject"]["verdict"] == "empty",
            e.guaranteed("ε too large to mean much", e.fact("guesses"), "fact-guesses"),
        ),
        _delta(evidence),
        _several_notes(evidence),
        e.guaranteed("Contributions without a bound", label.get("contribution", ""), "label-contribution"),
        Cell("Noise that can be generated again", "recorded", label["noise"], "label-noise")
        if private
        else Cell("Noise that can be generated again", "open", "No noise was added.", "label"),
        Cell("Other releases of the same data", "recorded", e.fact("released"), "fact-released"),
        Cell(
            "Settings tuned on private data",
            "open",
            "Not covered by the run’s own ε. The recipe was chosen on synthetic hospitals; choosing among runs on "
            "these notes is counted only where the ledger has it as a choice.",
        ),
        Cell("Quantities treated as public", "argued", COUNTED, "not-protected" if private else ""),
        Cell("An audit in place of a proof", "open", CONTRADICTED, "fact-audit")
        if e.subject.alarmed
        else Cell(
            "An audit in place of a proof",
            "argued",
            "The guarantee rests on the accounting; the audit only tests it.",
            "label-accountant",
        )
        if private
        else Cell(
            "An audit in place of a proof", "open", "There is only an audit: nothing else limits a leak.", "bounds"
        ),
        Cell(
            "An implementation of one’s own",
            "open",
            "Clipping, noise and accounting are this program’s own. They are compared with Opacus and dp-accounting in "
            "tests; nobody outside has reviewed them.",
        ),
        Cell("Floating-point arithmetic", "open", FLOATING_POINT),
        Cell("Timing and error channels", "argued", "Recipients get a trained model; nobody queries the notes."),
        Cell(
            "Free text names other people",
            "open",
            "Relatives and staff in the notes are not units of privacy.",
            "label",
        ),
        Cell(
            "A breach of the notes themselves",
            "open",
            "No guarantee about a model protects the notes it was trained on.",
        ),
    )
    return Framework(
        "nist_sp_800_226_hazards",
        "NIST SP 800-226: hazards",
        "Near, Darais, Lefkovitz & Howarth 2025, sections 2 to 4",
        "Common ways in which a guarantee means less than it seems.",
        cells,
    )


def _unless(applies: bool, cell: Cell, otherwise: Status = "guaranteed") -> Cell:
    """A cell of a guarantee that has no such hazard; open where the hazard applies in spite of the guarantee."""
    if cell.status != "guaranteed":
        return cell
    return replace(cell, status="open" if applies else otherwise)


def _delta(evidence: Evidence) -> Cell:
    """δ beside 1/n², which the publication names as the most; n: notes, or patients and planted canaries."""
    cohort, label, item = evidence.facts["cohort"], evidence.label, "δ too large"
    if label["unit"] is None:
        return evidence.guaranteed(item, "", "label-epsilon")
    units, what = cohort["training_notes"], "notes"
    if label["unit"] == "patient":  # a planted canary is a unit of the mechanism as a patient is
        planted = cohort["canaries_planted"]
        units, what = cohort["training_patients"] + planted, f"patients, {planted:,} planted canaries among them"
    least = 1 / units**2
    beside = "at most" if label["delta"] <= least else "above"
    said = f"δ = {delta_text(label['delta'])} is {beside} 1/n² = {limit_text(least)} (n = {units:,} {what})."
    return _unless(label["delta"] > least, evidence.guaranteed(item, said, "label-epsilon"), "recorded")


def _several_notes(evidence: Evidence) -> Cell:
    item, subject = "Protecting records instead of people", evidence.subject
    if not subject.model["unit"]:
        return Cell(item, "open", "Neither notes nor patients are protected.", "glance")
    records = subject.model["unit"] == "note" and subject.most_notes > 1
    return _unless(records, evidence.guaranteed(item, evidence.fact("many_notes"), "fact-many_notes"), "recorded")
