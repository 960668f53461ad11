"""`python -m core findings`: which runs a claim needs, training those that are missing, and the verdicts.

Training goes through `core.demo.training`: a run that was interrupted goes on from its checkpoint, and two processes
share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from core.demo.plan import Planned, estimated_seconds
from core.demo.training import described, train_missing
from core.findings.claim import Claim
from core.findings.judging import Finding, findings, needed
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.findings.wording import figure_text
from core.pipeline.full_audit import SUMMARY, audit
from core.runs.store import Workspace
from core.spec import RunSpec

Say = Callable[[str], None]


@dataclass(frozen=True)
class State:
    """One run that the claims need, and whether everything they read from it is there.

    `seconds` estimates the training and quick audit of a run that is missing, on one slow core; 0 if it is there, and
    None for models from a hub, which are of any size. The estimate leaves out attacks of the full audit.
    """

    need: Need
    there: bool
    seconds: float | None


def states(claims: Sequence[Claim], runs: StoredRuns) -> list[State]:
    """Every run that these claims need, with its state."""
    found = []
    for need in needed(claims):
        there = runs.has(need)
        found.append(State(need, there, 0.0 if there else _seconds(need)))
    return found


def _seconds(need: Need) -> float | None:
    return estimated_seconds(need.spec) if need.spec.model.shipped else None


def train(claims: Sequence[Claim], workspace: Workspace, say: Say) -> None:
    """Train what these claims miss, and attack what has to be attacked. Finished runs and attacks are kept.

    A shipped run without the tables or weights that a claim needs is trained again in the data folder.

    Raises:
        ValueError: Some runs failed; the message names them.
    """
    here = Workspace(workspace.root, shared=())
    missing = [one.need for one in states(claims, StoredRuns(workspace)) if not one.there]
    rows = [Planned("findings", need.spec, False, estimated_seconds(need.spec)) for need in missing]
    try:
        train_missing(here, rows, say=say)
    finally:  # one run that failed does not keep the others from being attacked
        attacked = _attacks(missing)
        for number, (spec, attacks) in enumerate(attacked, start=1):
            run = here.find(spec)
            if run is not None:
                say(f"audit {number}/{len(attacked)} {run.id}: {', '.join(attacks) if attacks else 'all attacks'}")
                audit(run, here, attacks=attacks)


def _attacks(needs: Sequence[Need]) -> list[tuple[RunSpec, list[str] | None]]:
    """The attacks that each run has to get; None for all of them, if a need names a summary and no attack."""
    specs = {need.spec.run_id: need.spec for need in needs if need.audit}
    found = []
    for run_id, spec in specs.items():
        named = [[one for one in need.audit if not one.startswith(SUMMARY)] for need in needs if _audits(need, run_id)]
        found.append((spec, list(dict.fromkeys(chain(*named))) if all(named) else None))
    return found


def _audits(need: Need, run_id: str) -> bool:
    return bool(need.audit) and need.spec.run_id == run_id


def listed(claims: Sequence[Claim], runs: StoredRuns) -> str:
    """The claims with their verdicts, and which runs they need, as text."""
    lines = []
    for one in findings(claims, runs):
        claim = one.claim
        lines.append(f"{claim.id:<6} {one.verdict:<14} {claim.title}")
        figures = one.evidence.figures if one.evidence else ()
        lines += [f"{'':<22}{figure.label}: {figure_text(figure, claim.unit)}" for figure in figures]
        for state in states([claim], runs):
            if not state.there:
                lines.append(f"{'':<22}missing: {_missing(state)}")
    return "\n".join([*lines, "", totals(claims, runs)])


def _missing(state: State) -> str:
    spec, attacks = state.need.spec, state.need.audit
    audit_text = f", {len(attacks)} results of the full audit" if attacks else ""
    minutes = "time unknown" if state.seconds is None else f"about {state.seconds / 60:.0f} minutes"
    return f"{spec.run_id} ({described(spec)}, seed {spec.training.seed}{audit_text}), {minutes}"


def totals(claims: Sequence[Claim], runs: StoredRuns) -> str:
    """`36 of 51 runs are there; about 1.7 hours to train the missing ones on one slow core.`"""
    every = states(claims, runs)
    missing = [one for one in every if not one.there]
    if not missing:
        return f"All {len(every)} runs are there." if every else "No run is needed."
    hours = sum(one.seconds or 0.0 for one in missing) / 3_600
    unknown = sum(one.seconds is None for one in missing)
    return (
        f"{len(every) - len(missing)} of {len(every)} runs are there; about {hours:.1f} hours to train the missing "
        "ones on one slow core" + (f", and an unknown time for {unknown} from a hub." if unknown else ".")
    )


def as_rows(claims: Sequence[Claim], runs: StoredRuns) -> list[dict[str, Any]]:
    """The same for `--json`."""
    return [_row(one, states([one.claim], runs)) for one in findings(claims, runs)]


def _row(one: Finding, needs: Sequence[State]) -> dict[str, Any]:
    claim = one.claim
    figures = one.evidence.figures if one.evidence else ()
    return {
        "id": claim.id,
        "paper": claim.paper,
        "claim": claim.says,
        "paper_figure": claim.figure,
        "place": claim.place,
        "quantity": claim.quantity,
        "verdict": one.verdict,
        "why": one.why,
        "figures": [{"label": f.label, "value": f.value, "low": f.low, "high": f.high} for f in figures],
        "runs": [
            {
                "run": state.need.spec.run_id,
                "there": state.there,
                "seconds": None if state.seconds is None else round(state.seconds),
            }
            for state in needs
        ],
    }
