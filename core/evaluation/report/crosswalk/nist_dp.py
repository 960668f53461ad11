"""NIST SP 800-226 (2025): the pyramid of a differential-privacy guarantee, and the hazards to it."""

from __future__ import annotations

from dataclasses import replace

from core.common.formatting import delta_text, limit_text, promised_text
from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework, Status
from core.evaluation.report.glance import CONTRADICTED
from core.evaluation.report.label import COUNTED
from core.runs.facts import FLOATING_POINT

COMPARED = "Wording compared with the draft of December 2023, and with summaries of the final text."
MEANINGFUL = 10.0  # summaries of the publication say that a larger ε may give no meaningful protection
LARGEST_DELTA = 1e-5  # and that it calls a larger δ suspicious, whatever n is
NO_NOISE = "No noise was added."
NOT_HIDDEN = "Training time is not hidden, and nothing hides the notes in the model."
REPEATABLE_NOISE = "Noise that can be generated again (a point of this report)"


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
        Cell(
            "Utility",
            "measured",
            f"{e.fact('useful')} Perplexity stands in for real tasks.",
            e.at("controls", "perplexity_heldout"),
        )
        if e.fact("useful") != "Not measured."
        else Cell("Utility", "open", "Not measured."),
        Cell("Bias", "open", "Usefulness was not measured by group of patients; noise costs small groups the most."),
        Cell("Access control", "open", "Those who hold the notes, the runs and this report decide who reads them."),
        Cell(
            "Trust model",
            "argued",
            "Central: those who train see all notes and are trusted. Recipients are not, and may know all other notes.",
            "not-protected",
        )
        if private
        else Cell(
            "Trust model",
            "open",
            "Those who train see all notes and are trusted. Nothing separates the notes from those who get the model.",
        ),
        Cell("Side channels", "open", f"{FLOATING_POINT} Training time is not hidden." if private else NOT_HIDDEN),
        _collection(evidence),
    )
    return Framework(
        "nist_sp_800_226_pyramid",
        "NIST SP 800-226: the pyramid",
        "Near, Darais, Lefkovitz & Howarth 2025, figure 1",
        f"Each component holds only if those below it do. {COMPARED}",
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
    """Pitfalls that the publication warns of, as they apply to the training of a language model; one is ours."""
    e, label = evidence, evidence.label
    private = label["unit"] is not None
    cells = (
        _unless(
            private and label["epsilon"] > MEANINGFUL,
            e.guaranteed("ε too large to mean much", e.fact("guesses"), "fact-guesses"),
        ),
        _delta(evidence),
        _several_notes(evidence),
        Cell(
            "Comparing an ε with another",
            "argued",
            "Compare an ε only with one at the same δ, for the same unit and the same neighbours.",
            "label-unit",
        )
        if private
        else Cell("Comparing an ε with another", "open", "There is no ε to compare.", "label"),
        _unless(
            label["unit"] == "note" and e.subject.most_notes > 1,
            e.guaranteed("Contributions without a bound", label.get("contribution", ""), "label-contribution"),
        ),
        Cell(REPEATABLE_NOISE, "recorded" if e.subject.protected else "open", label["noise"], "label-noise")
        if private
        else Cell(REPEATABLE_NOISE, "open", NO_NOISE, "label"),
        _texts(e),
        Cell("Other releases of the same data", "recorded", e.fact("released"), "fact-released"),
        _tuned(evidence),
        Cell("Quantities treated as public", "argued", COUNTED, "not-protected")
        if private
        else Cell("Quantities treated as public", "open", "Nothing about the notes is protected.", "label"),
        Cell("An audit in place of a proof", "open", CONTRADICTED, "fact-audit")
        if e.subject.alarmed
        else Cell(
            "An audit in place of a proof",
            "argued",
            "ε rests on the accounting; the audit only tests it.",
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
            "tests; no one outside the project has reviewed them.",
        )
        if private
        else Cell("An implementation of one’s own", "open", "No private algorithm was used.", "label"),
        Cell("Floating-point arithmetic", "open", FLOATING_POINT)
        if private
        else Cell("Floating-point arithmetic", "open", NO_NOISE, "label"),
        Cell("Timing and error channels", "argued", "Recipients get a trained model; the notes cannot be queried."),
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
        f"A selection, in our words, of ways in which a guarantee means less than it seems. {COMPARED}",
        cells,
    )


def _tuned(evidence: Evidence) -> Cell:
    """A choice among trainings on the same notes costs ε, which is counted where the ledger has it."""
    item, choice = "Settings tuned on private data", evidence.subject.choice
    if choice is not None and evidence.label["unit"] is not None:
        said = f"Chosen as the {choice.briefly()}; ε counts it. Any other look at these notes is not covered."
        return Cell(item, "recorded", said, "label-epsilon")
    return Cell(
        item,
        "open",
        "Not covered by the run’s own ε. The recipe was chosen on synthetic hospitals; choosing among runs on "
        "these notes is counted only where the ledger has it as a choice.",
    )


def _texts(evidence: Evidence) -> Cell:
    """Generated texts; open behind a filter, which may compare them with patients' identifiers."""
    item = "Synthetic text without a guarantee"
    found = evidence.guaranteed(
        item,
        "The model’s texts are computed from it and the prompt alone, so its guarantee covers them.",
        "label-epsilon",
    )
    if found.status != "guaranteed" or evidence.answer("access") != "filtered api":
        return found
    return Cell(
        item,
        "open",
        "The guarantee covers what a filter by patterns lets through, which reads the text alone. What a filter with "
        "known values blacks out depends on patients’ identifiers, and no ε covers that.",
        "decision-access",
    )


def _unless(applies: bool, cell: Cell, otherwise: Status = "guaranteed") -> Cell:
    """A cell of a guarantee that has no such hazard; open where the hazard applies in spite of the guarantee."""
    if cell.status != "guaranteed":
        return cell
    return replace(cell, status="open" if applies else otherwise)


def _delta(evidence: Evidence) -> Cell:
    """δ beside 1/n² and 10⁻⁵, the usual most by the publication; n: notes, or patients and planted canaries."""
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
    if label["delta"] > LARGEST_DELTA:
        said += f" It is above {delta_text(LARGEST_DELTA)}{', too' if beside == 'above' else ''}."
    applies = label["delta"] > min(least, LARGEST_DELTA)
    return _unless(applies, evidence.guaranteed(item, said, "label-epsilon"), "recorded")


def _several_notes(evidence: Evidence) -> Cell:
    item, subject = "Protecting records instead of people", evidence.subject
    if not subject.model["unit"]:
        return Cell(item, "open", "Neither notes nor patients are protected.", "glance")
    records = subject.model["unit"] == "note" and subject.most_notes > 1
    return _unless(records, evidence.guaranteed(item, evidence.fact("many_notes"), "fact-many_notes"), "recorded")
