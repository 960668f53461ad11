"""A network between browser and server that a test can cut: Chromium's own offline switch leaves web sockets open."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit


class Network:
    """Passes bytes between its own port and a server's; cut, it closes every connection and takes none."""

    def __init__(self, server: str) -> None:
        self._to = (urlsplit(server).hostname or "localhost", urlsplit(server).port or 80)
        self._open: list[socket.socket] = []
        self._lock, self._up = threading.Lock(), True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://localhost:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """The Wi-Fi is lost."""
        with self._lock:
            self._up = False
            for one in self._open:
                _close(one)
            self._open.clear()

    def restore(self) -> None:
        """The Wi-Fi is back."""
        with self._lock:
            self._up = True

    def end(self) -> None:
        """Close everything."""
        self.cut()
        _close(self._listener)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                with self._lock:
                    if not self._up:
                        _close(near)
                        continue
                    far = socket.create_connection(self._to)
                    self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while received := one.recv(65_536):
            other.sendall(received)
    _close(one)
    _close(other)


def _close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        one.close()


@contextlib.contextmanager
def wifi(server: str) -> Iterator[Network]:
    """A network in front of this server, for the block."""
    network = Network(server)
    try:
        yield network
    finally:
        network.end()
