"""The head of a ledger: number and SHA-256 of its newest entry, which no later entry covers.

The file `head` beside the entries. Who appends holds the folder's lock (`core.common.folders.locked`), and three things
happen in turn: the head is brought up to the newest entry, the new entry is linked into place, the head is replaced. So
a head is never more than one entry behind, whoever dies when, and one entry behind it is an interrupted append and
nothing else.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.common.files import replace_text

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

        To be called while the folder is `locked` only: a head that goes back would make whole ledgers look harmed.
        """
        replace_text(folder / NAME, self.model_dump_json(indent=1), private=True)
