"""The archive itself: a zip file, not compressed, with `manifest.json` in it.

The manifest lists every file with its size and SHA-256. Weights and tables are compressed already, so the archive
stores them as they are: what it needs on disk is never more than its own size. The same content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.common.files import replaced
from core.common.folders import NEW_SECONDS, locked
from core.common.refusals import first_refusal
from core.runs.backup.kinds import Kind, WrongIdentity, check_identity, is_known, is_name
from core.runs.lock import in_use

MANIFEST = "manifest.json"
FORMAT: Final = "phi-leak-lab backup"
CHUNK = 1 << 20
ItemReport = Callable[[int, int, str], None]  # (number of the item, items, its path)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip file can name


class ArchiveBroken(ValueError):
    """An archive is damaged, was changed, or is none. The message is a sentence that names the file."""


class StoredFile(BaseModel):
    """Size and SHA-256 of one file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Item(BaseModel):
    """One folder of a data folder: its kind, its name and its files."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Kind
    name: str
    files: dict[str, StoredFile] = Field(min_length=1)

    @model_validator(mode="after")
    def _inside(self) -> Self:
        if not is_name(self.kind, self.name):
            raise ValueError(f"{self.path[:80]} is not a name of something that the store keeps")
        for file in self.files:
            if not is_known(self.kind, file):
                raise ValueError(f"{self.path} has a file “{file[:80]}”, which nothing in the store has")
        return self

    @property
    def path(self) -> str:
        """Where it is in a data folder: `runs/gpt2-3f2a9c01d4e7`."""
        return f"{self.kind}/{self.name}"


class Manifest(BaseModel):
    """Everything in an archive, except this list itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["phi-leak-lab backup"] = FORMAT
    version: Literal[1] = 1
    weights: bool = Field(description="whether models of runs are in it")
    items: list[Item]

    @model_validator(mode="after")
    def _once(self) -> Self:
        paths = [item.path for item in self.items]
        if len(set(paths)) < len(paths):
            raise ValueError("something is in it twice")
        return self


# Writing -------------------------------------------------------------------------------------------------------------


@dataclass
class Writer:
    """An archive that is being written."""

    zipped: zipfile.ZipFile

    def add(self, name: str, source: IO[bytes], size: int) -> StoredFile:
        """Store `size` bytes of `source`. Raises ValueError, without a sentence, if there are fewer."""
        digest, left = hashlib.sha256(), size
        with self.zipped.open(_entry(name, size), "w", force_zip64=size > zipfile.ZIP64_LIMIT // 2) as out:
            while left and (piece := source.read(min(CHUNK, left))):
                digest.update(piece)
                out.write(piece)
                left -= len(piece)
        if left:
            raise ValueError(name)
        return StoredFile(sha256=digest.hexdigest(), size=size)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which is last: all content that it names is there."""
        self.zipped.writestr(_entry(MANIFEST), manifest.model_dump_json(indent=1).encode())


def _entry(name: str, size: int = 0) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.external_attr = (stat.S_IFREG | 0o600) << 16
    entry.create_system = 3  # Unix, whatever writes it
    entry.file_size = size
    return entry


@contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """Write an archive for its owner alone. It gets its name when it is complete and on disk; an error leaves nothing.

    What a killed export left beside it is removed.
    """
    _remove_leftovers(path)
    with (
        replaced(path, private=True) as unfinished,
        locked(unfinished),
        zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as zipped,
    ):
        yield Writer(zipped)


def _remove_leftovers(path: Path) -> None:
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}")
    for old in (one for one in path.parent.glob(".*") if ours.fullmatch(one.name) and one.is_file()):
        if time.time() - old.stat().st_mtime > NEW_SECONDS and not in_use(old):
            old.unlink(missing_ok=True)


# Reading -------------------------------------------------------------------------------------------------------------


@dataclass
class Archive:
    """An archive that can be read: its list of files fits its content. `check` compares the content, too."""

    path: Path
    manifest: Manifest
    zipped: zipfile.ZipFile

    def read(self, item: Item, file: str) -> bytes:
        """A file's content. Raises ArchiveBroken."""
        return b"".join(self.pieces(item, file))

    def pieces(self, item: Item, file: str) -> Iterator[bytes]:
        """A file's content in pieces, compared with its checksum at the end. Raises ArchiveBroken."""
        digest = hashlib.sha256()
        try:
            with self.zipped.open(f"{item.path}/{file}") as stored:
                while piece := stored.read(CHUNK):
                    digest.update(piece)
                    yield piece
        except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError):
            raise self._damaged(item, file) from None
        if digest.hexdigest() != item.files[file].sha256:
            raise self._damaged(item, file)

    def check(self) -> None:
        """Compare every file with its checksum, and every name with what the item's settings say.

        Raises:
            ArchiveBroken: A sentence. Nothing of the archive should be used.
        """
        for item in self.manifest.items:
            for file in item.files:
                for _ in self.pieces(item, file):
                    pass
            try:
                check_identity(item.kind, item.name, set(item.files), partial(self.read, item))
            except WrongIdentity as error:
                raise ArchiveBroken(f"The archive {self.path} cannot be used: {item.path} {error}.") from None

    def _damaged(self, item: Item, file: str) -> ArchiveBroken:
        return ArchiveBroken(
            f"The archive {self.path} is damaged: the checksum of {item.path}/{file} differs. Use another copy."
        )


