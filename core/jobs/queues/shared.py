"""What the servers of one data folder know of each other's queues: what waits where, and who submitted how much.

Each server hands its own jobs to its own workers; this tells the others. A server holds a lock file while it lives.
What waited at a dead one counts no more. Where the file cannot be used, a server goes on as if it were the only one,
by what was submitted to it.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from core.common.database import Database, DatabaseUnusable
from core.common.files import make_folder
from core.runs.lock import held, in_use

FOLDER, FILE = "jobs", "queue.sqlite"  # in the data folder
DAY_SECONDS = 86_400.0
OWNED_SECONDS = 7 * DAY_SECONDS  # that an interrupted job stays its owner's
NEW_SECONDS = 60.0  # that a server may take to lock its new file
_TABLES = """
CREATE TABLE IF NOT EXISTS waiting (job TEXT, server TEXT, user TEXT, place INTEGER, PRIMARY KEY (job, server));
CREATE TABLE IF NOT EXISTS owners (job TEXT PRIMARY KEY, user TEXT, submitted REAL);
CREATE TABLE IF NOT EXISTS asked (user TEXT, job TEXT, submitted REAL, minutes REAL, PRIMARY KEY (user, job));
CREATE TABLE IF NOT EXISTS closed (server TEXT PRIMARY KEY);
"""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Elsewhere:
    """A job that waits or runs at another server. `place` is the number of jobs before it there."""

    user: str | None
    place: int


class SharedQueue:
    """One server's part in it, and its view of the others. Any thread may use it."""

    def __init__(self, root: Path) -> None:
        self.server = secrets.token_hex(8)
        self._folder = root / FOLDER
        self._database = Database(self._folder / FILE, _TABLES)
        self._lives = contextlib.ExitStack()
        self._beginning = threading.Lock()
        self._published: list[tuple[str, str | None]] | None = []  # None: other servers may have changed it
        self._here: dict[str, tuple[str, float, float]] = {}  # user, time and minutes of each job submitted here
        self._problem = ""

    # This server's jobs -------------------------------------------------------------------------------------------

    def publish(self, jobs: Sequence[tuple[str, str | None]]) -> None:
        """Tell the others which jobs wait or run here, in order, each with its user."""
        if list(jobs) == self._published and (not jobs or self._lock_file(self.server).exists()):
            return
        with self._alone_without(), self._changing() as tables:
            self._forget_the_dead(tables)
            tables.execute("DELETE FROM waiting WHERE server = ?", (self.server,))
            rows = [(job, self.server, user, place) for place, (job, user) in enumerate(jobs)]
            tables.executemany("INSERT INTO waiting VALUES (?, ?, ?, ?)", rows)
            self._published = list(jobs)

    def submitted(self, job_id: str, user: str | None, minutes: float) -> None:
        """Note who submitted a job, with its estimated minutes. None: the machine's owner, whose jobs nobody owns."""
        now = time.time()
        self._published = None  # a server that cancelled an earlier submission has removed it from what is told
        owned = now - OWNED_SECONDS  # rows that are older are deleted, here as in the file
        here = {job: one for job, one in list(self._here.items()) if one[1] >= owned and job != job_id}
        self._here = here if user is None else {**here, job_id: (user, now, minutes)}
        with self._alone_without(), self._changing() as tables:
            tables.execute("DELETE FROM asked WHERE submitted < ?", (now - DAY_SECONDS,))
            tables.execute("DELETE FROM owners WHERE job = ? OR submitted < ?", (job_id, owned))
            if user is not None:
                tables.execute("INSERT INTO owners VALUES (?, ?, ?)", (job_id, user, now))
                tables.execute("INSERT OR REPLACE INTO asked VALUES (?, ?, ?, ?)", (user, job_id, now, minutes))

    def cancelled(self, job_id: str, *, give_back: str | None) -> None:
        """Remove a job from every server's queue. Its minutes no longer count for the user to `give_back` them to.

        Minutes that are not given back are kept under another name. If the job is submitted again, it starts from the
        beginning, and its minutes are added to them. A job that failed or was interrupted resumes, so its minutes count
        once.
        """
        if (here := self._here.get(job_id)) is not None:
            user, when, minutes = here
            if user != give_back:
                self._here[_spent(job_id, when)] = here
            self._here[job_id] = user, when, 0.0  # the owner stays known
        with self._alone_without(), self._changing() as tables:
            tables.execute("DELETE FROM waiting WHERE job = ? AND server != ?", (job_id, self.server))
            tables.execute("DELETE FROM asked WHERE job = ? AND user = ?", (job_id, give_back))
            for user, when in tables.execute("SELECT user, submitted FROM asked WHERE job = ?", (job_id,)).fetchall():
                spent = (_spent(job_id, when), job_id, user)
                tables.execute("UPDATE asked SET job = ? WHERE job = ? AND user = ?", spent)

    def close_queue(self, closed: bool) -> None:
        """Close the queue of all servers, for as long as this one lives, or open it. Raises DatabaseUnusable."""
        with self._changing() as tables:
            tables.execute("DELETE FROM closed")
            if closed:
                tables.execute("INSERT INTO closed VALUES (?)", (self.server,))

    def close(self) -> None:
        """Tell the others that nothing waits here any more, since this server ends."""
        with self._alone_without():
            if self._lock_file(self.server).exists():  # else nobody knows of it, or the folder is gone
                self.publish([])
        self._lives.close()
        self._database.close()

    # All servers' -------------------------------------------------------------------------------------------------

    def elsewhere(self) -> dict[str, Elsewhere]:
        """Jobs that wait or run at other servers, by job id."""
        query = "SELECT job, server, user, place FROM waiting WHERE server != ?"
        rows = self._rows(query, self.server) or []
        with self._alone_without():
            living = {server for server in {row[1] for row in rows} if self._is_alive(server)}
            return {job: Elsewhere(user, place) for job, server, user, place in rows if server in living}
        return {}

    def owner(self, job_id: str) -> str | None:
        """The user who last submitted a job, at any server; None if nobody did, or the machine's owner."""
        rows = self._rows("SELECT user FROM owners WHERE job = ?", job_id)
        if rows is None:
            return self._here[job_id][0] if job_id in self._here else None
        return next((user for (user,) in rows), None)

    def minutes(self, user: str, *, but: str = "") -> float:
        """Estimated minutes of everything that a user submitted in the last 24 hours, at any server.

        `but` is the id of a job that is submitted again: one that failed or was interrupted resumes, and counts once.
        """
        query = "SELECT coalesce(sum(minutes), 0.0) FROM asked WHERE user = ? AND submitted > ? AND job != ?"
        since = time.time() - DAY_SECONDS
        rows = self._rows(query, user, since, but)
        if rows is None:
            here = ((job, *submitted) for job, submitted in self._here.items())
            return sum(minutes for job, name, when, minutes in here if name == user and when > since and job != but)
        return next((minutes for (minutes,) in rows), 0.0)

    def is_closed(self) -> bool:
        """Whether a server that lives has closed the queue."""
        with self._alone_without():
            return any(self._is_alive(server) for (server,) in self._rows("SELECT server FROM closed") or [])
        return False

    # The file -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Connection]:
        with self._beginning:
            try:
                if not self._lock_file(self.server).exists():  # now the others can see that this server lives
                    make_folder(self._folder, private=True)
                    self._lives.enter_context(held(self._lock_file(self.server), should_stop=lambda: False))
            except OSError as error:
                raise DatabaseUnusable(f"{self._folder} cannot be used: {error.strerror or error}.") from error
        with self._database.changing() as tables:
            yield tables

    def _rows(self, query: str, *values: object) -> list[tuple] | None:
        """The rows; None if there is no file, or it cannot be used."""
        with self._alone_without(), self._database.reading() as tables:
            return None if tables is None else tables.execute(query, values).fetchall()
        return None

    @contextlib.contextmanager
    def _alone_without(self) -> Iterator[None]:
        """Go on without the file if it cannot be used, and log why, once."""
        try:
            yield
        except OSError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                log.warning("other servers of this data folder do not see this one's jobs, nor it theirs: %s", error)

    def _forget_the_dead(self, tables: Connection) -> None:
        for (server,) in tables.execute("SELECT server FROM waiting UNION SELECT server FROM closed").fetchall():
            if not self._is_alive(server):
                tables.execute("DELETE FROM waiting WHERE server = ?", (server,))
                tables.execute("DELETE FROM closed WHERE server = ?", (server,))
                self._lock_file(server).unlink(missing_ok=True)
        for file in self._folder.glob("*.lock"):  # one that is just being made is not held yet
            with contextlib.suppress(FileNotFoundError):  # its server ended at this moment and removed it
                if time.time() - file.stat().st_mtime > NEW_SECONDS and not self._is_alive(file.stem):
                    file.unlink(missing_ok=True)

    def _is_alive(self, server: str) -> bool:
        return server == self.server or in_use(self._lock_file(server))

    def _lock_file(self, server: str) -> Path:
        return self._folder / f"{server}.lock"


def _spent(job_id: str, submitted: float) -> str:
    """The name for the minutes of a submission that was cancelled after it had begun; no job has such an id."""
    return f"{job_id} cancelled, submitted at {submitted!r}"
