"""One machine at a time makes a run: leases in the store, which end when their holder no longer renews them.

A lease is an object `leases/<id>.<number>` with its holder and a count of renewals. Machines need no common clock: who
waits watches the count, and takes over when it has not changed for LEASE_SECONDS by their own clock. Taking over means
to create the object with the next number, which a store lets only one of several machines do. If a holder was merely
slow, two machines make the same run for a while. That costs time and changes nothing: a run's weights follow from its
spec.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from time import monotonic

from core.runs.remote.store import Store

LEASE_SECONDS, RENEW_SECONDS = 90.0, 15.0
_seen: dict[tuple[str, str], tuple[bytes | None, float]] = {}  # what a lease contained, and since when


@dataclass
class Lease:
    """A lease that this process holds."""

    store: Store
    path: str
    holder: str
    renewals: int = 0

    def renew(self) -> bool:
        """Say that its holder lives. False if another machine took it over. Raises StoreUnusable."""
        if not self._mine():
            return False
        self.renewals += 1
        self.store.write(self.path, self._content())
        return True

    def release(self) -> None:
        """Let others have it. Raises StoreUnusable."""
        if self._mine():
            self.store.remove(self.path)

    def _mine(self) -> bool:
        return f'"{self.holder}"'.encode() in (self.store.read(self.path) or b"")

    def _content(self) -> bytes:
        return json.dumps({"holder": self.holder, "renewals": self.renewals}).encode()

    @classmethod
    def take(cls, store: Store, run_id: str) -> Lease | None:
        """The lease of a run, if nobody holds it or its holder has not renewed it for long; None otherwise."""
        numbers = sorted(
            int(name.removeprefix(f"{run_id}.")) for name in store.list("leases") if name.startswith(f"{run_id}.")
        )
        if numbers and not _abandoned(store, f"leases/{run_id}.{numbers[-1]}"):
            return None
        number = numbers[-1] + 1 if numbers else 0
        lease = cls(store, f"leases/{run_id}.{number}", secrets.token_hex(8))
        if not store.write(lease.path, lease._content(), new=True):
            return None
        for old in numbers:
            store.remove(f"leases/{run_id}.{old}")
        return lease


def _abandoned(store: Store, path: str) -> bool:
    """Whether this process has seen a lease unchanged for LEASE_SECONDS."""
    content, now = store.read(path), monotonic()
    known, since = _seen.get((store.address, path), (None, now))
    if content != known:
        known, since = content, now
    _seen[store.address, path] = (known, since)
    return content is not None and now - since > LEASE_SECONDS
