"""The commands `store export`, `store import` and `store prune`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.cli.output import FAILURE, AsJson, BadInput, DataFolder, answer, errors_as_sentences, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from core.pipeline.prune import Prunable
    from core.runs.backup.importing import Imported

NAME = "phi-leak-lab.zip"
WORDS = {
    "uploads": "record of uploads",
    "corpora": "cohort",
    "runs": "run",
    "audits": "audit",
    "references": "folder of reference models",
    "ledger": "ledger",
}
PLURAL = {"record of uploads": "records of uploads", "folder of reference models": "folders of reference models"}

app = typer.Typer(help="Back up the data folder, restore it, and find what it could do without.")


@app.command("export")
def export_store(
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"The archive, or a folder for the archive {NAME}.")],
    run: Annotated[
        list[str] | None,
        typer.Option("--run", metavar="RUN", help="Only this run, its control, cohort and audit. Repeatable."),
    ] = None,
    without_weights: Annotated[
        bool, typer.Option("--without-weights", help="Leave out models. All figures are kept.")
    ] = False,
    uploads: Annotated[
        bool, typer.Option("--uploads", help="Also imported notes, and everything made from them. Keep it private.")
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Write runs, audits, cohorts, reference models and ledgers to one archive with checksums.

    Never: work in progress, keys and ended sign-ins. Exits with 1 if something damaged or in use was left out.
    """
    with errors_as_sentences():
        from core.runs.backup.exporting import export
        from core.runs.store import Workspace

        workspace = Workspace(data)
        target = file / NAME if file.is_dir() else file
        done = export(
            workspace, target, runs=run or (), weights=not without_weights, uploads=uploads, on_progress=_teller()
        )
        size, making = target.stat().st_size, len(workspace.works())
        counts = Counter(item.kind for item in done.items)
        lines = [f"Wrote {target} ({_megabytes(size)}): {_counted(counts)}."]
        if done.private:
            lines.append(
                f"Left out: {done.private} items on imported notes, among them the ledgers of such cohorts. --uploads "
                "exports them too."
            )
        if uploads:
            lines.append("The archive holds imported notes. Nothing deletes them there when an upload's time is over.")
        if making and not run:
            lines.append(f"Left out: {making} runs in progress, interrupted or failed.")
        lines += done.problems
        out = {
            "file": str(target),
            "bytes": size,
            "items": [item.path for item in done.items],
            "private_left_out": done.private,
            "problems": done.problems,
        }
        answer(out, "\n".join(lines), as_json=as_json)
        if done.problems:
            raise typer.Exit(FAILURE)


@app.command("import")
def import_store(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive written by `store export`.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, and write nothing.")] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Take over what an archive has and the data folder lacks. Nothing that is there is replaced.

    Exits with 2 if the archive is damaged or was changed, and with 1 if something in it was refused.
    """
    with errors_as_sentences():
        from core.runs.backup.importing import import_archive
        from core.runs.store import Workspace

        workspace = Workspace(data)
        done = import_archive(workspace, file, dry_run=dry_run, on_progress=_teller())
        out = [{"item": one.path, "outcome": one.outcome, "why": one.why} for one in done]
        answer({"dry_run": dry_run, "items": out}, _import_text(done, dry_run), as_json=as_json)
        if any(one.outcome == "refused" for one in done):
            raise typer.Exit(FAILURE)


def _import_text(done: list[Imported], dry_run: bool) -> str:
    said = {
        "imported": "Would import" if dry_run else "Imported",
        "completed": "Would add the weights of" if dry_run else "Added the weights of",
        "there": "Already here with equal content",
    }
    lines = []
    for outcome, words in said.items():
        counts = Counter(one.path.partition("/")[0] for one in done if one.outcome == outcome)
        if counts:
            lines.append(f"{words}: {_counted(counts)}.")
    return "\n".join([*lines, *(one.why for one in done if one.outcome == "refused")]) or "The archive is empty."


@app.command("prune")
def prune_store(
    what: Annotated[
        list[str] | None,
        typer.Option(
            "--what", help="work, checkpoints, references, cohorts or weights. Repeatable. Default: all but weights."
        ),
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option("--older-than", min=0, metavar="DAYS", help="Only what has not changed for so long. Default: 30."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted: the default.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete it.")] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Say what could be deleted and how much space that frees. With --yes, delete it.

    Never: figures, audits, imported notes, ledgers, and the cohorts and weights of what a ledger has as released.
    """
    with errors_as_sentences():
        from core.jobs.queues.shared import SharedQueue
        from core.pipeline.prune import DAYS, EVERYTHING, USUAL, plan, prune
        from core.runs.store import Workspace

        if dry_run and yes:
            raise BadInput("--dry-run deletes nothing, and --yes deletes: give one of them.")
        for one in what or ():
            if one not in EVERYTHING:
                raise BadInput(f"--what: “{one}” is not one of {', '.join(EVERYTHING)}.")
        workspace = Workspace(data)
        chosen = [one for one in EVERYTHING if one in what] if what else USUAL
        days = DAYS if older_than is None else older_than
        waiting = SharedQueue(workspace.root).elsewhere()
        planned = plan(workspace, chosen, days=days, waiting=waiting)
        rest = plan(workspace, [one for one in EVERYTHING if one not in chosen], days=days, waiting=waiting)
        others = [one for one in rest if not any(one.folder.is_relative_to(of.folder) for of in planned)]
        deleted = prune(workspace, planned) if yes else []
        out: dict[str, Any] = {
            "planned": [_as_row(one) for one in planned],
            "deleted": [_as_row(one) for one in deleted],
            "bytes": sum(one.size for one in (deleted if yes else planned)),
        }
        answer(out, _prune_text(planned, deleted, others, yes), as_json=as_json)
        if yes and len(deleted) < len(planned):
            raise typer.Exit(FAILURE)


def _prune_text(planned: list[Prunable], deleted: list[Prunable], others: list[Prunable], yes: bool) -> str:
    shown = deleted if yes else planned
    lines = [f"{_megabytes(one.size):>12}  {one.what:<12}{one.name}  {one.why}" for one in shown]
    total = _megabytes(sum(one.size for one in shown))
    if yes:
        lines.append(f"Deleted: {len(deleted)}, {total}.")
        if len(deleted) < len(planned):
            lines.append(f"Not deleted, because it is in use now or cannot be removed: {len(planned) - len(deleted)}.")
    else:
        lines.append(f"Would free {total}. --yes deletes this." if planned else "There is nothing to delete.")
    for kind, count in Counter(one.what for one in others).items():
        size = sum(one.size for one in others if one.what == kind)
        lines.append(f"Not chosen: {count} of the kind {kind}, {_megabytes(size)} (--what {kind}).")
    return "\n".join(lines)


def _as_row(one: Prunable) -> dict[str, Any]:
    return {"what": one.what, "name": one.name, "folder": str(one.folder), "bytes": one.size, "why": one.why}


def _teller() -> Callable[[int, int, str], None]:
    """Prints every tenth item, so that an archive of thousands does not fill the screen."""

    def tell(number: int, items: int, path: str) -> None:
        if number in (1, items) or number % 10 == 0:
            say(f"[{number}/{items}] {path}")

    return tell


def _counted(counts: Counter[Any]) -> str:
    """`3 runs, 1 cohort`."""
    parts = []
    for kind, word in WORDS.items():
        if count := counts[kind]:
            parts.append(f"{count} {word if count == 1 else PLURAL.get(word, f'{word}s')}")
    return ", ".join(parts) or "nothing"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
