"""The claims with their verdicts and the runs that they need, as text and as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core.demo.training import described
from core.findings.claim import Claim
from core.findings.judging import Finding, findings
from core.findings.stored_runs import StoredRuns
from core.findings.training import State, states
from core.findings.wording import figure_text


def listed(claims: Sequence[Claim], runs: StoredRuns) -> str:
    """The claims with their verdicts, and which runs they need, as text."""
    lines = []
    for one in findings(claims, runs):
        claim = one.claim
        lines.append(f"{claim.id:<6} {one.verdict:<14} {claim.title}")
        figures = one.evidence.figures if one.evidence else ()
        lines += [f"{'':<22}{figure.label}: {figure_text(figure, claim.unit)}" for figure in figures]
        lacking = [_missing(state) for state in states([claim], runs) if not state.there and state.seconds != 0]
        lines += [f"{'':<22}missing: {text}" for text in (*lacking, one.missing) if text]
    return "\n".join([*lines, "", totals(claims, runs)])


def _missing(state: State) -> str:
    spec, attacks = state.need.spec, state.need.audit
    audit_text = f", {len(attacks)} results of the full audit" if attacks else ""
    audit_text += f", {state.shadows} shadow models" if state.shadows else ""
    audit_text += f", {len(state.tables)} tables from its weights" if state.tables else ""
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
    """The same as rows, for `--json`."""
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
        "missing": one.missing,
        "figures": [{"label": f.label, "value": f.value, "low": f.low, "high": f.high} for f in figures],
        "runs": [
            {
                "run": state.need.spec.run_id,
                "there": state.there,
                "shadow_models_missing": state.shadows,
                "tables_missing": list(state.tables),
                "seconds": None if state.seconds is None else round(state.seconds),
            }
            for state in needs
        ],
    }
