"""A class opens a server that was just started: every page in the same moment, without browsers to slow it down."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlparse

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect

from pages.parts.common import shell
from tests.browser import served
from tests.browser.served import WAIT, serving

SECONDS = WAIT / 1000
EACH = 2  # sessions a page
LEAST = 10  # elements of a page: what stands above every page, and more


def drawn(address: str, page: str) -> tuple[int, list[str]]:
    """Opens a page in a session of its own: how many elements it has drawn, and what its exceptions say."""
    elements, exceptions = 0, []
    stream = f"ws://{urlparse(address).netloc}/_stcore/stream"
    with connect(stream, subprotocols=["streamlit"], origin=address, open_timeout=SECONDS, max_size=None) as line:
        ask = BackMsg()
        ask.rerun_script.page_name = page
        line.send(ask.SerializeToString())
        while True:
            told = ForwardMsg.FromString(line.recv(timeout=SECONDS))
            if told.HasField("delta"):
                elements += 1
                if told.delta.new_element.HasField("exception"):
                    exceptions.append(told.delta.new_element.exception.message)
            elif told.HasField("script_finished") and elements:
                return elements, exceptions


def test_a_server_gets_another_port_if_its_own_is_taken_while_it_starts(data, tmp_path, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        ports = iter([taken, served.free_port()])
        monkeypatch.setattr(served, "free_port", lambda: next(ports))
        with serving(data, tmp_path / "log.txt") as address:
            assert urlparse(address).port != taken and list(ports) == []


def test_all_pages_open_at_once_on_a_server_that_was_just_started(data, tmp_path):
    pages = ["" if name == "home" else name for name, *_ in shell._PAGES] * EACH
    log = tmp_path / "log.txt"
    with serving(data, log) as address, ThreadPoolExecutor(len(pages)) as many:
        found = list(zip(pages, many.map(lambda page: drawn(address, page), pages), strict=True))
        said = log.read_text()  # before the server ends, which its cluster may complain about
    assert [page for page, (elements, _) in found if elements < LEAST] == []
    assert [(page, exceptions) for page, (_, exceptions) in found if exceptions] == [], said
    assert "Traceback" not in said