@contextmanager
def reading(path: Path) -> Iterator[Archive]:
    """Open an archive and compare its list of files with its entries: no other entry, no link, no compression.

    Raises:
        ArchiveBroken: It is no archive of this program, is incomplete, or its list of files was changed.
    """
    try:
        zipped = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        raise ArchiveBroken(
            f"{path} is not an archive of `python -m core store export`, or its end is missing. Use another copy."
        ) from None
    with zipped:
        yield Archive(path, _manifest(path, zipped), zipped)


def is_archive(path: Path) -> bool:
    """Whether the file is an archive of this program, by its list of files; its content may be damaged."""
    try:
        with zipfile.ZipFile(path) as zipped:
            manifest = json.loads(zipped.read(MANIFEST))  # other programs write a file of this name as well
        return isinstance(manifest, dict) and manifest.get("format") == FORMAT
    except (OSError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error):
        return False


def _manifest(path: Path, zipped: zipfile.ZipFile) -> Manifest:
    entries = zipped.infolist()
    for entry in entries:
        if not _plain(entry):
            raise ArchiveBroken(
                f"The archive {path} cannot be used: its entry “{entry.filename[:80]}” is not a plain stored file."
            )
    try:
        text = zipped.read(MANIFEST)
    except KeyError:
        raise ArchiveBroken(
            f"{path} is not an archive of `python -m core store export`: it has no {MANIFEST}."
        ) from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError):
        raise ArchiveBroken(
            f"The archive {path} is damaged: its list of files cannot be read. Use another copy."
        ) from None
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        raise ArchiveBroken(
            f"The archive {path} cannot be used: its list of files is not valid ({first_refusal(error)})."
        ) from None
    listed = {f"{item.path}/{file}": told.size for item in manifest.items for file, told in item.files.items()}
    sizes = {entry.filename: entry.file_size for entry in entries if entry.filename != MANIFEST}
    if len(entries) != len(sizes) + 1 or listed != sizes:
        odd = sorted(name for name in listed.keys() | sizes.keys() if listed.get(name) != sizes.get(name))
        what = f"“{odd[0][:80]}”" if odd else "something that is in it twice"
        raise ArchiveBroken(f"The archive {path} cannot be used: its list of files does not fit {what}.")
    return manifest


def _plain(entry: zipfile.ZipInfo) -> bool:
    """Whether an entry is a regular file, neither compressed nor encrypted."""
    kind = stat.S_IFMT(entry.external_attr >> 16)
    stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
    return kind in (0, stat.S_IFREG) and stored and not entry.flag_bits & 0x1 and not entry.is_dir()
