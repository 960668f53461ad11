"""Deletion codes: anyone with the code can delete an upload, from any browser or by command, without seeing any of it.

The operating system draws a code of 100 bits, so nobody can guess one. The code is shown once; the upload's record
holds only its SHA-256, from which it cannot be recovered. (A code is not a password: there is no list of likely codes,
so no slow hash is needed.)
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque

_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's base 32, without letters that look like digits
_LENGTH, _GROUP = 20, 4
_LOOKS_LIKE = str.maketrans({"O": "0", "I": "1", "L": "1"})
_PURPOSE = b"deletion code of an upload\0"


def new_code() -> str:
    """A new code in the form in which it is shown: five groups of four letters and digits."""
    drawn = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    return "-".join(drawn[at : at + _GROUP] for at in range(0, _LENGTH, _GROUP))


def hashed(code: str) -> str:
    """The stored hash of a code, however it was typed: case, blanks and dashes are ignored, and O counts as 0."""
    plain = "".join(character for character in code.upper() if character.isalnum()).translate(_LOOKS_LIKE)
    return hashlib.sha256(_PURPOSE + plain.encode()).hexdigest()


def matches(code: str, stored: str) -> bool:
    """Whether `stored` is the hash of this code, in constant time. No code matches an empty hash."""
    return hmac.compare_digest(hashed(code), stored or "-")


class Attempts:
    """Counts recent wrong codes per user. Threads may share it."""

    def __init__(self, most: int, seconds: float) -> None:
        """Allow at most `most` wrong codes within `seconds`."""
        self._most, self._seconds = most, seconds
        self._wrong: dict[str, deque[float]] = {}
        self._lock = threading.Lock()

    def wait(self, who: str) -> float:
        """Seconds that `who` has to wait before the next try; 0 if there is no need to wait."""
        with self._lock:
            self._forget(time.monotonic())
            wrong = self._wrong.get(who, deque())
            return 0.0 if len(wrong) < self._most else wrong[0] + self._seconds - time.monotonic()

    def failed(self, who: str) -> None:
        """Count a wrong code."""
        with self._lock:
            self._wrong.setdefault(who, deque()).append(time.monotonic())

    def _forget(self, now: float) -> None:
        for who, wrong in list(self._wrong.items()):
            while wrong and wrong[0] + self._seconds <= now:
                wrong.popleft()
            if not wrong:
                del self._wrong[who]
