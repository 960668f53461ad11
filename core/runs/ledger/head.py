"""The head of a ledger: number and SHA-256 of its newest entry, which no later entry covers.

It is the file `head` beside the entries. A process that appends holds the folder's lock (`core.common.folders.locked`)
and does three things in turn: it brings the head up to the newest entry, links the new entry into place, and replaces
the head. So a head is never more than one entry behind, whenever a process dies; if it is one behind, an append was
interrupted and nothing else happened.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.common.files import replace_text

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

        Call this only while the folder is `locked`: a head that went back would make intact ledgers look damaged.
        """
        replace_text(folder / NAME, self.model_dump_json(indent=1), private=True)
