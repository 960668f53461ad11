"""A session that comes back while its server is still busy sending gets the whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime import Runtime, RuntimeConfig, SessionClient
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.runtime import RuntimeState
from streamlit.runtime.session_manager import SessionClientDisconnectedError

from pages.parts.session import delivery
from tests.pages.visit import visit

ANSWER = [f"element {number}" for number in range(5)]


class Connection(SessionClient):
    """A websocket that keeps what it is sent, and can be lost."""

    def __init__(self, sent: Callable[[], None] = lambda: None) -> None:
        self.received: list[str] = []
        self.lost, self._sent = False, sent

    def write_forward_msg(self, msg: ForwardMsg) -> None:
        if self.lost:
            raise SessionClientDisconnectedError
        self.received.append(msg.delta.new_element.markdown.body)
        self._sent()


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.setattr(Runtime, "_instance", None)
    monkeypatch.setattr(Runtime, "_send_message", delivery._send_as_listed)
    yield Runtime(RuntimeConfig("app.py", MemoryMediaFileStorage("/media"), MemoryUploadedFileManager("/upload")))


def _draw(runtime: Runtime, session: str, elements: list[str]) -> None:
    """What a script of this session does: put elements in its queue."""
    found = runtime.get_app_session(session)
    assert found is not None
    for number, body in enumerate(elements):
        message = ForwardMsg()
        message.metadata.delta_path[:] = [0, number]
        message.delta.new_element.markdown.body = body
        found._enqueue_forward_msg(message)


async def _received_after_return(runtime: Runtime, *, unclean: bool) -> list[str]:
    """What a connection gets that replaces a lost one, while the loop sends to another session of its list."""
    returned = Connection()

    def come_back() -> None:
        lost.lost = True
        if not unclean:  # the server saw that the old connection was closed
            runtime.disconnect_session(student, client=lost)
        assert runtime.connect_session(returned, {}, existing_session_id=student) == student
        _draw(runtime, student, ANSWER)

    await runtime.start()
    neighbour = runtime.connect_session(Connection(come_back), {})
    lost = Connection()
    student = runtime.connect_session(lost, {})
    _draw(runtime, neighbour, ["one"])
    for _ in range(1_000):
        await asyncio.sleep(0.001)
        if returned.received == ANSWER:
            break
    runtime.stop()
    await runtime.stopped
    return returned.received


def _received(runtime: Runtime, *, unclean: bool) -> list[str]:
    """On a thread of its own: browser tests in the same process may leave a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, _received_after_return(runtime, unclean=unclean)).result()


@pytest.mark.parametrize("unclean", [True, False])
def test_a_session_that_returns_during_a_turn_of_the_loop_gets_its_answer(runtime, unclean) -> None:
    delivery.follow_reconnections()
    assert _received(runtime, unclean=unclean) == ANSWER
    assert runtime.state is RuntimeState.STOPPED


def test_streamlit_alone_sends_it_to_the_lost_connection(runtime) -> None:
    """If this fails, a newer Streamlit follows reconnections itself: remove `pages.parts.session.delivery`."""
    assert _received(runtime, unclean=True) == []


def test_a_page_makes_its_server_follow_reconnections(monkeypatch, data) -> None:
    monkeypatch.setattr(Runtime, "_send_message", delivery._send_as_listed)
    assert not visit("glossary").exception
    assert Runtime._send_message is delivery._send_as_connected
