"""The head of a ledger: number and SHA-256 of its newest entry, which no later entry covers.

It is the file `head` beside the entries. A process that appends holds `appending` and does three things in turn: it
brings the head up to the newest entry, links the new entry into place, and replaces the head. So a head is never more
than one entry behind, whenever a process dies; if it is one behind, an append was interrupted and nothing else
happened.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.common.files import create, sync
from core.common.folders import locked

NAME = "head"


class Head(BaseModel):
    """Number and digest of the newest entry. The number is 0 while the first entry of a ledger is being written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=0)
    sha256: str = Field(min_length=1, description="of the entry's file")

    @classmethod
    def read(cls, folder: Path) -> Head | None:
        """The head in `folder`; None if there is none. Raises ValueError, without a sentence, if it is damaged."""
        try:
            return cls.model_validate_json((folder / NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValidationError, UnicodeDecodeError) as error:
            raise ValueError(NAME) from error

    def replace(self, folder: Path) -> None:
        """Replace the head by this one, on disk when this returns; any reader sees either the old or the new one.

        Call this only while `appending`: a head that went back would make intact ledgers look damaged.
        """
        beside = folder / f".{NAME}-{secrets.token_hex(4)}"
        try:
            written(beside, self.model_dump_json(indent=1))
            os.replace(beside, folder / NAME)
        finally:
            beside.unlink(missing_ok=True)
        sync(folder)


@contextmanager
def appending(folder: Path) -> Iterator[None]:
    """Wait until no other thread or process appends to the ledger in `folder`, which must exist; then keep it so.

    The lock is on the folder itself and ends with the process. A thread must not enter it twice.
    """
    with locked(folder):
        yield


def written(path: Path, text: str) -> None:
    """Write a new file and sync it to disk."""
    with create(path, private=True).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
