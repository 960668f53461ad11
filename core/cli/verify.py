"""The command `verify`: checks every stored file against what was written, and repairs what it can."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import FAILURE, AsJson, DataFolder, answer, errors_as_sentences

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
