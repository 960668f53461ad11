"""Which files a report is about: SHA-256 of the weights, the mechanism and the cohort, as they are on this disk now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from core.runs.integrity.checksums import Checksums, sha256
from core.runs.run import PRIVACY_FILE, SPEC_FILE, TRAINED_BY_FILE, VOCABULARY_FILE, Run
from core.runs.store import Workspace

WEIGHTS = "model/model.safetensors"
OF_A_RUN = (WEIGHTS, SPEC_FILE, PRIVACY_FILE, VOCABULARY_FILE, TRAINED_BY_FILE)
OF_A_COHORT = ("patients.parquet", "notes.parquet", "canaries.parquet", "diagnoses.parquet")
COLUMNS = ("run", "file", "sha256", "recorded")


def checksums(workspace: Workspace, run: Run) -> pd.DataFrame:
    """One row per file of a run and of its cohort, with COLUMNS; files that are not kept are left out.

    `run` is empty for the cohort's files. `recorded` says whether the file is what was written when run or cohort were
    complete: `same`, `differs`, or `none` where nothing was recorded (shipped ones, and those of older versions).
    """
    rows = _rows(run.folder, OF_A_RUN, run.id)
    folder = workspace.corpus_folder(run.spec.corpus)
    if folder is not None:
        rows += _rows(folder, OF_A_COHORT, "")
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(folder: Path, names: tuple[str, ...], run_id: str) -> list[tuple[str, str, str, str]]:
    written = Checksums.read(folder)
    rows = []
    for name in names:
        if (folder / name).is_file():
            found, expected = sha256(folder / name), None if written is None else written.sha256.get(name)
            recorded = "none" if expected is None else "same" if expected == found else "differs"
            rows.append((run_id, name, found, recorded))
    return rows


def identity(table: pd.DataFrame, run: Run, digest: str) -> dict[str, Any]:
    """The subject's weights and cohort by their checksums, with sentences for what is missing or has changed."""
    weights = table.loc[(table["run"] == run.id) & (table["file"] == WEIGHTS), "sha256"]
    cohort = table.loc[table["run"] == "", ["file", "sha256"]]
    sentences = []
    if weights.empty and not run.spec.is_base:
        sentences.append("No weights are kept here, so there is no checksum to compare a released model with.")
    if cohort.empty:
        sentences.append(f"The cohort is not on this disk: it is built from its settings, whose digest is {digest}.")
    changed = table.loc[table["recorded"] == "differs", "file"].tolist()
    if changed:
        sentences.append(f"Changed since it was written: {', '.join(changed)}. Run `python -m core verify`.")
    return {
        "weights_sha256": None if weights.empty else str(weights.iloc[0]),
        "cohort_sha256": dict(zip(cohort["file"], cohort["sha256"], strict=True)),
        "cohort_digest": digest,
        "sentences": sentences,
    }
