"""Folders in a store that has no folders: content by its SHA-256, and one manifest a folder, written last.

    objects/<sha256>            a file's content; never changed, and shared by all folders that have it
    runs/<id>.json              the manifest of a finished run: each file's path, SHA-256 and size
    corpora/<digest>.json       of a cohort
    checkpoints/<id>.json       of a run in progress; replaced with each checkpoint
    leases/<id>.<number>        which machine makes a run (core.runs.remote.lease)

A bucket has no rename, but writing one object is atomic. A reader therefore sees a folder completely or not at all: all
content is there before its manifest. Content that a reader gets is compared with its checksum, so damage is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from core.common.files import make_folder
from core.common.folders import building, publish

CHUNK = 1 << 20


class StoreUnusable(OSError):
    """The store does not answer, or something in it is missing or damaged. The message is a sentence."""


def store_address() -> str:
    """The address in $PHILAB_STORE; empty, also for blanks, if this machine keeps its runs to itself."""
    return os.environ.get("PHILAB_STORE", "").strip()


class Store:
    """The store at an address: `file:///srv/phi`, `s3://bucket/prefix`. Credentials are found as by the AWS tools."""

    def __init__(self, address: str) -> None:
        from fsspec.core import url_to_fs

        self.address = address.rstrip("/")
        try:
            self.fs, root = url_to_fs(self.address, use_listings_cache=False)
        except (ValueError, ImportError) as error:
            raise StoreUnusable(
                f"The store {self.address} cannot be used ({error}). Give an address such as s3://bucket/prefix in "
                "PHILAB_STORE; s3:// needs the package s3fs."
            ) from None
        self.root = root.rstrip("/")
        self._local = "file" in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else (self.fs.protocol,))

    @classmethod
    def of_environment(cls) -> Store | None:
        """The store in $PHILAB_STORE; None, also for blanks, means that this machine keeps its runs to itself."""
        address = store_address()
        return cls(address) if address else None

    # Folders -----------------------------------------------------------------------------------------------------

    def publish(self, kind: str, name: str, folder: Path, files: list[str] | None = None) -> None:
        """Store `folder` (or the named files of it), replacing what had the name. Raises StoreUnusable."""
        found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        with self._in_words(f"{kind}/{name}"):
            stored = {file: self._upload(folder / file) for file in (found if files is None else files)}
            self.write(f"{kind}/{name}.json", json.dumps({"version": 1, "files": stored}).encode())

    def fetch(self, kind: str, name: str, to: Path, whole: Callable[[Path], bool] = Path.exists) -> bool:
        """Make the folder `to` from the store, whole or not at all. False if the store has none, or `to` is there.

        Args:
            kind: `runs`, `corpora` or `checkpoints`.
            name: Of the folder in the store.
            to: Its place here. What is there but not `whole` is replaced.
            whole: Returns whether the folder here can be used.

        Raises:
            StoreUnusable: Something of it is missing or damaged; nothing is made then.
        """
        manifest = self.manifest(kind, name)
        if manifest is None or (to.exists() and whole(to)):
            return False
        with building(to.parent, private=False) as beside:
            for file, told in manifest.items():
                self._download(told["sha256"], beside / file, f"{kind}/{name}")
            return publish(beside, to, whole)

    def manifest(self, kind: str, name: str) -> dict[str, dict[str, Any]] | None:
        """Files of a stored folder, each with SHA-256 and size; None if there is none. Raises StoreUnusable."""
        text = self.read(f"{kind}/{name}.json")
        if text is None:
            return None
        try:
            files = dict(json.loads(text)["files"])
            inside = all(
                not PurePosixPath(file).is_absolute() and ".." not in PurePosixPath(file).parts for file in files
            )
            hashes = all(len(told["sha256"]) == 64 and int(told["sha256"], 16) >= 0 for told in files.values())
        except (ValueError, KeyError, TypeError, RecursionError):
            inside = hashes = False
        if not (inside and hashes):
            raise StoreUnusable(f"{self._damaged(f'{kind}/{name}')} its list of files cannot be read.")
        return files

    def names(self, kind: str) -> list[str]:
        """Names of all stored folders of a kind. Raises StoreUnusable."""
        return sorted(name.removesuffix(".json") for name in self.list(kind) if name.endswith(".json"))

    # Objects -----------------------------------------------------------------------------------------------------

    def list(self, kind: str) -> list[str]:
        """Names of the objects under `kind`."""
        with self._in_words(kind):
            try:
                found = self.fs.ls(f"{self.root}/{kind}", detail=False)
            except FileNotFoundError:
                return []
        return sorted(path.rsplit("/", 1)[1] for path in found if not path.rsplit("/", 1)[1].startswith("."))

    def read(self, path: str) -> bytes | None:
        """An object's content; None if there is none."""
        with self._in_words(path):
            try:
                return bytes(self.fs.cat_file(f"{self.root}/{path}"))
            except FileNotFoundError:
                return None

    def write(self, path: str, content: bytes, *, new: bool = False) -> bool:
        """Write an object at once. With `new`, only if there is none: of two writers, exactly one gets True."""
        with self._in_words(path):
            full = f"{self.root}/{path}"
            if self._local:
                return _write_file(Path(full), content, new=new)
            try:
                self.fs.pipe_file(full, content, mode="create" if new else "overwrite")
            except FileExistsError:
                return False
        return True

    def remove(self, path: str) -> None:
        """Remove an object, if there is one."""
        with self._in_words(path), suppress(FileNotFoundError):
            self.fs.rm_file(f"{self.root}/{path}")

    def _upload(self, path: Path) -> dict[str, Any]:
        """Store a file's content as it is now: it may be replaced or appended to meanwhile."""
        with path.open("rb") as file:
            size, sha = os.fstat(file.fileno()).st_size, hashlib.sha256()
            for piece in _pieces(file, size):
                sha.update(piece)
            file.seek(0)
            full = f"{self.root}/objects/{sha.hexdigest()}"  # written also if it is there: that one may be damaged
            if self._local:
                _write_file(Path(full), file.read(size), new=False)
            else:
                with self.fs.open(full, "wb") as out:
                    for piece in _pieces(file, size):
                        out.write(piece)
        return {"sha256": sha.hexdigest(), "size": size}

    def _download(self, sha256: str, to: Path, of: str) -> None:
        make_folder(to.parent)
        sha = hashlib.sha256()
        with self._in_words(of):
            try:
                with self.fs.open(f"{self.root}/objects/{sha256}", "rb") as file, to.open("wb") as out:
                    while piece := file.read(CHUNK):
                        sha.update(piece)
                        out.write(piece)
            except FileNotFoundError:
                raise StoreUnusable(f"{self._damaged(of)} {to.name} is missing.") from None
        if sha.hexdigest() != sha256:
            raise StoreUnusable(f"{self._damaged(of)} the checksum of {to.name} differs.")

    def _damaged(self, of: str) -> str:
        return f"{of} in the store {self.address} is damaged (remove {of}.json there to have it made again):"

    @contextmanager
    def _in_words(self, what: str) -> Iterator[None]:
        try:
            yield
        except (StoreUnusable, FileNotFoundError):
            raise
        except Exception as error:  # each file system has exceptions of its own
            raise StoreUnusable(
                f"The store {self.address} does not give or take {what} ({type(error).__name__}: {error}). Check "
                "PHILAB_STORE, the network, and the credentials in the environment."
            ) from error


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while size > 0 and (piece := file.read(min(CHUNK, size))):
        size -= len(piece)
        yield piece


def _write_file(path: Path, content: bytes, *, new: bool) -> bool:
    """Write a local file at once, as a bucket does; see `Store.write`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{secrets.token_hex(6)}")
    try:
        beside.write_bytes(content)
        if new:
            os.link(beside, path)
        else:
            os.replace(beside, path)
    except FileExistsError:
        return False
    finally:
        beside.unlink(missing_ok=True)
    return True
