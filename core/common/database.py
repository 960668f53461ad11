"""A small SQLite file that the threads of several processes share, for state that lives for hours.

It has a rollback journal, not a write-ahead log, whose shared memory would tie it to one machine. So it needs a file
system with working POSIX locks, and no more. What was committed survives the death of any process. Nothing is forced to
disk, so a power failure may lose or damage it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from core.common.files import PRIVATE_FILE, make_folder

WAIT_SECONDS = 5.0  # for other processes' changes, each of which takes a millisecond

_SETTINGS = "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;"


class DatabaseUnusable(OSError):
    """The file cannot be read or written: a full disk, no permission, damage. The message is a sentence."""


class Database:
    """One connection to the file for all threads of this process, which take turns. Only the account can read it."""

    def __init__(self, path: Path, schema: str) -> None:
        """Open nothing yet: the file and its private folder are made by the first change.

        Args:
            path: The file.
            schema: Statements that make the tables, with `IF NOT EXISTS`.
        """
        self.path = path
        self._schema = schema
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0  # of the file that is open

    @contextlib.contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """Change the tables, with nobody else changing them during the block: all of it is kept, or nothing.

        Raises:
            DatabaseUnusable: The change could not be kept.
        """
        with self._lock, self._as_sentence():
            self._make()
            connection = self._connect()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Read the tables; each statement sees a moment between two changes. None while there is no file.

        Raises:
            DatabaseUnusable: It cannot be read.
        """
        with self._lock, self._as_sentence():
            yield self._connect() if self.path.exists() else None

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _make(self) -> None:
        """Make the file, so that SQLite need not, which would give it the mode of the umask."""
        if not self.path.exists():
            make_folder(self.path.parent, private=True)
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE_FILE))

    def _connect(self) -> sqlite3.Connection:
        """The connection to the file that is there now: somebody may have removed the one that was open."""
        inode = self.path.stat().st_ino
        if self._connection is not None and inode != self._inode:
            self._connection.close()
            self._connection = None
        if self._connection is None:
            opened = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                opened.executescript(_SETTINGS + self._schema)
            except BaseException:
                opened.close()
                raise
            self._connection, self._inode = opened, inode
        return self._connection

    @contextlib.contextmanager
    def _as_sentence(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise DatabaseUnusable(f"{self.path} cannot be used: {error}.") from error
        except OSError as error:
            raise DatabaseUnusable(f"{self.path} cannot be used: {error.strerror or error}.") from error
