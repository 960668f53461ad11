"""How students reach this server: its network address, and a QR code for it."""

from __future__ import annotations

import html
import socket
from urllib.parse import urlencode

import segno
import streamlit as st

from pages.parts.access import viewer

_NOT_ROUTED = ("192.0.2.1", 9)  # RFC 5737: an address reserved for documentation
_THIS_COMPUTER = ("localhost", "127.", "::1")


def lan_address() -> str | None:
    """The machine's address in its network; None if it is in none.

    Connecting a UDP socket only selects the network interface; no packet is sent.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOT_ROUTED)
        except OSError:
            return None
        address = probe.getsockname()[0]
    return None if address.startswith(_THIS_COMPUTER) else address


def listens_only_here() -> bool:
    """Whether the server is reachable only from this computer (`make run`) and not the network (`make class`)."""
    return (st.get_option("server.address") or "").startswith(_THIS_COMPUTER)


def join_url(code: str) -> str | None:
    """The link to the lesson that students open; None if no other device can reach this server.

    The address is that to which people return from signing in, else the configured one (`make class` sets it), else
    this machine's address in the network.
    """
    public, query = viewer.public_address(), urlencode({"room": code})
    if public is not None:
        return f"{public}/lesson?{query}"
    if listens_only_here():
        return None
    configured = st.get_option("browser.serverAddress")
    host = configured if configured and not configured.startswith(_THIS_COMPUTER) else lan_address()
    if host is None:
        return None
    scheme = "https" if st.get_option("server.sslCertFile") else "http"
    base = (st.get_option("server.baseUrlPath") or "").strip("/")
    path = f"{base}/lesson" if base else "lesson"
    return f"{scheme}://{host}:{st.get_option('server.port')}/{path}?{query}"


def qr_html(url: str) -> str:
    """A QR code (ISO/IEC 18004, error correction M) with its quiet zone, black on white in any theme."""
    picture = segno.make(url, error="m", micro=False).svg_data_uri(scale=8, border=4, dark="#000", light="#fff")
    return f'<img class="qr" alt="QR code of {html.escape(url)}" src="{html.escape(picture)}">'
