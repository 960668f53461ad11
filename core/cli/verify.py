"""Commands that maintain what is stored: `verify` checks and repairs files, `refresh` updates outdated figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import FAILURE, AsJson, DataFolder, answer, errors_as_sentences, say

if TYPE_CHECKING:
    from core.runs.integrity.verify import Damage
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
            tighten_store(workspace.root)
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
        out = {"version": version(), "runs": [asdict(one) for one in done], "problems": problems}
        answer(out, "\n".join([*lines, *problems]), as_json=as_json)
        if any(one.state == "made again" for one in done):
            say("An app that is running keeps older figures in memory: restart it.")
        if any(one.state == "failed" for one in done):
            raise typer.Exit(FAILURE)
