"""The command `delete-upload`: deletes an upload, and everything made from it, by its deletion code."""

from __future__ import annotations

from typing import Annotated

import typer

from core.cli.output import AsJson, BadInput, DataFolder, answer, errors_as_sentences


def delete_upload(
    code: Annotated[
        str | None, typer.Argument(help="The deletion code shown after the upload. Prompts for it if omitted.")
    ] = None,
    data: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Delete uploaded notes, and every run, audit and reference model made from them, by their deletion code."""
    with errors_as_sentences():
        from core.runs.store import Workspace
        from core.runs.uploads.deletion import delete, made_from
        from core.runs.uploads.records import with_code

        if code is None:
            code = typer.prompt("Deletion code", err=True)
        workspace = Workspace(data)
        found = with_code(workspace.root, code)
        if not found:
            raise BadInput(
                f"No upload in {workspace.root} has this deletion code. It may be deleted already: uploads are deleted "
                "an hour after their browser session ends. Otherwise check the code, and the folder (--data)."
            )
        runs = [run_id for one in found for run_id in made_from(workspace, one.digest)]
        finished = all([delete(workspace, one.digest) for one in found])
        text = f"Deleted: the notes, and {len(runs):,} run{'s' * (len(runs) != 1)} made from them."
        if not finished:
            text += " A job is still working on them and was asked to stop. Run this command again in a minute, or "
            text += "leave the rest to the server, which deletes it when the job has stopped."
        answer({"deleted": len(found), "runs": runs, "finished": finished}, text, as_json=as_json)
