"""What follows from the verdict on a model: accepted limits, the conditions of its release, and what is left open."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from core.attacks.membership.decision import LIRA
from core.common.formatting import proved_text
from core.evaluation import registry
from core.evaluation.report.commands import audit_command, prove_command, shadows_command
from core.evaluation.report.decision import Decision
from core.evaluation.report.glance import CONTRADICTED, Subject
from core.evaluation.sweep.limit_measures import risks_of
from core.evaluation.sweep.recommendation import MET, NOT_MEASURED, NOT_MET, against_limits, attack_text
from core.runs.audits import StoredAudit
from core.runs.facts import UNKNOWN
from core.runs.run import Run

ON_PAGE = 3  # limits that the first page has in words; a summary stands for more


def accepted_limits(run: Run, audit: StoredAudit | None, decision: Decision) -> pd.DataFrame:
    """The limits of a decision beside what was measured of the run (`recommendation.against_limits`)."""
    return against_limits(risks_of(run, audit, decision.limits), decision.limits)


def limit_lines(accepted: pd.DataFrame) -> list[str]:
    """The rows of `accepted_limits` in words: `membership AUC at most 0.75: not met (up to 0.781)`."""
    lines = []
    for row in accepted.to_dict("records"):
        name, measured = str(row["measure"]), row["met"] != NOT_MEASURED
        limited = f"{registry.measure_name(name)} at most {exact_limit(name, row['limit'])}"
        end = "no interval" if math.isnan(row["high"]) else f"up to {_rounded_up(name, row['high'])}"
        end += f"; {attack_text(row)}" if row.get("attacks") else ""
        lines.append(f"{limited}: {row['met']}{f' ({end})' if measured else ''}")
    return lines


def first_limits(accepted: Sequence[Mapping[Hashable, Any]]) -> list[str]:
    """The limits on the first page: how many are met, then up to ON_PAGE of them in words, those not met before."""
    counts = [(met, sum(row["met"] == met for row in accepted)) for met in (NOT_MET, NOT_MEASURED, MET)]
    order = {met: place for place, (met, _) in enumerate(counts)}
    rows = pd.DataFrame(sorted(accepted, key=lambda row: order[row["met"]])[:ON_PAGE])
    lines = [", ".join(f"{count} {met}" for met, count in counts if count)] if len(accepted) > ON_PAGE else []
    return lines + (limit_lines(rows) if len(rows) else [])


def exact_limit(name: str, limit: float) -> str:
    """A limit as it was given, since 0.755 must not be shown as 0.76."""
    return f"{100 * limit:.12g}\u00a0%" if registry.number_format(name).share else f"{limit:.12g}"


def _rounded_up(name: str, high: float) -> str:
    """The upper end of an interval, rounded up, so that one above its limit never looks as if it met it."""
    share = registry.number_format(name).share
    shown = math.ceil(1e4 * high - 1e-9) / 100 if share else math.ceil(1e3 * high - 1e-9) / 1e3
    return f"{shown:g}".replace("-", "−") + ("\u00a0%" if share else "")


def _count(accepted: pd.DataFrame, met: str) -> int:
    return int((accepted["met"] == met).sum())


def conditions(subject: Subject, decision: Decision) -> list[str]:
    """What must be true before the model is given to anybody."""
    found, accepted = _conditions(subject, decision), subject.tables["accepted_limits"]
    if subject.run.spec.is_base or subject.alarmed:
        return found  # they say that there is nothing to release on conditions
    broken, unknown = (_count(accepted, met) for met in (NOT_MET, NOT_MEASURED))
    which = "an accepted limit is" if broken == 1 else f"{broken} accepted limits are"
    first = [f"Do not release it while {which} not met."] if broken else []
    if unknown:
        lacking = f"{unknown} {'is' if unknown == 1 else 'are'} not"
        first.append(f"Do not release it before every accepted limit is measured: {lacking}.")
    return [*first, *found]


def _conditions(subject: Subject, decision: Decision) -> list[str]:
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
        "Keep this report, training losses and other figures inside your organisation: ε does not cover them.",
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
    if unmeasured := _count(subject.tables["accepted_limits"], NOT_MEASURED):
        found.append(f"Accepted limits that were not measured: {unmeasured}.")
    if decision.accepted and not (recommended or decision.limits):
        found.append("The accepted limits are text without numbers by figure: nothing was compared with them.")
    if not (recommended or decision.accepted or decision.limits):
        found.append("Your limits for risk and usefulness: none were given, so nothing is recommended.")
    if missing := decision.missing():
        found.append(f"Missing in the decision: {', '.join(missing)}.")
    return found
