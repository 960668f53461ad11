"""One in-memory DuckDB for a process: opened once, with tables that are a cursor's own."""

from __future__ import annotations

import signal
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from core.common import in_memory_duckdb
from core.common.in_memory_duckdb import cursor


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The settings of every database that is opened from here on."""
    found: list[dict] = []

    def connect(*, config: dict, real=duckdb.connect) -> duckdb.DuckDBPyConnection:
        found.append(config)
        return real(config=config)

    monkeypatch.setattr(in_memory_duckdb, "_shared", in_memory_duckdb._Shared())
    monkeypatch.setattr(duckdb, "connect", connect)
    return found


def test_many_threads_share_a_database_and_no_table(opened: list[dict]) -> None:
    def total(number: int) -> int:
        with cursor() as database:
            database.register("numbers", pd.DataFrame({"value": [number] * 1_000}))
            return database.execute("SELECT sum(value)::BIGINT FROM numbers").fetchone()[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(total, range(64))) == [1_000 * number for number in range(64)]
    assert len(opened) == 1
    with cursor() as database, pytest.raises(duckdb.CatalogException):
        database.execute("SELECT * FROM numbers")


def test_temporary_files_are_in_a_folder_that_others_cannot_read(opened: list[dict]) -> None:
    with cursor() as database:
        place = Path(database.execute("SELECT current_setting('temp_directory')").fetchone()[0])
    assert [settings["temp_directory"] for settings in opened] == [str(place)]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_what_does_not_fit_into_memory_goes_to_that_folder_and_leaves_nothing(opened: list[dict]) -> None:
    with cursor() as database:
        database.execute("SET memory_limit = '40MB'")
        query = (
            "SELECT count(*) FROM (SELECT DISTINCT hash(range) AS h, repeat('x', 40) || range FROM range(1_000_000))"
        )
        assert database.execute(query).fetchone()[0] == 1_000_000
    left = [file for file in Path(opened[0]["temp_directory"]).rglob("*") if file.is_file()]
    assert left and all(file.stat().st_size < 1_000 for file in left), "a note of whose folder it is, and no rows"


def test_it_is_closed_once_and_opened_again_on_request(opened: list[dict]) -> None:
    """DuckDB complains on standard error about what is still open when the process ends."""
    in_memory_duckdb._shared.close()
    for _ in range(2):
        with cursor() as database:
            assert database.execute("SELECT 1").fetchone() == (1,)
    database = in_memory_duckdb._shared.database
    assert database is not None
    in_memory_duckdb._shared.close()
    with pytest.raises(duckdb.ConnectionException):
        database.execute("SELECT 1")
    with cursor() as again:
        assert again.execute("SELECT 1").fetchone() == (1,)
    assert len(opened) == 2


LONG = "SELECT count(*) FROM range(10_000) a, range(10_000) b WHERE (a.range * b.range) % 7 = 3"


def test_ctrl_c_during_a_query_stops_the_command_as_anywhere_else():
    """DuckDB takes the signal while a query runs, and raises a RuntimeError instead of KeyboardInterrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process of tests may ignore it
    try:
        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
        with pytest.raises(KeyboardInterrupt), cursor() as database:
            while True:
                database.execute(LONG).fetchall()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_query_that_a_signal_stopped_is_no_failed_query():
    with pytest.raises(KeyboardInterrupt), cursor():
        raise RuntimeError(in_memory_duckdb.STOPPED_BY_SIGNAL)


def test_other_errors_of_a_query_stay_what_they_are():
    with pytest.raises(duckdb.CatalogException), cursor() as database:
        database.execute("SELECT * FROM nowhere")
    with pytest.raises(RuntimeError, match="of the caller"), cursor():
        raise RuntimeError("of the caller")
