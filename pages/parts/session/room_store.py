"""Where class rooms are kept: one database in the data folder, the same for all servers of the folder.

It holds what `rooms` says a room is, and nothing else. A room is removed when nobody has used it for hours.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from sqlite3 import Connection

from core.common.database import Database, DatabaseUnusable

FILE = "classes/rooms.sqlite"  # in the data folder
HOURS = 12.0  # that a room lives after its last use: a day of teaching
USED_SECONDS = 60.0  # between two notes that a room is used; every look would be a change
_TABLES = """
CREATE TABLE IF NOT EXISTS rooms (code TEXT PRIMARY KEY, used REAL NOT NULL, room BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS samples (code TEXT, round INTEGER, digest BLOB, PRIMARY KEY (code, round, digest))
WITHOUT ROWID;
"""


class RoomStore:
    """The rooms of a data folder as bytes. Any thread may use it, and several processes at a time."""

    def __init__(self, root: Path) -> None:
        self._database = Database(root / FILE, _TABLES)
        self._noted: dict[str, float] = {}  # when this process last noted that a room is used

    @contextlib.contextmanager
    def changing(self) -> Iterator[Rooms]:
        """Change rooms, with nobody else changing one during the block. Raises DatabaseUnusable."""
        with self._database.changing() as connection:
            yield Rooms(connection)

    def read(self, code: str) -> bytes | None:
        """A room as it was last written; None if there is none. It counts as used. Raises DatabaseUnusable."""
        with self._database.reading() as connection:
            room = None if connection is None else Rooms(connection).read(code)
        if room is not None:
            self._use(code)
        return room

    def _use(self, code: str) -> None:
        """Note that somebody uses the room, unless this process did so less than a minute ago."""
        now = time.monotonic()
        if now - self._noted.setdefault(code, now) >= USED_SECONDS:
            self._noted[code] = now
            with contextlib.suppress(DatabaseUnusable), self.changing() as rooms:  # a full disk does not end a class
                rooms.use(code)

    def clear_out(self) -> None:
        """Remove rooms that nobody has used for `HOURS`. Raises DatabaseUnusable."""
        if self._database.path.exists():
            with self.changing() as rooms:
                rooms.clear_out()


class Rooms:
    """What can be done to rooms within one change."""

    def __init__(self, connection: Connection) -> None:
        self._tables = connection

    def last_used(self) -> dict[str, float]:
        """When each room was last used (seconds since 1970), the one that was unused for longest first."""
        return dict(self._tables.execute("SELECT code, used FROM rooms ORDER BY used"))

    def read(self, code: str) -> bytes | None:
        """A room; None if there is none."""
        found = self._tables.execute("SELECT room FROM rooms WHERE code = ?", (code,)).fetchone()
        return None if found is None else found[0]

    def write(self, code: str, room: bytes) -> None:
        """Replace a room, or make it. It counts as used now."""
        self._tables.execute("INSERT OR REPLACE INTO rooms VALUES (?, ?, ?)", (code, time.time(), room))

    def use(self, code: str) -> None:
        """Note that somebody uses the room now."""
        self._tables.execute("UPDATE rooms SET used = ? WHERE code = ?", (time.time(), code))

    def remove(self, code: str) -> None:
        """Remove a room with everything about it."""
        for table in ("rooms", "samples"):
            self._tables.execute(f"DELETE FROM {table} WHERE code = ?", (code,))  # noqa: S608 — a name from above

    def clear_out(self) -> None:
        """Remove rooms that nobody has used for `HOURS`."""
        long_ago = time.time() - HOURS * 3600
        for (code,) in self._tables.execute("SELECT code FROM rooms WHERE used < ?", (long_ago,)).fetchall():
            self.remove(code)

    def new_samples(self, code: str, number: int, digests: Sequence[bytes], most: int) -> list[bool]:
        """Keep the digests of samples of a room's round, `most` altogether; which of them are new and kept."""
        of_round = "SELECT count(*) FROM samples WHERE code = ? AND round = ?"
        (kept,) = self._tables.execute(of_round, (code, number)).fetchone()
        found = []
        for digest in digests:
            add = "INSERT OR IGNORE INTO samples VALUES (?, ?, ?)"
            found.append(kept < most and self._tables.execute(add, (code, number, digest)).rowcount == 1)
            kept += found[-1]
        return found

    def forget_samples(self, code: str) -> None:
        """Remove the digests of every round."""
        self._tables.execute("DELETE FROM samples WHERE code = ?", (code,))
