"""The subject of a report as a record of the OpenDP registry of DP deployments, with the fields of its tier 3.

Field names and allowed values are those of the registry's schema (opendp/deployments-registry-data,
schemas/deployments-schema.yaml, July 2026). What this program cannot know says so in its text. A run whose noise came
from a public seed gets no privacy parameters, so that nobody registers an ε that is not promised.
"""

from __future__ import annotations

from typing import Any

from core.common.formatting import delta_text, promised_text
from core.evaluation.report.findings import Facts
from core.evaluation.report.glance import Subject
from core.evaluation.report.label import BESIDE, CHOSEN, CHOSEN_BUT_ONE, COUNTED, MEASURED, Label, mu_text
from core.runs.facts import FLOATING_POINT

FILL_IN = "to be filled in"
ACTORS = (
    "Those who train see the notes, the losses and the noise, and are trusted. Recipients and everyone else are not: "
    "they may see the whole model, know all other notes, and have any computing power."
)


def record(subject: Subject, label: Label, facts: Facts, *, made: str, released: str | None) -> dict[str, Any] | None:
    """The record; None for a model without differential privacy.

    Args:
        subject: the model.
        label: its label (`core.evaluation.report.label`).
        facts: the report's facts `accepted_limits`, `cohort`, `decision` and `promised`.
        made: the report's date, ISO 8601.
        released: the date of the run's entry in the ledger, ISO 8601; None if there is none.
    """
    if label["unit"] is None:
        return None
    cohort, decision = facts["cohort"], facts["decision"]
    unit, run = label["unit"], subject.run
    releases = facts["promised"]["releases"] + (released is None)  # with this one
    guarantee = f"ε = {promised_text(label['epsilon'])}, δ = {delta_text(label['delta'])}"
    loss: dict[str, Any] = {
        "privacy_unit": f"one {unit}",
        "privacy_unit_details": f"Neighbours: {label['neighbours']}. {label['contribution']}",
    }
    if label["promised"]:
        loss["privacy_parameters"] = {"epsilon": label["epsilon"], "delta": label["delta"]}
        beside = (
            f"released as the {label['choice']}; ε includes the choice"
            if "choice" in label
            else f"μ of Gaussian DP: {mu_text(label)}, for error rates of at least 0.1\u00a0%"
        )
        loss["privacy_parameters_details"] = f"{guarantee}; {beside}. {label['accountant']}."
    elif subject.alarmed:
        loss["privacy_parameters_details"] = "None can be registered: an attack proves more than the guarantee allows."
    else:
        loss["privacy_parameters_details"] = f"None can be registered: {label['noise']} If it were secret: {guarantee}."
    return {
        "url_slug": run.id,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": f"{run.spec.model.kind} language model {run.id}",
                "data_curators": [FILL_IN],
                "intended_use": decision["recipient"] or FILL_IN,
                "data_product_type": "Machine learning model",
                "data_product_region": FILL_IN,
                "description": f"A language model trained on {cohort['training_notes']:,} notes of {cohort['kind']}.",
                "publication_date": (released or made)[:10],
                "data_product_sector": "Healthcare",
            },
            "dp_variant": {
                "variant_name": "Approximate DP",
                "data_domain": f"Any set of clinical notes of patients; cohort {cohort['digest']}.",
                "unprotected_quantities": " ".join((MEASURED, BESIDE, COUNTED)),
            },
            "privacy_loss": loss,
            "deployment_model": {
                "model_name": "Central",
                "model_name_details": "The notes are in one place; noise is added during training.",
                "actors": ACTORS,
                "release_type": "Many releases" if releases > 1 else "One release",
                "release_type_details": " ".join(facts["promised"]["sentences"]),
                "data_source_type": "Static",
                "data_source_type_details": "A fixed cohort of notes.",
                "access_type": "Non-interactive",
                "access_type_details": "Recipients get a trained model; the notes cannot be queried.",
            },
            "accounting": {
                "post_processing": "Everything done with the model after training that reads none of these notes or "
                "records: generating, filtering by patterns, tuning on other data.",
                "composition": f"{label['accountant']}, over all steps of training; several releases are composed in "
                "the ledger (docs/methods/ledger.md).",
            },
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": f"{_tuned(label)} Settings come from a fixed recipe for ε "
                "and the number of notes (docs/methods/recipe.md) unless they were changed.",
                "mechanisms": f"{label['mechanism']}. {label['implementation']}. {label['noise']} {FLOATING_POINT}",
                "justification": " ".join(_limits(facts)) or FILL_IN,
            },
            "administrative": {
                "sources": FILL_IN,
                "notes": "Written by the report of PHI Leak Lab; "
                + ("the release is in the ledger." if released else "the release is not in the ledger yet."),
                "registry_authors": [FILL_IN],
            },
        },
    }


def _tuned(label: Label) -> str:
    """What ε covers of the choice of settings."""
    return f"{CHOSEN_BUT_ONE} Released as the {label['choice']}." if "choice" in label else CHOSEN


def _limits(facts: Facts) -> list[str]:
    """What the board accepts, in its words, and its limits beside the figures."""
    lines = facts["accepted_limits"]
    return [facts["decision"]["accepted"]] * bool(facts["decision"]["accepted"]) + [f"{line}." for line in lines]
