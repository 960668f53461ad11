"""The command `delete-upload`: deletes an upload with everything made from it, by its code or because it is overdue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences

if TYPE_CHECKING:
    from core.runs.store import Workspace


def delete_upload(
    code: Annotated[
        str | None, typer.Argument(help="The deletion code shown after the upload. Prompts for it if omitted.")
    ] = None,
    overdue: Annotated[
        bool,
        typer.Option(
            "--overdue",
            help="Delete all uploads past their time instead. A server does so once a minute from the first page on.",
        ),
    ] = False,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Delete uploaded notes, and every run, audit and reference model made from them, by their deletion code."""
    with errors_as_sentences():
        from core.runs.store import Workspace

        if overdue and code is not None:
            raise BadInput("Give a deletion code or --overdue, not both.")
        workspace = Workspace(data)
        digests = _overdue(workspace) if overdue else _with_code(workspace, code)
        _delete(workspace, digests, overdue, as_json=as_json)


def _overdue(workspace: Workspace) -> list[str]:
    """Uploads past their time, after what a server deletes beside them: folders without a readable record."""
    from core.runs.uploads.deletion import delete_orphans
    from core.runs.uploads.records import due, put_aside_damaged

    put_aside_damaged(workspace.root)
    delete_orphans(workspace)
    return due(workspace.root)


def _with_code(workspace: Workspace, code: str | None) -> list[str]:
    from core.runs.uploads.records import with_code

    found = with_code(workspace.root, _asked() if code is None else code)
    if not found:
        raise BadInput(
            f"No upload in {workspace.root} has this deletion code. It may be deleted already: uploads are deleted "
            "an hour after their browser session ends. Otherwise check the code, and the folder (--data)."
        )
    return [one.digest for one in found]


def _asked() -> str:
    try:
        if sys.stdin is not None:
            return str(typer.prompt("Deletion code", err=True))
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C
    raise BadInput("Give the deletion code as an argument: standard input has none.")


def _delete(workspace: Workspace, digests: list[str], overdue: bool, *, as_json: bool) -> None:
    from core.runs.uploads.deletion import delete, made_from

    runs = [run_id for digest in digests for run_id in made_from(workspace, digest)]
    finished = all([delete(workspace, digest, only_if_due=overdue) for digest in digests])
    what = "the notes" if len(digests) == 1 else f"{len(digests):,} sets of notes"
    text = f"Deleted: {what}, and {len(runs):,} run{'s' * (len(runs) != 1)} made from them."
    if not finished:
        text += " A job is still working on them and was asked to stop. Run this command again in a minute, or "
        text += "leave the rest to the server, which deletes it when the job has stopped."
    answer({"deleted": len(digests), "runs": runs, "finished": finished}, text, as_json=as_json)
