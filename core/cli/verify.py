"""Commands that check: `verify` stored files, `refresh` outdated figures, `prove` the steps of a training."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import FAILURE, AsJson, BadInput, DataFolder, answer, errors_as_sentences, say
from core.cli.runs import RunId, as_trained
from core.common.formatting import figure_text

if TYPE_CHECKING:
    import pandas as pd

    from core.evaluation.guarantee.step_audit import StepAudit
    from core.runs.integrity.verify import Damage
    from core.runs.run import Run
    from core.runs.store import Workspace


def verify(
    repair: Annotated[
        bool, typer.Option("--repair", help="Rebuild what can be derived, and move the rest to `damaged/`.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check runs, audits, cohorts, ledgers and records of uploads. Exits with 1 if something is damaged."""
    with errors_as_sentences():
        from core.runs.integrity.upkeep import sweep_store, tighten_store
        from core.runs.integrity.verify import checked, damages
        from core.runs.store import Workspace

        workspace = Workspace(data)
        rows = []
        for damage in damages(workspace):
            done = _repaired(damage, workspace) if repair else ""
            rows.append({"kind": damage.kind, "name": damage.name, "found": damage.sentences(), "done": done})
        if repair:
            tighten_store(workspace.root, workspace.shared)
            sweep_store(workspace.root)
        left = sum(1 for _ in damages(workspace)) if repair else len(rows)
        counts = checked(workspace)
        answer({"checked": counts, "damaged": rows, "left": left}, _text(rows, counts, left), as_json=as_json)
        if left:
            raise typer.Exit(FAILURE)


def _text(rows: list[dict[str, Any]], counts: dict[str, int], left: int) -> str:
    lines = [line for row in rows for line in (*row["found"], f"  {row['done']}") if line.strip()]
    names = {"corpora": "cohorts", "ledger": "ledgers"}
    total = ", ".join(f"{count} {names.get(name, name)}" for name, count in counts.items())
    verdict = f"Damaged: {len(rows)}; left: {left}." if rows else "Nothing is damaged."
    return "\n".join([*lines, f"Checked: {total}. {verdict}"])


def _repaired(damage: Damage, workspace: Workspace) -> str:
    from core.pipeline.repair import repair

    return repair(damage, workspace)


def refresh(
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN…]", help="Only these runs; `runs` lists them. Default: all.")
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Compute outdated figures again from stored tables; no attack is run. Exits with 1 if that fails for a run."""
    with errors_as_sentences():
        from core.evaluation.registry import version
        from core.pipeline.refresh import refresh as refresh_run
        from core.runs.store import Workspace

        workspace = Workspace(data)
        chosen = [workspace.run(name) for name in dict.fromkeys(runs)] if runs else workspace.runs()
        problems = [] if runs else workspace.problems()
        done = []
        for number, run in enumerate(chosen, start=1):
            say(f"[{number}/{len(chosen)}] {run.id}")
            done.append(refresh_run(run, workspace))
        lines = [f"{one.run}: {one.sentence}" for one in done] or ["There are no runs yet: `python -m core train`."]
        versions = {"version": version(), "version_imported": version(imported=True)}
        out = {**versions, "runs": [asdict(one) for one in done], "problems": problems}
        answer(out, "\n".join([*lines, *problems]), as_json=as_json)
        if any(one.state == "failed" for one in done):
            raise typer.Exit(FAILURE)


def prove(
    run: RunId,
    canaries: Annotated[
        int,
        typer.Option(
            min=0,
            help="Also train again with this many planted gradients, and bound ε by them; 5,000 or more to be able "
            "to contradict ε = 8. The result is kept beside the run's audits.",
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option(min=0, help="Seed of the planted gradients' coins and places, to repeat an alarm.")
    ] = 0,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Check that the steps of a private run do what its ε is computed from. Exits with 1 if one does not."""
    with errors_as_sentences():
        from core.evaluation.guarantee.step_audit import check_canaries
        from core.evaluation.wording import planted_sentence
        from core.models.build import load
        from core.training.checks.steps import check_steps

        found, notes = as_trained(run, data)
        spec = found.spec
        if found.privacy is None:
            raise BadInput(f"Run {found.id} was trained without privacy: it promises no ε that could be checked.")
        if canaries:
            check_canaries(canaries)
        say(f"{found.id}: taking steps as in its training")
        checks = check_steps(load(spec.model), notes, spec.training, spec.privacy, found.privacy)
        wrong = [check for check in checks if not check.passed]
        lines = [
            f"{'ok   ' if check.passed else 'WRONG'} {check.claim}: {check.measure} {figure_text(check.value)} "
            f"({figure_text(check.low)} to {figure_text(check.high)})"
            for check in checks
        ]
        lines.append(f"{len(wrong)} of {len(checks)} checks failed." if wrong else f"All {len(checks)} checks passed.")
        told: dict[str, Any] = {"checks": [{**asdict(check), "passed": check.passed} for check in checks]}
        failed = bool(wrong)
        if canaries:
            audit = _planted(found, notes, canaries, seed, data)
            failed |= audit.alarm
            told["planted"] = {**asdict(audit), "seed": seed}
            lines.append(planted_sentence(asdict(audit)) + _what_next(audit))
        answer({"run": found.id, "passed": not failed, **told}, "\n".join(lines), as_json=as_json)
    if failed:
        raise typer.Exit(FAILURE)


def _planted(run: Run, notes: pd.DataFrame, canaries: int, seed: int, data: str | None) -> StepAudit:
    """Train the run again with gradients planted in it, bound ε by what they show, and store that beside its audits."""
    from core.pipeline.planted_gradients import plant
    from core.runs.store import Workspace

    def told(done: int, steps: int) -> None:
        if done % 10 == 0 or done == steps:
            say(f"  step {done} of {steps}")

    say(f"{run.id}: training again with {canaries:,} planted gradients")
    return plant(run, notes, Workspace(data), canaries=canaries, seed=seed, on_step=told)


def _what_next(audit: StepAudit) -> str:
    """What to do about an alarm, or about an audit that cannot raise one."""
    if audit.alarm:
        return " Repeat it with another --seed."
    return "" if audit.can_alarm else " Plant more canaries."
