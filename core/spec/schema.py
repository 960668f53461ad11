"""Stored specs of every version: how `spec.json` is written now, and how older ones are read.

A run's `spec.json` has the number of its schema. Whatever a later version defines differently (a new setting, another
default, another name) is handled by a migration: a function from the stored settings to equivalent settings of the next
schema. A run is identified by the digest of its settings *as stored*, under its own schema. It thus keeps its name,
whatever the digest of the migrated settings would be. docs/reference/run-folder.md, "Versions of a spec".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from pydantic import ValidationError

from core.common.refusals import first_refusal
from core.spec import RunSpec
from core.spec.parts import digest_of

KEY = "schema"  # in spec.json; files from before schemas had numbers lack it and have schema 1

Settings = dict[str, Any]
Migration = Callable[[Settings], Settings]
AnyRun = TypeVar("AnyRun", bound=RunSpec)


def _every_note_is_read(settings: Settings) -> Settings:
    """1 → 2: private training per note reads all notes; before, it read at most `max_notes_per_patient` of a patient.

    No setting changes. Which runs read fewer notes depends on their notes: `core.runs.note_cap` finds out.
    """
    return settings


def _bases_have_read_reports(settings: Settings) -> Settings:
    """2 → 3: a run starts from the base models `clinical` by default. Stored settings name theirs: nothing changes."""
    return settings


# In order: from 1 to 2, from 2 to 3.
MIGRATIONS: tuple[Migration, ...] = (_every_note_is_read, _bases_have_read_reports)
SCHEMA = 1 + len(MIGRATIONS)
ALL_NOTES_READ = 2  # the first schema in which private training per note has no cap


class SpecUnreadable(ValueError):
    """A stored spec cannot be used. The message says why, as the rest of a sentence that begins with its file."""


class SpecTooNew(SpecUnreadable):
    """The spec was written by a newer version of this software; nothing is wrong with it."""


@dataclass(frozen=True)
class StoredSpec(Generic[AnyRun]):
    """A spec in its current meaning, the schema in which it was stored, and the name of its run under that schema."""

    spec: AnyRun
    schema: int
    run_id: str


def written(spec: RunSpec) -> str:
    """The text of a `spec.json`: the current schema and all settings, including defaults."""
    return json.dumps({KEY: SCHEMA, **spec.model_dump(mode="json")}, indent=2, ensure_ascii=False)


@overload
def read(text: str, *, migrations: Sequence[Migration] = MIGRATIONS) -> StoredSpec[RunSpec]: ...


@overload
def read(text: str, kind: type[AnyRun], migrations: Sequence[Migration] = MIGRATIONS) -> StoredSpec[AnyRun]: ...


def read(text: str, kind: type[RunSpec] = RunSpec, migrations: Sequence[Migration] = MIGRATIONS) -> StoredSpec[Any]:
    """Read the text of a `spec.json` of this version or an older one. Raises SpecUnreadable."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        raise SpecUnreadable("is damaged: it does not contain JSON") from None
    if not isinstance(settings, dict):
        raise SpecUnreadable("is damaged: it contains no settings")
    schema = settings.pop(KEY, 1)
    newest = 1 + len(migrations)
    if type(schema) is not int or schema < 1:
        raise SpecUnreadable(f"is damaged: {json.dumps(schema)[:20]} is not a schema number")
    if schema > newest:
        raise SpecTooNew(
            f"was written by a newer version of PHI Leak Lab (schema {schema}; this version reads up to {newest}): "
            "update this one"
        )
    try:
        name = f"{settings['model']['kind']}-{digest_of(settings)}"
        for migration in migrations[schema - 1 :]:
            settings = migration(settings)
        return StoredSpec(kind.model_validate(settings), schema, name)
    except ValidationError as error:
        raise SpecUnreadable(f"contains settings that cannot be used ({first_refusal(error)})") from None
    except (KeyError, TypeError, AttributeError):
        raise SpecUnreadable("is damaged: settings are missing") from None
