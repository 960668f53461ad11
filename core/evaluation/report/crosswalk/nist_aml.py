"""NIST AI 100-2 E2025: the names of attacks on the privacy of a model, and what stands for them in this report."""

from __future__ import annotations

from core.evaluation.report.crosswalk.cells import Cell, Evidence, Framework


def attacks(evidence: Evidence) -> Framework:
    """Privacy compromises of the taxonomy by their identifiers."""
    e = evidence
    weights = e.answer("access") == "weights"
    reads = "only an opening that it continues" if e.subject.run.spec.model.kind == "gpt2" else "one to be completed"
    extraction = (
        Cell(
            "NISTAML.031 Model extraction",
            "argued",
            "The recipient gets the weights: there is nothing to extract.",
            "decision-access",
        )
        if weights
        else Cell(
            "NISTAML.031 Model extraction", "open", "Not measured. It matters if recipients only query the model."
        )
    )
    cells = (
        extraction,
        Cell("NISTAML.032 Reconstruction", "open", "Not measured: model inversion was not run."),
        e.probes("Attribute inference (no number; beside 032)", "Names, parts of names and diseases"),
        e.membership("NISTAML.033 Membership inference"),
        Cell(
            "NISTAML.034 Property inference",
            "open",
            "Not measured, and not limited by ε: what many notes have in common may be learned from the model.",
        ),
        Cell("NISTAML.035 Prompt extraction", "argued", "The model has no hidden prompt."),
        Cell(
            "NISTAML.036 Leaking information from user interactions",
            "argued",
            "The model keeps nothing of a query, and no text of third parties can make it pass on what a user typed. "
            "What a service around it logs is up to its operator.",
            "conditions",
        ),
        Cell(
            "NISTAML.037 Training data attacks",
            "open",
            "Attacks that change the training data were not run. Those that read them out of the model are under 038.",
        ),
        e.extraction("NISTAML.038 Data extraction: identifiers"),
        e.verbatim("NISTAML.038 Data extraction: whole notes"),
        e.exposure("NISTAML.038 Data extraction: planted canaries"),
        Cell("NISTAML.039 Compromising connected resources", "argued", "The model is connected to nothing."),
        Cell("NISTAML.018 Prompt injection", "argued", f"The model follows no instructions: every text is {reads}."),
        Cell(
            "NISTAML.015 Indirect prompt injection",
            "argued",
            "The model reads no text but the prompt, and follows none.",
        ),
        Cell("NISTAML.023 Backdoor poisoning", "open", "Whether anyone planted text among the notes was not examined."),
    )
    return Framework(
        "nist_ai_100_2",
        "NIST AI 100-2: names of attacks on privacy",
        "Vassilev, Oprea et al., NIST AI 100-2 E2025",
        "Availability (01), integrity (02), misuse (04) and the supply chain (05) are not in this report. The names "
        "were compared with the index of the publication.",
        cells,
    )
