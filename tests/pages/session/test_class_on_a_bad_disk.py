"""A class whose file cannot be used: a sentence on the page, no exception, and nothing is counted by halves."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import create_autospec

import pytest
import streamlit as st

from pages.parts.access import viewer
from pages.parts.access.rules import Role
from pages.parts.session import classroom
from pages.parts.session.room_store import FILE
from pages.parts.session.room_values import Answers, Audited, Tries, Vote
from pages.parts.session.rooms import MOST_ROOMS


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that the session of an instructor gets."""
    messages: list[str] = []
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setattr("streamlit.session_state", {})
    monkeypatch.setattr(
        "streamlit.toast", create_autospec(st.toast, side_effect=lambda body, **how: messages.append(body))
    )
    monkeypatch.setattr(viewer, "standing", lambda: viewer.Standing(True, Role.INSTRUCTOR, owner="user-a"))
    return messages


def test_a_full_disk_refuses_a_change_and_the_class_goes_on(told: list[str]) -> None:
    classroom.open_room()
    with classroom.classroom()._store._database.changing() as tables:
        (pages,) = tables.execute("PRAGMA page_count").fetchone()
        tables.execute(f"PRAGMA max_page_count = {pages}")  # as SQLite reports a full disk
    assert classroom.unseen(list(range(2_000))) == [False] * 2_000
    assert len(told) == 1 and "The class could not be reached," in told[0] and "disk is full" in told[0]
    classroom.predicted(1, "a")
    assert classroom.counted(1) and len(told) == 1


def test_a_damaged_file_is_told_by_whatever_needs_it(told: list[str], tmp_path: Path) -> None:
    classroom.open_room()
    assert classroom.room() and told == []
    (tmp_path / FILE).unlink()
    (tmp_path / FILE).write_bytes(b"no database" * 1_000)
    assert classroom.room() is None and classroom.counts() is None and classroom.answers() == Answers()
    assert not classroom.join("ABCDE") and not classroom.answered(0, 1, after=False)
    assert len(told) >= 4 and all("file is not a database" in one for one in told)
    classroom.predicted(1, "a")
    classroom.tried("run", Tries(1, 0, 0))
    classroom.voted("run", Vote(right=True, machine=True))
    classroom.choose(Audited("run"))
    classroom.reset()
    told.clear()
    classroom.open_room()
    assert len(told) == 1


def test_where_every_class_is_in_use_a_message_says_so(told: list[str]) -> None:
    for _ in range(MOST_ROOMS):
        classroom.classroom().open()
    classroom.open_room()
    assert len(told) == 1 and "50 classes are in use on this server" in told[0] and classroom.room() is None
