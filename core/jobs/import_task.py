"""What reads uploaded notes, in a separate process: a small file can expand until the memory is full.

`python -m core.jobs.import_task FOLDER` checks them. Standard input has one line of JSON with what to import and how.
When it is closed, the parent process is gone, and this process ends and removes what it wrote. FOLDER regularly gets a
`progress.json`, and at the end either `cohort/` with `seen.json` (`core.corpus.importing.importer.Seen`), or
`failed.json` with a sentence.

`python -m core.jobs.import_task first-rows` reads a path, a JSON string, from standard input. It prints the first rows
of that file as JSON, `{"columns": {name: cells}}`, or `{"message": sentence}`, and may use `MOST_MEMORY` bytes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

from core.common.files import PRIVATE_FOLDER, replace_text
from core.corpus.importing.files import head
from core.corpus.importing.importer import import_notes
from core.corpus.importing.note_tables import StageReport
from core.phi.detector import tagger
from core.runs.integrity.disk import full_disk_as_sentence

COHORT, SEEN_FILE, PROGRESS_FILE, FAILED_FILE = "cohort", "seen.json", "progress.json", "failed.json"
FIRST_ROWS = "first-rows"
MOST_MEMORY = 4 * 2**30  # of the address space, libraries included, for reading first rows
MOST_SHOWN = 300  # characters of a cell among the first rows
TELL_SECONDS = 0.25
TRIES = 1_000  # to remove a folder into which a check still writes
NICE = 5  # pages that users are viewing have priority
NO_MEMORY = "The check ran out of memory and was ended. Upload part of the notes, or use a computer with more memory."

log = logging.getLogger(__name__)

_ending = threading.Lock()  # held by the thread that ends the process


def check(folder: Path, path: str, options: dict[str, Any]) -> None:
    """Import `path` into `folder/cohort` and write the findings, or why the notes cannot be used. Never raises."""
    try:
        (folder / COHORT).mkdir(mode=PRIVATE_FOLDER)
        with full_disk_as_sentence("the cohort", folder):
            seen = import_notes(path, folder / COHORT, on_progress=_teller(folder), **options)
            replace_text(folder / SEEN_FILE, seen.model_dump_json())
    except MemoryError:
        _fail(folder, NO_MEMORY)
    except (ValueError, OSError) as error:  # BadNotes and DiskFull are sentences
        _fail(folder, str(error))
    except Exception as error:
        log.exception("a check of notes failed")
        _fail(folder, f"The check stopped because of an unexpected error ({type(error).__name__}); see the log.")


def first_rows(path: str) -> dict[str, Any]:
    """The first rows of a file, with cells cut to what is shown, or a sentence. Never raises."""
    try:
        found = head(Path(path)).map(_cut)
        return {"columns": {name: found[name].tolist() for name in found}}
    except MemoryError:
        return {"message": f"{Path(path).name}: its first rows need more memory than a file of notes should."}
    except (ValueError, OSError) as error:
        return {"message": str(error)}


def _cut(cell: str) -> str:
    return cell if len(cell) <= MOST_SHOWN else f"{cell[:MOST_SHOWN]} …"


def _fail(folder: Path, message: str) -> None:
    shutil.rmtree(folder / COHORT, ignore_errors=True)  # first, because it may be what fills the disk
    replace_text(folder / FAILED_FILE, json.dumps({"message": message}))


def _teller(folder: Path) -> StageReport:
    """A callback that writes progress to disk, at most a few times a second, with the time since the start."""
    begun = time.monotonic()
    last: tuple[float, str] = (0.0, "")

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if what != last[1] or now - last[0] > TELL_SECONDS:
            last = now, what
            said = {"what": what, "done": done, "total": total, "seconds": now - begun}
            replace_text(folder / PROGRESS_FILE, json.dumps(said), durable=False)

    return tell


def _end_with_parent(folder: Path) -> None:
    """Remove everything once the parent is gone, also what the check writes meanwhile, and end the process."""
    sys.stdin.read()
    with _ending:
        for _ in range(TRIES):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():  # nothing makes it again
                break
        os._exit(1)


def _lower_priority() -> None:
    """Give way to other processes, and be killed before the server if memory runs out."""
    os.nice(NICE)
    with contextlib.suppress(OSError):  # other systems than Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def _limit_memory() -> None:
    with contextlib.suppress(ImportError, ValueError):  # no such limit on other systems
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))


if __name__ == "__main__" and sys.argv[1:] == [FIRST_ROWS]:
    _lower_priority()
    _limit_memory()
    print(json.dumps(first_rows(json.loads(sys.stdin.readline()))))
elif __name__ == "__main__":
    place = Path(sys.argv[1])
    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, args=(place,), daemon=True).start()
    _lower_priority()
    tagger.leave_out_torch()
    try:
        check(place, asked["path"], asked["options"])
    finally:
        _ending.acquire()  # the check's folder may be gone, and its removal not yet complete
