"""A disk that fills up, or is read-only: `python -m core bench full_disk --json` (Linux).

Each stage of `bench kills` is done on a small disk of its own: a tmpfs that is mounted in a mount namespace of a child
process, with as much room as the store needs before the stage and a share of what the stage adds. Where it fails, it
must say so in one sentence, and what is on the full disk must be whole. Then the disk is made larger and the stage is
done again: the store must be that of a stage that never failed. The same is done on a disk that is read-only.
"""

from __future__ import annotations

import ctypes
import json as json_format
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.faults import kills
from bench.faults._stages import STAGES, Stage, contents, copy_store, visible
from bench.faults.kills import Reference

SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97)
READ_ONLY = -1.0  # in place of a share
NEW_NAMESPACE, NEW_USER = 0x20000, 0x10000000  # linux/sched.h
READ_ONLY_FLAG, REMOUNT, PRIVATE = 1, 32, 0x44000  # linux/mount.h; the last: private, and everything below
PAGE = 4096


@dataclass
class Outcome:
    """What came of one stage on one disk."""

    stage: str
    share: float
    sentence: str = ""
    no_sentence: str = ""
    half_written: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether it was a sentence, and nothing was lost or left half-written."""
        return not (self.no_sentence or self.half_written or self.differs)


def _mount(place: Path, flags: int, options: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", str(place).encode(), b"tmpfs", flags, options.encode()):
        raise OSError(ctypes.get_errno(), f"a disk cannot be mounted: {os.strerror(ctypes.get_errno())}")


def _own_namespace() -> None:
    """What this process mounts is seen by nobody else, and gone when it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(NEW_NAMESPACE | (NEW_USER if user else 0)):
        raise OSError(ctypes.get_errno(), "this system lets nobody mount a disk of their own")
    if user:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            Path(f"/proc/self/{name}").write_text(text)
    if libc.mount(b"none", b"/", None, PRIVATE, None):
        raise OSError(ctypes.get_errno(), "mounts cannot be made private")


def size(folder: Path) -> int:
    """Bytes that a folder takes on a tmpfs: whole pages, and one for each name."""
    return sum(PAGE + -(-path.lstat().st_size // PAGE) * PAGE * path.is_file() for path in [folder, *folder.rglob("*")])


def sentence_of(work: Callable[[Path], None], root: Path) -> tuple[str, str]:
    """(sentence, "") of the error that a command would print, or ("", what was not a sentence). Both empty: none."""
    from core.runs.integrity.disk import error_sentence

    try:
        work(root)
    except (OSError, ValueError, LookupError) as error:
        told = " ".join(error_sentence(error).split())
        return (told, "") if told.endswith((".", "”")) and len(told) > 20 else ("", f"{type(error).__name__}: {told}")
    except Exception:
        return "", traceback.format_exc()[-600:]
    return "", ""


def _on_a_small_disk(stage: Stage, known: Reference, share: float, needed: int, _: Path) -> dict[str, Any]:
    """In a child: the whole course of one stage on one disk."""
    found = Outcome(stage.name, share)
    _own_namespace()
    place = Path(tempfile.mkdtemp(prefix="disk-", dir=known.before.parent))
    before = size(known.before)
    _mount(place, 0, f"size={before + needed * 4 + (1 << 20)}")
    root = place / "data"
    copy_store(known.before, root)
    if share == READ_ONLY:
        _mount(place, REMOUNT | READ_ONLY_FLAG, "")
    else:
        used = os.statvfs(place)
        taken = (used.f_blocks - used.f_bfree) * used.f_frsize
        _mount(place, REMOUNT, f"size={max(PAGE, taken + int(share * needed))}")
    found.sentence, found.no_sentence = sentence_of(stage.work, root)
    found.half_written = visible(root)
    _mount(place, REMOUNT, f"size={before + needed * 4 + (1 << 20)}")
    again = sentence_of(stage.work, root)
    if any(again):
        found.differs.append(f"with room it fails too: {again}")
        return asdict(found)
    now = contents(root)
    found.differs = [name for name in sorted({*now, *known.contents}) if now.get(name) != known.contents.get(name)]
    return asdict(found)


def measure(shares: tuple[float, ...] = (READ_ONLY, *SHARES), stages: tuple[Stage, ...] = STAGES) -> list[Outcome]:
    """Each stage on each disk."""
    kills._import_program()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for at, stage in enumerate(stages):
            place = Path(folder) / str(at)
            known = kills.reference(stage, place)
            needed = size(place / "done") - size(known.before)
            for share in shares:
                course = partial(_on_a_small_disk, stage, known, share, needed)
                found.append(Outcome(**kills._said_in_child(course, place / "store")))
                print(found[-1], file=sys.stderr, flush=True)
            shutil.rmtree(place)
    return found


def main(json: bool = False, rounds: int | None = None) -> None:
    """Fill disks, and print what each stage said. With `rounds`, each stage is done on so many full disks."""
    shares = SHARES if rounds is None else tuple((number + 0.5) / rounds for number in range(rounds))
    found = measure((READ_ONLY, *shares))
    failed = [one for one in found if one.sentence or one.no_sentence]
    told = {
        "disks": len(found),
        "failed": len(failed),
        "without a sentence": [asdict(one) for one in found if one.no_sentence],
        "half-written": [asdict(one) for one in found if one.half_written],
        "lost": [asdict(one) for one in found if one.differs],
        "sentences": sorted({f"{one.stage}: {one.sentence}" for one in failed if one.sentence}),
    }
    print(json_format.dumps(told, indent=1, ensure_ascii=False) if json else told)
