"""A database that processes share: changes are whole, private, and survive the death of who made or was making one."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.common.database import Database, DatabaseUnusable

ROOT = Path(__file__).resolve().parents[2]
TABLE = "CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text BLOB);"
# Writes more than SQLite holds in memory before it writes into the file, and waits inside the change.
DYING = """
import sys, time
from pathlib import Path
from core.common.database import Database
with Database(Path(sys.argv[1]), sys.argv[2]).changing() as tables:
    tables.execute("PRAGMA cache_size = 10")
    tables.execute("UPDATE notes SET text = zeroblob(300000)")
    tables.execute("INSERT INTO notes (text) VALUES (zeroblob(300000))")
    print("inside", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "notes.sqlite"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    made = Database(path, TABLE)
    yield made
    made.close()


def texts(database: Database) -> list[bytes]:
    with database.reading() as tables:
        assert tables is not None
        return [text for (text,) in tables.execute("SELECT text FROM notes ORDER BY id")]


def add(database: Database, text: bytes) -> None:
    with database.changing() as tables:
        tables.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def test_a_look_makes_no_file(database: Database, path: Path) -> None:
    with database.reading() as tables:
        assert tables is None
    assert not path.parent.exists()


def test_only_the_account_can_read_it(database: Database, path: Path) -> None:
    add(database, b"one")
    assert [stat.S_IMODE(one.stat().st_mode) for one in (path.parent, *path.parent.iterdir())] == [0o700, 0o600, 0o600]


def test_a_change_that_fails_leaves_everything_as_it_was(database: Database) -> None:
    add(database, b"one")
    with pytest.raises(LookupError, match="in the middle"), database.changing() as tables:
        tables.execute("UPDATE notes SET text = 'two'")
        raise LookupError("in the middle")
    assert texts(database) == [b"one"]


def test_a_process_that_is_killed_within_a_change_leaves_the_state_before_it(database: Database, path: Path) -> None:
    add(database, b"before" * 100_000)
    command = [sys.executable, "-c", DYING, path, TABLE]
    dying = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert dying.stdout is not None and dying.stdout.readline() == "inside\n"
    journal = path.with_name(path.name + "-journal")
    assert journal.stat().st_size > 100_000, "the file itself was already being overwritten"
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    dying.stdout.close()
    assert texts(database) == [b"before" * 100_000]
    add(database, b"after")
    assert texts(Database(path, TABLE)) == [b"before" * 100_000, b"after"]


def test_a_full_disk_is_one_sentence_and_loses_nothing(database: Database, path: Path) -> None:
    add(database, b"one")
    with database.changing() as tables:
        tables.execute("PRAGMA max_page_count = 3")  # as SQLite reports a full disk
    with pytest.raises(DatabaseUnusable, match=r"notes.sqlite cannot be used: database or disk is full\."):
        add(database, b"x" * 100_000)
    assert texts(database) == [b"one"]


def test_a_damaged_file_is_one_sentence_and_a_removed_one_is_made_again(database: Database, path: Path) -> None:
    add(database, b"one")
    path.unlink()
    with database.reading() as tables:
        assert tables is None, "what was open is gone"
    add(database, b"two")
    assert texts(database) == texts(Database(path, TABLE)) == [b"two"]
    damaged = path.with_name("damaged.sqlite")
    damaged.write_bytes(b"no database" * 1_000)
    with pytest.raises(DatabaseUnusable, match="file is not a database"):
        add(Database(damaged, TABLE), b"one")
