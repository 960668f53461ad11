"""Upkeep of a data folder: only its owner can read anything about imported notes, and leftovers are removed.

A store may have been made by an earlier version, or copied with other permissions. So its permissions are tightened
when a process first opens it. Synthetic cohorts, and what was made from them, keep the permissions they have.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from core.common.files import tighten
from core.common.folders import folders_in, sweep

log = logging.getLogger(__name__)

DIGEST = re.compile(r"[0-9a-f]{12}")
DAMAGED = "damaged"  # folder to which `python -m core verify --repair` moves what cannot be used
_PLACES = ("corpora", "runs", "work", "audits", "references", DAMAGED)

_cared_for: set[tuple[Path, int]] = set()
_lock = threading.Lock()


def look_after(root: Path, shared: Sequence[Path]) -> None:
    """Tighten a data folder and sweep it, the first time that this process opens it. Never raises.

    `shared` are the read-only folders beside it: an audit here may be of a run there.
    """
    try:
        key = (root, root.stat().st_ino)
    except OSError:  # the folder does not exist yet
        return
    with _lock:
        new = key not in _cared_for
        _cared_for.add(key)
    if new:
        tighten_store(root, shared)
        sweep_store(root)


def sweep_store(root: Path) -> None:
    """Remove unfinished folders of processes that have ended."""
    for place in _PLACES:
        sweep(root / place)


def tighten_store(root: Path, shared: Sequence[Path]) -> None:
    """Remove other accounts' permissions from everything that is, or may be, about imported notes. Never raises."""
    for path in _private(root, shared):
        try:
            tighten(path)
        except FileNotFoundError:  # it was removed in the meantime
            continue
        except OSError as error:
            log.warning("other accounts may be able to read %s, and its permissions cannot be changed: %s", path, error)


def _private(root: Path, shared: Sequence[Path]) -> Iterator[Path]:
    uploads = root / "uploads"
    if any(DIGEST.fullmatch(path.stem) or path.name.startswith(".brought-") for path in uploads.glob("*")):
        yield uploads
    if any(DIGEST.fullmatch(path.name) for path in (root / "ledger").glob("*/")):
        yield root / "ledger"
    yield from (path for path in (root / "references").glob("*/") if DIGEST.fullmatch(path.name))
    yield from (path for path in (root / "corpora").glob("*/") if DIGEST.fullmatch(path.name) and not _synthetic(path))
    for place in ("runs", "work", DAMAGED):
        yield from (path for path in folders_in(root / place) if not _synthetic(path))
    for path in folders_in(root / "audits"):
        if not any(_synthetic(place / "runs" / path.name) for place in (root, *shared)):
            yield path


def _synthetic(folder: Path) -> bool:
    """Whether the folder's spec says that it is of a synthetic cohort; False, to be safe, if it cannot be read."""
    try:
        spec = json.loads((folder / "spec.json").read_text(encoding="utf-8"))
        return spec.get("corpus", spec).get("imported") is None
    except (OSError, ValueError, AttributeError, RecursionError):
        return False
