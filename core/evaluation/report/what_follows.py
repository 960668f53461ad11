"""What follows from the verdict on a model: accepted limits, the conditions of its release, and what is left open."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from core.attacks.membership.decision import LIRA, in_words
from core.common.formatting import proved_text
from core.evaluation import registry
from core.evaluation.report.commands import audit_command, prove_command, shadows_command
from core.evaluation.report.decision import Decision
from core.evaluation.report.glance import CONTRADICTED, Subject, verdict
from core.evaluation.sweep.limit_measures import risks_of
from core.evaluation.sweep.recommendation import MET, NOT_MEASURED, NOT_MET, against_limits, attack_text
from core.runs.audits import StoredAudit
from core.runs.facts import UNKNOWN
from core.runs.run import Run

ON_PAGE = 3  # limits that the first page has with their figures, those not met first
MOST_DIGITS = 12  # of a limit and the end beside it


_MISTRUST = "Do not rely on this ε alone: treat the model like the notes until the board has accepted what was found."
_WARNINGS = {  # by the verdict
    "empty": "This ε limits nothing: treat the model like the notes.",
    "leaks": _MISTRUST,
    "recognised": _MISTRUST,
}


def accepted_limits(run: Run, audit: StoredAudit | None, decision: Decision) -> pd.DataFrame:
    """The limits of a decision beside what was measured of the run (`recommendation.against_limits`)."""
    return against_limits(risks_of(run, audit, decision.limits), decision.limits)


def limit_lines(accepted: pd.DataFrame, attacked: Callable[[Mapping[str, Any]], str] = attack_text) -> list[str]:
    """The rows of `accepted_limits` in words: `membership AUC at most 0.75: not met (up to 0.781)`.

    `attacked` says which attack was behind a row.
    """
    lines = []
    for row in accepted.to_dict("records"):
        name, measured = str(row["measure"]), row["met"] != NOT_MEASURED
        limited = f"{registry.measure_name(name)} at most {exact_limit(name, row['limit'])}"
        end = "no interval" if math.isnan(row["high"]) else f"up to {_compared(name, row['high'], row['limit'])}"
        end += f"; {attacked(row)}" if row.get("attacks") else ""
        lines.append(f"{limited}: {row['met']}{f' ({end})' if measured else ''}")
    return lines


def first_limits(accepted: Sequence[Mapping[Hashable, Any]]) -> list[str]:
    """The limits that the first page has with their figures: up to ON_PAGE of them, those not met before.

    Attacks that could not be bounded are counted; the annex names them.
    """
    order = {met: place for place, met in enumerate((NOT_MET, NOT_MEASURED, MET))}
    rows = sorted(accepted, key=lambda row: order[row["met"]])[:ON_PAGE]
    return limit_lines(pd.DataFrame(rows), _in_short) if rows else []


def _in_short(row: Mapping[str, Any]) -> str:
    """`attack_text`, short enough that the first page stays one: `strongest of 11, 2 not bounded: …`."""
    unbounded = str(row.get("few", "")).count(" patients)")
    if row["attacks"] <= 1 or not unbounded:
        return attack_text(row)
    return f"strongest of {row['attacks']}, {unbounded} not bounded: {in_words(row['attack'])}"


def limits_sentence(accepted: Sequence[Mapping[Hashable, Any]], *, recommended: bool = False) -> str:
    """Whether every accepted limit is met, which are not, and who decides; the report itself decides nothing.

    Args:
        accepted: rows of `accepted_limits`.
        recommended: the report has a recommendation, which is made for limits that are not the decision's.
    """
    decides = "whether to release the model is decided by the risk owner and the approvers, not by this report."
    if not accepted and recommended:
        return f"No limit was given for it; the annex compares those of the recommendation with every ε; {decides}"
    if not accepted:
        return f"No limit was given in numbers, so none was checked; {decides}"
    lacking = [
        (met, [registry.measure_name(str(row["measure"])) for row in accepted if row["met"] == met])
        for met in (NOT_MET, NOT_MEASURED)
    ]
    failed = "; ".join(f"{met}: {', '.join(names)}" for met, names in lacking if names)
    if failed:
        count = sum(row["met"] == MET for row in accepted)
        if len(accepted) == 1:
            return f"The accepted limit is {failed}; {decides}"
        which = (
            f"Not every accepted limit is met, {count} of {len(accepted)} are" if count else "No accepted limit is met"
        )
        return f"{which} ({failed}); {decides}"
    few = {1: "The accepted limit is", 2: "Both accepted limits are"}
    which = few.get(len(accepted), f"All {len(accepted)} accepted limits are")
    return f"{which} met, which does not change the verdict; {decides}"


def exact_limit(name: str, limit: float) -> str:
    """A limit as it was given, since 0.755 must not be shown as 0.76."""
    return f"{100 * limit:.12g}\u00a0%" if registry.number_format(name).share else f"{limit:.12g}"


def _compared(name: str, end: float, limit: float) -> str:
    """The end of an interval that is compared with a limit, in the format of the report's tables.

    It has more digits where it would otherwise look as if it were 0 or on the other side of the limit.
    """
    share = registry.number_format(name).share
    scale, unit, more = (100, "\u00a0%", 2) if share else (1, "", 4)  # digits beyond those of the tables
    most = round(scale * limit, MOST_DIGITS)  # 100 * 0.29 is less than 29
    longer = (f"{scale * end:.{digits}f}{unit}".replace("-", "−") for digits in range(more, MOST_DIGITS))
    for text in (registry.figure_text(name, end), *longer):
        seen = _number(text)
        if (seen <= most) == (end <= limit) and (seen != 0 or end == 0):
            return text
    return f"{scale * end:.{MOST_DIGITS}g}{unit}".replace("-", "−")


def _number(text: str) -> float:
    """The number that a reader sees in a text as `<\u00a00.01\u00a0%` or `>\u00a0−0.01\u00a0%`."""
    return float(text.lstrip("<>").removesuffix("%").strip().replace("−", "-").replace(",", ""))


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
        found.insert(1, "Accept the guarantee for the patient with the most notes, or train with one per patient.")
    warning = _WARNINGS.get(verdict(subject)[0])
    return found if warning is None else [warning, *found]


def _of_access(decision: Decision) -> str:
    match decision.access:
        case "weights":
            return "The recipient gets the weights: no output filter, log or query limit protects afterwards."
        case "api":
            return "Recipients only query: limit and log queries, and keep the weights as safe as the notes."
        case "filtered api":
            return "Recipients only query, through a filter that can be evaded: limit and log queries as well."
    return "Decide who receives the model, and whether they get its weights or an API."


def still_open(
    subject: Subject, decision: Decision, *, audited: bool, recommended: bool, shared: str = ""
) -> list[str]:
    """What this report cannot answer, and how to answer it.

    `shared` says which patients' identifiers no figure counts (`wording.shared_values_sentence`); empty if all count.
    """
    found = []
    if not audited and not subject.run.spec.is_base:
        found.append(f"Attacks beyond the quick audit: {audit_command(subject.run.id)}")
    elif not subject.run.spec.is_base and not subject.rows("attacks", attack=LIRA):
        found.append(f"Whether LiRA, the attack with shadow models, finds more: {shadows_command(subject.run.id)}")
    bounds = [bound for bound in (subject.bound(), subject.curve()) if bound is not None]
    strongest = max(bounds, key=lambda bound: float(bound["ceiling"]), default=None)
    ceiling = math.inf if strongest is None else float(strongest["ceiling"])
    planted = subject.planted()
    if strongest and ceiling < bounds[0]["promised"] < math.inf and not (planted and planted["can_alarm"]):
        contradicted = f"only an ε below {proved_text(ceiling)}" if ceiling > 0 else "no ε"
        found.append(
            f"Whether ε is what it should be: with every guess right, its strongest audit ({strongest['audit']}) "
            f"could contradict {contradicted}. "
            f"{prove_command(subject.run.id)} sees every step."
        )
    tested = subject.rows("hipaa")
    untested = [one["note"] for one in tested if one["tested"] == "no"]
    unknown = untested.count(UNKNOWN)
    found.append(
        f"{len(untested) - unknown} of HIPAA’s 18 identifiers were not looked for: they are not fields of a record."
    )
    if unknown:
        more = "1 more was" if unknown == 1 else f"{unknown} more were"
        found.append(f"{more} not looked for: no patient’s value is known that could be searched for.")
    if shared:
        found.append(shared)
    if unmeasured := _count(subject.tables["accepted_limits"], NOT_MEASURED):
        found.append(f"Accepted limits that were not measured: {unmeasured}.")
    if decision.accepted and not (recommended or decision.limits):
        found.append("The accepted limits are text without numbers by figure: nothing was compared with them.")
    if not (recommended or decision.accepted or decision.limits):
        found.append("Your limits for risk and usefulness: none were given, so nothing is recommended.")
    if missing := decision.missing():
        found.append(f"Missing in the decision: {', '.join(missing)}.")
    return found
