"""DuckDB over Parquet files: one in-memory database for all queries of this process.

Opening a database takes 18 ms of a core, a cursor of an open one 1 ms. Tables that are registered with a cursor are its
own, so queries of several threads do not see each other's, and they end with it.
"""

from __future__ import annotations

import atexit
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb

STOPPED_BY_SIGNAL = "Query interrupted"  # DuckDB's whole message; a query stopped by `interrupt()` has another one
MEMORY = "1GB"  # of all queries that run at the same time, beside the app; beyond it, they use temporary files


@dataclass
class _Shared:
    """The database, opened at its first use, and the folder of its temporary files, which this account alone reads."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    folder: tempfile.TemporaryDirectory | None = None
    database: duckdb.DuckDBPyConnection | None = None

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A new connection to the database, which its caller closes."""
        with self.lock:
            if self.database is None:
                self.folder = tempfile.TemporaryDirectory(prefix="phi-leak-lab-")
                settings: dict[str, str | bool | int | float | list[str]] = {
                    "memory_limit": MEMORY,
                    "threads": 2,
                    "temp_directory": self.folder.name,
                }
                self.database = duckdb.connect(config=settings)
                atexit.register(self.close)
            return self.database.cursor()

    def close(self) -> None:
        """Close the database, at the end of the process."""
        with self.lock:
            if self.database is not None:
                self.database.close()
            self.database = None


_shared = _Shared()


@contextmanager
def cursor() -> Iterator[duckdb.DuckDBPyConnection]:
    """A cursor for a few queries of one thread. It has no tables but those that are registered with it.

    Raises:
        KeyboardInterrupt: Ctrl-C stopped a query. DuckDB takes the signal and raises a RuntimeError, which would count
            as a failed attack, and the command would go on.
    """
    with _shared.cursor() as opened:
        try:
            yield opened
        except RuntimeError as error:
            if str(error) == STOPPED_BY_SIGNAL:
                raise KeyboardInterrupt from None
            raise
