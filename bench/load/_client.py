"""A browser session without a browser: Streamlit's own websocket protocol, spoken from Python.

A session sends BackMsg and reads ForwardMsg, as the page in a browser does: it opens pages, sets widgets, presses
buttons, asks again for what a page draws by a timer (`st.fragment(run_every=…)`), loses its connection and resumes.
Scripts of components do not run. It keeps what the page holds: elements by their place.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlparse

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.proto.Navigation_pb2 import Navigation
from streamlit.proto.WidgetStates_pb2 import WidgetState
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

WAIT = 300.0  # seconds for an answer; a page that takes longer counts as an error
TRIGGERS = ("trigger_value", "string_trigger_value", "chat_input_value", "json_trigger_value")  # valid for one run
BUTTONS = ("button",)


@dataclass
class Drawn:
    """One answer: from the request until the script has finished."""

    page: str
    seconds: float
    elements: int
    exceptions: list[str] = field(default_factory=list)


class NoAnswer(RuntimeError):
    """The server did not answer, or closed the connection."""


class Session:
    """A browser session. Not for several threads."""

    def __init__(self, address: str, *, seat: str | None = None) -> None:
        """A session with the server at `address`; `seat` is the cookie by which a class knows its browser."""
        self.address, self._seat = address, seat
        self.id: str | None = None
        self.page, self.query = "", ""
        self.elements: dict[tuple[int, ...], Any] = {}
        self.widgets: dict[str, WidgetState] = {}
        self._timers: dict[str, tuple[float, float]] = {}  # by fragment: seconds between, when it is due
        self._hash = ""
        self._socket: ClientConnection | None = None

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Connection ------------------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Connect; a session that was connected before asks for itself, as a browser does after a lost connection."""
        protocols = ["streamlit"] if self.id is None else ["streamlit", "PLACEHOLDER_AUTH_TOKEN", self.id]
        headers = {} if self._seat is None else {"Cookie": f"philab_seat={self._seat}"}
        self._socket = connect(
            f"ws://{urlparse(self.address).netloc}/_stcore/stream",
            subprotocols=[Subprotocol(one) for one in protocols],
            origin=Origin(self.address),
            additional_headers=headers,
            open_timeout=WAIT,
            max_size=None,
            compression=None,
        )

    def drop(self) -> None:
        """Lose the connection without a word, as when a phone leaves the network."""
        if self._socket is not None:
            self._socket.socket.close()
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def close(self) -> None:
        """Close the tab."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, raw: bytes) -> None:
        """Send any bytes."""
        assert self._socket is not None  # connected
        self._socket.send(raw)

    # What a person does ----------------------------------------------------------------------------------------------

    def open(self, page: str, query: str = "") -> Drawn:
        """Open a page by its short name, as a link with these parameters does."""
        self.page, self.query, self._hash, self.widgets = page, query, "", {}
        return self._ask()

    def press(self, label: str) -> Drawn:
        """Press the first button with this label. Raises LookupError if there is none."""
        found = next((one for one in self._proto(*BUTTONS) if one.label == label and not one.disabled), None)
        if found is None:
            raise LookupError(f"the page {self.page} has no button “{label}” that can be pressed")
        return self.set(found.id, trigger_value=True)

    def press_key(self, key: str) -> Drawn:
        """Press the button with this key of the app's own. Raises LookupError if there is none."""
        found = next((one for one in self._proto(*BUTTONS) if one.id.endswith(f"-{key}") and not one.disabled), None)
        if found is None:
            raise LookupError(f"the page {self.page} has no button “{key}” that can be pressed")
        return self.set(found.id, trigger_value=True)

    def write(self, text: str) -> Drawn:
        """Write into the page's first chat box and send it. Raises LookupError if there is none."""
        found = next((one for one in self._proto("chat_input") if not one.disabled), None)
        if found is None:
            raise LookupError(f"the page {self.page} has no chat box")
        state = WidgetState(id=found.id)
        state.chat_input_value.data = text
        return self._ask(state)

    def set(self, widget: str, **value: Any) -> Drawn:
        """Set a widget by its id, as in `set(id, int_value=3)`."""
        return self._ask(WidgetState(id=widget, **value))

    def timers(self) -> list[str]:
        """The parts of the page that have a timer."""
        return list(self._timers)

    def due(self, now: float | None = None) -> list[str]:
        """The parts of the page whose timers have run out."""
        now = time.monotonic() if now is None else now
        return [fragment for fragment, (_, at) in self._timers.items() if at <= now]

    def poll(self, fragment: str) -> Drawn:
        """Ask for a part of the page again, as its timer does."""
        every, _ = self._timers[fragment]
        self._timers[fragment] = (every, time.monotonic() + every)
        return self._ask(fragment=fragment)

    def texts(self) -> str:
        """All Markdown, alerts and labels of buttons on the page."""
        found = [
            getattr(one, "body", "") or getattr(one, "label", "") for one in self._proto("markdown", "alert", *BUTTONS)
        ]
        return "\n".join(found)

    def _proto(self, *kinds: str) -> list[Any]:
        every = [element for _, element in sorted(self.elements.items())]
        return [getattr(one, kind) for one in every for kind in kinds if one.WhichOneof("type") == kind]

    # Messages --------------------------------------------------------------------------------------------------------

    def ask_only(self, page: str, query: str = "") -> None:
        """Ask for a page and do not wait for it."""
        self.page, self.query, self._hash, self.widgets = page, query, "", {}
        self.send(self._request(None, "").SerializeToString())

    def _request(self, changed: WidgetState | None, fragment: str) -> BackMsg:
        request = BackMsg()
        rerun = request.rerun_script
        rerun.query_string, rerun.fragment_id = self.query, fragment
        rerun.is_auto_rerun = bool(fragment)
        if self._hash:
            rerun.page_script_hash = self._hash
        else:
            rerun.page_name = "" if self.page == "home" else self.page
        if changed is not None:
            self.widgets[changed.id] = changed
        rerun.widget_states.widgets.extend(self.widgets.values())
        rerun.context_info.url = f"{self.address}/{self.page}"
        return request

    def _ask(self, changed: WidgetState | None = None, fragment: str = "") -> Drawn:
        begun = time.monotonic()
        try:
            self.send(self._request(changed, fragment).SerializeToString())
            answer = self._answer(begun, fragment)
        except (ConnectionClosed, TimeoutError, OSError) as error:
            raise NoAnswer(f"{self.page}: {type(error).__name__}: {error}") from None
        if changed is not None and changed.WhichOneof("value") in TRIGGERS:
            del self.widgets[changed.id]
        return answer

    def _answer(self, begun: float, fragment: str) -> Drawn:
        """Read until the script has finished that was asked for.

        One that ends early is run again by itself. What was asked for before the connection was lost may still be
        drawn first: it has another page.
        """
        assert self._socket is not None  # connected
        elements: dict[tuple[int, ...], Any] = {}
        exceptions: list[str] = []
        wanted = False
        while True:
            left = WAIT - (time.monotonic() - begun)
            told = ForwardMsg.FromString(self._socket.recv(timeout=max(0.0, left)))
            kind = told.WhichOneof("type")
            if kind == "new_session":
                parts = told.metadata.run.fragment_ids
                wanted, elements, exceptions = fragment in parts, {}, []
                self.id = told.new_session.initialize.session_id
                if not parts:
                    self._timers = {}
            elif kind == "navigation":
                wanted = self._is_asked(told.navigation)
            elif kind == "delta" and told.delta.HasField("new_element"):
                element = told.delta.new_element
                elements[tuple(told.metadata.delta_path)] = element
                if element.WhichOneof("type") == "exception":
                    exceptions.append(f"{self.page}: {element.exception.type}: {element.exception.message}")
            elif kind == "auto_rerun":
                every = told.auto_rerun.interval
                self._timers[told.auto_rerun.fragment_id] = (every, time.monotonic() + every)
            elif kind == "stop_auto_rerun":
                for one in told.stop_auto_rerun.fragment_ids:
                    self._timers.pop(one, None)
            elif kind == "page_info_changed":
                self.query = told.page_info_changed.query_string
            elif kind == "script_finished" and wanted and told.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                of_fragment = told.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY
                self.elements = {**self.elements, **elements} if of_fragment else elements
                return Drawn(self.page, time.monotonic() - begun, len(elements), exceptions)

    def _is_asked(self, navigation: Navigation) -> bool:
        """Whether the page that is drawn now is the one that was asked for; its hash is sent with later requests."""
        now = next((one for one in navigation.app_pages if one.page_script_hash == navigation.page_script_hash), None)
        if now is None or (not now.is_default if self.page == "home" else now.url_pathname != self.page):
            return False
        self._hash = navigation.page_script_hash
        return True
