"""The runs in a store, listed over and over again: pages do so at every click, some of them several times.

A complete run hardly ever changes, so a `Run` that was opened once is kept. Runs that come or go are noticed at once:
each listing reads the names and inode numbers in the folder of runs, which is one pass over one folder. What happens
inside a run's folder (a damaged file, for example) is looked at for CHECKED runs in each listing, in turns: a store of
so many runs is checked as a whole each time, and a page of a store of thousands does not ask for the times of ten
thousand files. A reader that meets damage reports it (`integrity.whole.note_damage`), and then the next listing checks
all runs.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from operator import is_
from pathlib import Path
from typing import Generic, TypeVar

from core.runs.integrity.disk import error_sentence
from core.runs.integrity.replacements import note_replacement
from core.runs.integrity.whole import damage_noted
from core.runs.run import Run, RunBroken, RunUnread

CHECKED = 50  # runs whose files are looked at again in one listing
MOST_PLACES = 16  # folders of runs that a process remembers: the data folder and the shipped runs; more in tests

Opened = Run | str  # a run, or the sentence that says why it cannot be used
Result = TypeVar("Result")

_listings: OrderedDict[tuple[Path, bool], _Listing] = OrderedDict()
_memories: list[OfRuns] = []
_lock = threading.Lock()


def opened(place: Path, *, shipped: bool) -> dict[str, tuple[Path, Opened]]:
    """Every folder of a run in `place` by its name, in their order, with its run or what is wrong with it.

    Args:
        place: A folder of runs (`<root>/runs`). It need not exist.
        shipped: Whether its runs came with the software.
    """
    with _lock:
        listing = _listings.setdefault((place, shipped), _Listing(place, shipped))
        _listings.move_to_end((place, shipped))
        if len(_listings) > MOST_PLACES:
            _listings.popitem(last=False)
    return listing.now()


def one(folder: Path, *, shipped: bool) -> Run | None:
    """The run in this folder; None if it is not there, or was removed at this moment.

    Raises:
        RunBroken: One of its files is missing or damaged.
        RunUnread: The system does not let this process read it now.
    """
    try:
        return Run.open(folder, shipped=shipped) if folder.is_dir() else None
    except RunBroken:
        if folder.is_dir():
            raise
    except OSError as error:
        if not isinstance(error, FileNotFoundError) or folder.is_dir():
            raise RunUnread(f"Run {folder.name} cannot be read at the moment. {error_sentence(error)}") from error
    return None


def forget(root: Path) -> None:
    """Drop what is remembered of runs on imported notes in this data folder: they may have been deleted."""
    Run.forget_opened(root)
    with _lock:
        listings, memories = list(_listings.values()), list(_memories)
    for listing in listings:
        if listing.place.is_relative_to(root):
            listing.forget_imported()
    for memory in memories:
        memory.forget()


class _Listing:
    """What is known of one folder of runs. Any thread may ask; one at a time looks."""

    def __init__(self, place: Path, shipped: bool) -> None:
        self.place, self.shipped = place, shipped
        self._found: dict[str, tuple[int, Path, Opened]] = {}  # by name, in order: inode, folder, run
        self._next = 0
        self._noted = -1
        self._lock = threading.Lock()

    def now(self) -> dict[str, tuple[Path, Opened]]:
        with self._lock:
            names, noted = _folders(self.place), damage_noted()
            due = self._due(list(names), all_of_them=noted != self._noted)
            found = {}
            for name, inode in names.items():
                known = self._found.get(name)
                if known is None or known[0] != inode or name in due:
                    folder = self.place / name if known is None else known[1]
                    known = (inode, folder, self._open(folder))
                    if isinstance(known[2], str) and not folder.is_dir():
                        continue  # it was removed while it was read: it is no run, and no damaged one
                found[name] = known
            if not self._found.keys() <= found.keys() or _known_elsewhere(found.keys() - self._found.keys(), self):
                note_replacement()  # another folder has, or may get, the id of a run that was listed here
            self._found, self._noted = found, noted
            return {name: (folder, one) for name, (_, folder, one) in found.items()}

    def _due(self, names: list[str], *, all_of_them: bool) -> set[str]:
        """The names whose files are looked at again in this listing."""
        if all_of_them or len(names) <= CHECKED:
            return set(names)
        begin = self._next % len(names)
        self._next = begin + CHECKED
        return {*names[begin : begin + CHECKED], *names[: max(0, begin + CHECKED - len(names))]}

    def _open(self, folder: Path) -> Opened:
        try:
            return Run.open(folder, shipped=self.shipped)
        except (RunBroken, OSError) as error:
            return str(error)

    def forget_imported(self) -> None:
        with self._lock:
            self._found = {
                name: known
                for name, known in self._found.items()
                if isinstance(known[2], Run) and known[2].spec.corpus.imported is None
            }


def _known_elsewhere(names: Set[str], but: _Listing) -> bool:
    """Whether another listing than `but` has one of these names: a run in the data folder hides a shipped one."""
    if not names:
        return False
    with _lock:
        others = [listing for listing in _listings.values() if listing is not but]
    return any(not names.isdisjoint(listing._found) for listing in others)


def _folders(place: Path) -> dict[str, int]:
    """The inode number of each folder in `place` by its name, in order; hidden ones are being made or removed."""
    try:
        with os.scandir(place) as entries:
            found = [(entry.name, entry.inode()) for entry in entries if entry.name[0] != "." and entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return dict(sorted(found))


class OfRuns(Generic[Result]):
    """Remembers what a function returned for the last lists of runs: it is asked for the same ones at every click.

    Two lists are the same if they hold the same `Run` objects in the same order, which listings keep as long as the
    runs do not change. The function must look at nothing but the runs, and its result must not be modified.
    """

    def __init__(self, function: Callable[[Sequence[Run]], Result], keep: int = 4) -> None:
        self._function, self._keep = function, keep
        self._known: list[tuple[tuple[Run, ...], Result]] = []  # the one asked for last is last
        self._forgotten = 0
        self._guard = threading.Lock()
        with _lock:
            _memories.append(self)

    def __call__(self, runs: Sequence[Run]) -> Result:
        """The function's result for these runs."""
        asked = tuple(runs)
        with self._guard:
            place = next((at for at, (held, _) in enumerate(self._known) if _same(held, asked)), None)
            if place is not None:
                self._known.append(self._known.pop(place))
                return self._known[-1][1]
            forgotten = self._forgotten
        result = self._function(asked)
        with self._guard:
            if forgotten == self._forgotten:  # else a cohort was deleted meanwhile, perhaps of one of these runs
                self._known = [*self._known[-self._keep + 1 :], (asked, result)]
        return result

    def forget(self) -> None:
        """Forget what was asked of runs on imported notes: they may have been deleted."""
        with self._guard:
            self._known = [known for known in self._known if not any(run.spec.corpus.imported for run in known[0])]
            self._forgotten += 1


def _same(one: tuple[Run, ...], other: tuple[Run, ...]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


def is_whole(folder: Path) -> bool:
    """Whether the finished run in this folder can be used, according to its files now."""
    try:
        Run.open(folder)
    except (RunBroken, OSError):
        return False
    return True
