"""Puts the labelled abstracts that some claims are about into a data folder: sentences with their entities (IOB)."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path

from core.common.files import make_folder
from core.common.folders import building, publish
from core.runs.store import Workspace
from core.tasks.iob import JUDGE_FILE, LEARN_FILE

FOLDER = "labelled"  # of a data folder
# Name of a corpus → its folder as it comes, and the beginning of the SHA-256 of its two files together.
CORPORA: Mapping[str, tuple[str, str]] = {
    "BC5CDR": ("BC5CDR-IOB", "f0766c9c9fdd"),
    "NCBI disease": ("NCBI-disease-IOB", "1e35c454273c"),
}


def add_labelled_abstracts(folder: Path, workspace: Workspace) -> None:
    """Copy the two files of every corpus from `folder`, all or none, unless they are there.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: It is another text.
    """
    if labelled_abstracts(workspace):
        return
    for name, (comes_as, digest) in CORPORA.items():
        if digest_of(folder / comes_as) != digest:
            raise ValueError(
                f"{folder / comes_as} does not hold the sentences of {name} that the claims about real abstracts were "
                "judged on."
            )
    with building(workspace.root, private=False) as beside:
        for comes_as, _ in CORPORA.values():
            for file in (LEARN_FILE, JUDGE_FILE):
                shutil.copyfile(folder / comes_as / file, make_folder(beside / comes_as) / file)
        publish(beside, workspace.root / FOLDER, Path.is_dir)


def labelled_abstracts(workspace: Workspace) -> dict[str, Path]:
    """All corpora of a data folder by name, each a folder with the two files; empty if they were not added."""
    place = workspace.root / FOLDER
    return {name: place / comes_as for name, (comes_as, _) in CORPORA.items()} if place.is_dir() else {}


def digest_of(folder: Path) -> str:
    """The first twelve digits of the SHA-256 of the sentences to learn from and those to judge on."""
    found = hashlib.sha256()
    for file in (LEARN_FILE, JUDGE_FILE):
        if not (folder / file).is_file():
            names = " and ".join(comes_as for comes_as, _ in CORPORA.values())
            raise FileNotFoundError(f"{folder / file} does not exist. Give the folder that holds {names}.")
        found.update((folder / file).read_bytes())
    return found.hexdigest()[:12]
