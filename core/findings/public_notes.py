"""Puts the public reports that some claims are about into a data folder, from the text file that they come in."""

from __future__ import annotations

from pathlib import Path

from core.common.files import make_folder
from core.common.folders import building
from core.corpus.importing.importer import import_notes
from core.corpus.importing.note_tables import StageReport
from core.phi.detector.engine import SHAPES
from core.runs.store import Workspace
from core.spec import CorpusSpec

POPULATION = 0.2  # of the reports, for reference models


def add_public_notes(file: Path, workspace: Workspace, wanted: CorpusSpec, report: StageReport | None = None) -> None:
    """Import `file` (documents between blank lines) as the cohort `wanted`, unless it is there.

    The shapes alone search it, because the words of a tagger could differ between its versions, and with them the
    cohort's content id.

    Raises:
        BadNotes: The file cannot be read as notes.
        ValueError: It is another text.
    """
    if workspace.corpus_folder(wanted) is not None:
        return
    with building(workspace.root / "corpora", private=False) as beside:
        made = make_folder(beside / "notes")
        seen = import_notes(
            file,
            made,
            population=POPULATION,
            seed=wanted.seed,
            deduplicate=wanted.deduplicated or "no",
            detector=SHAPES,
            on_progress=report,
        )
        if seen.spec != wanted:
            raise ValueError(
                f"{file.name} is not the text that the claims about public reports were judged on: it gives the cohort "
                f"{seen.spec.imported}, and they name {wanted.imported}."
            )
        workspace.adopt(made, wanted)
