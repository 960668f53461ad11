"""Stored specs of every version: how `spec.json` is written today, and how an older one is read.

A run's `spec.json` carries the number of its schema. What a later version means differently (a new setting, another
default, another name) it says in a migration: a function from the stored settings to settings of the next schema that
mean the same. A run is known by the digest of its settings *as they were stored*, under its own schema; so it keeps its
name, whatever today's digest of the migrated settings would be. docs/reference/run-folder.md, "Versions of a spec".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from core.spec import RunSpec
from core.spec.parts import digest_of

KEY = "schema"  # in spec.json; files from before there were numbers lack it and have schema 1

Settings = dict[str, Any]
Migration = Callable[[Settings], Settings]
AnyRun = TypeVar("AnyRun", bound=RunSpec)


def _every_note_is_read(settings: Settings) -> Settings:
    """1 → 2: private training per note reads all notes, whatever `max_notes_per_patient` says; before, it read so many.

    No setting changes. Which runs read less is a matter of their notes: `core.runs.note_cap` finds out.
    """
    return settings


MIGRATIONS: tuple[Migration, ...] = (_every_note_is_read,)  # in order: the first is from schema 1 to 2
SCHEMA = 1 + len(MIGRATIONS)
ALL_NOTES_READ = 2  # the first schema in which private training per note has no cap


class SpecUnreadable(ValueError):
    """A stored spec cannot be used. The text says why, as the rest of a sentence that begins with its file."""


class SpecTooNew(SpecUnreadable):
    """A newer version of this software wrote it: nothing is wrong with it."""


@dataclass(frozen=True)
class StoredSpec(Generic[AnyRun]):
    """A spec as it means today, the schema that it was stored in, and the name of its run under that schema."""

    spec: AnyRun
    schema: int
    run_id: str


def written(spec: RunSpec) -> str:
    """The text of a `spec.json`: today's schema and all settings, also those that are as usual."""
    return json.dumps({KEY: SCHEMA, **spec.model_dump(mode="json")}, indent=2, ensure_ascii=False)


def read(text: str, kind: type[AnyRun] = RunSpec, migrations: Sequence[Migration] = MIGRATIONS) -> StoredSpec[AnyRun]:
    """Read the text of a `spec.json` of this version or an older one. Raises SpecUnreadable."""
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError):
        raise SpecUnreadable("is damaged: it holds no JSON") from None
    if not isinstance(settings, dict):
        raise SpecUnreadable("is damaged: it holds no settings")
    schema = settings.pop(KEY, 1)
    newest = 1 + len(migrations)
    if type(schema) is not int or schema < 1:
        raise SpecUnreadable(f"is damaged: {json.dumps(schema)[:20]} is no number of a schema")
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
        raise SpecUnreadable(f"holds settings that cannot be used ({_first(error)})") from None
    except (KeyError, TypeError, AttributeError):
        raise SpecUnreadable("is damaged: settings are missing") from None


def _first(error: ValidationError) -> str:
    """The first complaint, with the setting that it is about."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else first["msg"].removeprefix("Value error, ")
