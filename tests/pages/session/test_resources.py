"""Objects of the process are made once and survive a browser that empties Streamlit's caches."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import streamlit as st

from core.runs.integrity.replacements import note_replacement
from pages.parts.access import viewer
from pages.parts.session import classroom, cleanup, owner, resources


def test_a_browser_that_empties_streamlits_caches_removes_no_object_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streamlit does this for every `clear_cache` on a websocket (`AppSession._handle_clear_cache_request`)."""

    @resources.process_object
    def kept() -> object:
        return object()

    @resources.cached_object(show_spinner=False)
    def cached() -> object:
        return object()

    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    before, cached_before = kept(), cached()
    rooms = classroom.classroom()
    code, _ = classroom.classroom().open()
    st.cache_data.clear()
    st.cache_resource.clear()
    assert cached() is not cached_before, "this is what the message empties"
    assert kept() is before and classroom.classroom() is rooms and code in rooms
    resources.empty_caches()
    assert kept() is before
    resources.forget_process()
    assert kept() is not before and classroom.classroom() is not rooms
    assert code in classroom.classroom(), "rooms are in the data folder, so a server that was restarted has them"


def test_a_new_process_remembers_no_session_no_upload_and_no_sign_in(tmp_path: Path) -> None:
    owner.sessions()["session-1"] = lambda: True
    cleanup._clear_again().rounds = 2
    cleanup._uploads_seen()[tmp_path] = {"0" * 16}
    viewer._process().required = True
    resources.forget_process()
    assert not owner.sessions() and not cleanup._clear_again().rounds and not cleanup._uploads_seen()
    assert not viewer._process().required


@pytest.mark.parametrize("cache", [resources.cached_data, resources.cached_object])
def test_what_was_made_of_a_run_is_made_again_when_its_files_are_others(cache: Callable[..., Any]) -> None:
    made: list[tuple[str, int]] = []

    @cache(max_entries=10, show_spinner=False)
    def figures(run_id: str, _run: object, *, more: int = 0) -> list[int]:
        made.append((run_id, more))
        return [len(made)]

    assert figures("gpt2-a", object()) == figures("gpt2-a", object()) == [1]
    assert figures("gpt2-b", object(), more=1) == [2] and figures("gpt2-b", object(), more=2) == [3]
    note_replacement()
    assert figures("gpt2-a", object()) == figures("gpt2-a", object()) == [4]
    figures.clear()
    assert figures("gpt2-a", object()) == [5]
    assert made == [("gpt2-a", 0), ("gpt2-b", 1), ("gpt2-b", 2), ("gpt2-a", 0), ("gpt2-a", 0)]


def test_what_is_being_made_while_a_run_is_replaced_is_not_kept() -> None:
    made: list[int] = []

    @resources.cached_data(max_entries=10, show_spinner=False)
    def figures(run_id: str) -> int:
        made.append(1)
        if len(made) == 1:
            note_replacement()
        return len(made)

    assert figures("gpt2-a") == 1
    assert figures("gpt2-a") == figures("gpt2-a") == 2


def test_an_object_is_made_once_for_each_of_its_arguments_also_by_thirty_threads_at_once() -> None:
    made: list[str] = []
    together = threading.Barrier(30)

    @resources.process_object
    def kept(root: str, _not_counted: object) -> object:
        made.append(root)
        return object()

    found: list[object] = []

    def ask() -> None:
        together.wait()
        found.append(kept("a", object()))

    threads = [threading.Thread(target=ask) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["a"] and len(set(map(id, found))) == 1
    assert kept("b", None) is not found[0] and made == ["a", "b"]


def test_what_failed_is_made_again() -> None:
    tries: list[int] = []

    @resources.process_object
    def kept() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return len(tries)

    with contextlib.suppress(OSError):
        kept()
    assert kept() == kept() == 2
