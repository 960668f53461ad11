"""Objects of the process are made once and survive a browser that empties Streamlit's caches."""

from __future__ import annotations

import contextlib
import threading

import streamlit as st

from pages.parts.session import classroom, resources


def test_a_browser_that_empties_streamlits_caches_removes_no_object_of_the_process() -> None:
    """Streamlit does this for every `clear_cache` on a websocket (`AppSession._handle_clear_cache_request`)."""

    @resources.process_object
    def kept() -> object:
        return object()

    @resources.cached_object(show_spinner=False)
    def cached() -> object:
        return object()

    before, cached_before = kept(), cached()
    code, _ = classroom.classroom().open()
    st.cache_data.clear()
    st.cache_resource.clear()
    assert cached() is not cached_before, "this is what the message empties"
    assert kept() is before and code in classroom.classroom()
    resources.empty_caches()
    assert kept() is before
    resources.forget_process()
    assert kept() is not before and code not in classroom.classroom()


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
