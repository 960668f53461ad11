"""Addresses of pictures and downloads that nobody can guess.

Streamlit 1.67 serves `/media/…` to everybody who asks, without a session or a cookie, so only the address protects what
a session offers. Its own address is a hash of the content, the type and the file's name, without a secret
(`memory_media_file_storage._calculate_file_id`). Of files above 1 MiB it hashes 64 KiB at the beginning, in the middle
and at the end. So anyone who knows these parts can compute the address and read the rest, and two files that agree in
them get one address: the second session would be given the first one's file.

Here the address is a keyed hash of the whole content (BLAKE2b in its keyed mode, RFC 7693). The key is drawn when the
process starts and never leaves it.
"""

from __future__ import annotations

import hashlib
import secrets

from streamlit.runtime import memory_media_file_storage as storage

_KEY = secrets.token_bytes(hashlib.blake2b.MAX_KEY_SIZE)
_BYTES = 32  # of an address

open_address = storage._calculate_file_id  # Streamlit's own


def secret_address(data: bytes, mimetype: str, filename: str | None = None) -> str:
    """The address of a file, in hexadecimal digits: the same for the same file, for as long as this process lives."""
    found = hashlib.blake2b(key=_KEY, digest_size=_BYTES)
    for part in (mimetype.encode(), b"" if filename is None else b"=" + filename.encode()):
        found.update(len(part).to_bytes(8, "big") + part)
    found.update(data)
    return found.hexdigest()


def hide_addresses() -> None:
    """Give files of this process secret addresses from now on. May be called at any time."""
    storage._calculate_file_id = secret_address
