"""What follows from the verdict on a model: the conditions of its release, and what the report leaves open."""

from __future__ import annotations

import math

from core.attacks.membership.decision import LIRA
from core.common.formatting import proved_text
from core.evaluation.report.commands import audit_command, prove_command, shadows_command
from core.evaluation.report.decision import Decision
from core.evaluation.report.glance import CONTRADICTED, Subject
from core.runs.facts import UNKNOWN


def conditions(subject: Subject, decision: Decision) -> list[str]:
    """What must be true before the model is given to anybody."""
    if subject.run.spec.is_base:
        return ["None from these notes: the model never read them."]
    if subject.alarmed:
        return [
            f"None: do not release it. {CONTRADICTED}",
            "Until the cause is known, protect the model like the notes.",
        ]
    if not subject.protected:
        first = (
            "Do not release it outside the group that may read the notes; protect it like the notes."
            if not subject.model["unit"]
            else "Do not release it as a private model. Train it again with --secret-noise, audit it, and report on "
            "that run."
        )
        return [first, _of_access(decision)]
    found = [
        "Enter the release in the ledger first; do not release if the total exceeds your budget.",
        "Keep this report, training losses and other figures about these notes inside your organisation: ε does not "
        "cover them.",
        _of_access(decision),
    ]
    if subject.model["unit"] == "note" and subject.most_notes > 1:
        found.insert(1, "Accept what the patient with the most notes gets, or train with a guarantee per patient.")
    return found


def _of_access(decision: Decision) -> str:
    match decision.access:
        case "weights":
            return "The recipient gets the weights: no output filter, log or query limit protects afterwards."
        case "api":
            return "Recipients only query: limit and log queries, and keep the weights as safe as the notes."
        case "filtered api":
            return "Recipients only query, through a filter that can be evaded: limit and log queries as well."
    return "Decide who receives the model, and whether they get its weights or an API."


def still_open(subject: Subject, decision: Decision, *, audited: bool, recommended: bool) -> list[str]:
    """What this report cannot answer, and how to answer it."""
    found = []
    if not audited and not subject.run.spec.is_base:
        found.append(f"Other attacks than those of the quick audit: {audit_command(subject.run.id)}")
    elif not subject.run.spec.is_base and not subject.rows("attacks", attack=LIRA):
        found.append(f"Whether LiRA, the attack with shadow models, finds more: {shadows_command(subject.run.id)}")
    bounds = [bound for bound in (subject.bound(), subject.curve()) if bound is not None]
    ceiling = max((float(bound["ceiling"]) for bound in bounds), default=math.inf)
    planted = subject.planted()
    if bounds and ceiling < bounds[0]["promised"] < math.inf and not (planted and planted["can_alarm"]):
        found.append(
            f"Whether ε is what it should be: this audit could contradict only an ε below {proved_text(ceiling)}. "
            f"{prove_command(subject.run.id)} sees every step."
        )
    tested = subject.rows("hipaa")
    untested = [one["note"] for one in tested if one["tested"] == "no"]
    unknown = untested.count(UNKNOWN)
    found.append(
        f"{len(untested) - unknown} of HIPAA’s 18 identifiers were not looked for: they are not fields of a record."
    )
    if unknown:
        found.append(f"{unknown} more were not looked for: no patient’s value is known that could be searched for.")
    if not recommended:
        found.append("Your limits for risk and usefulness: none were given, so nothing is recommended.")
    if missing := decision.missing():
        found.append(f"In the decision: {', '.join(missing)}.")
    return found
