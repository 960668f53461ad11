"""The head of a ledger: number and SHA-256 of its newest entry, which no later entry covers.

The file `head` beside the entries. Who appends holds `appending`, and three things happen in turn: the head is brought
up to the newest entry, the new entry is linked into place, the head is replaced. So a head is never more than one entry
behind, whoever dies when, and one entry behind it is an interrupted append and nothing else.
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
    """What the newest entry is. Number 0 stands in a ledger whose first entry is being written."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=0)
    sha256: str = Field(min_length=1, description="of the entry's file")

    @classmethod
    def read(cls, folder: Path) -> Head | None:
        """The head in `folder`; None where there is none. Raises ValueError, without a sentence, for a damaged one."""
        try:
            return cls.model_validate_json((folder / NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValidationError, UnicodeDecodeError) as error:
            raise ValueError(NAME) from error

    def replace(self, folder: Path) -> None:
        """Put this head in the place of another, on the disk when this returns: any reader sees the one or the other.

        To be called while `appending` only: a head that goes back would make whole ledgers look harmed.
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
    """Wait until nobody else, thread or process, appends to the ledger in `folder`, which is there; then keep it so.

    The lock is the folder's own and ends with the process. Not to be entered twice by one thread.
    """
    with locked(folder):
        yield


def written(path: Path, text: str) -> None:
    """Write a new file and have it on the disk."""
    with create(path, private=True).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
