"""Sends what a page draws to the connection that its session has now.

Streamlit 1.67 can send it to a lost connection. Its loop takes a list of all sessions with their connections, and then
sends what each has drawn, yielding after every message (`Runtime._loop_coroutine`). With a class on the server a turn
of the loop takes longer than a browser needs to come back. If a session returns before its turn in the list, the loop
still takes the messages of the new request out of the queue, for the connection that is gone. The browser misses the
beginning of the page, or all of it, and is not told so.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, cast

from streamlit.runtime import Runtime

if TYPE_CHECKING:
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
    from streamlit.runtime.session_manager import ActiveSessionInfo

_send_as_listed = inspect.unwrap(Runtime._send_message)  # Streamlit's own, also if this module is loaded again


@functools.wraps(_send_as_listed)
def _send_as_connected(runtime: Runtime, listed: ActiveSessionInfo, message: ForwardMsg) -> None:
    """Send a message to the connection that the session has at this moment, if it has one."""
    now = runtime._session_mgr.get_active_session_info(listed.session.id)
    _send_as_listed(runtime, now or listed, message)


def follow_reconnections() -> None:
    """Let the server of this process send to the current connection of each session. May be called at any time."""
    Runtime._send_message = cast("Any", _send_as_connected)  # type: ignore[method-assign]
