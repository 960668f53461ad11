"""Checksums of every file of a run or a cohort, written when it is complete: `checksums.json` in its folder.

`python -m core verify` compares them. The file also names the cohort of a run, in case the run's spec gets damaged
(`core.runs.uploads.ownership`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path, PurePosixPath

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from core.common.files import replace_text
from core.runs.events import CANCEL_FILE
from core.spec import CorpusSpec

FILE = "checksums.json"


class Checksums(BaseModel):
    """SHA-256 of each file by its path in the folder, and the digest of the cohort it belongs to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: str
    imported: bool
    sha256: dict[str, str]

    @field_validator("sha256")
    @classmethod
    def _inside_the_folder(cls, sums: dict[str, str]) -> dict[str, str]:
        for name in sums:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\0" in name:
                raise ValueError(f"{name!r} is not the name of a file in the folder")
        return sums

    @classmethod
    def read(cls, folder: Path) -> Checksums | None:
        """The checksums written when the folder was complete; None if there are none, or none that can be read."""
        try:
            return cls.model_validate_json((folder / FILE).read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, folder: Path) -> None:
        """Write the checksums to the folder."""
        replace_text(folder / FILE, self.model_dump_json(indent=1))

    def damaged(self, folder: Path) -> dict[str, str]:
        """Files that are missing or have changed, each with the problem in words."""
        found = {}
        for name, expected in self.sha256.items():
            path = folder / name
            try:
                if path.exists() and not path.is_file():  # a pipe or a device may never end
                    found[name] = "is not a regular file"
                elif sha256(path) != expected:
                    found[name] = "is not what was written: its checksum differs"
            except FileNotFoundError:
                found[name] = "is missing"
            except OSError as error:
                found[name] = f"cannot be read ({error.strerror})"
        return found


def take(folder: Path, corpus: CorpusSpec) -> Checksums:
    """Write the checksums of everything in `folder` to it, except hidden files and a request to stop; return them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not _hidden(path.relative_to(folder)))
    sums = {str(path.relative_to(folder)): sha256(path) for path in files if path.name not in (FILE, CANCEL_FILE)}
    taken = Checksums(corpus=corpus.digest(), imported=corpus.imported is not None, sha256=sums)
    taken.write(folder)
    return taken


def sha256(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
