"""A labelled span of a text, and how overlapping spans are resolved."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

Kind = Literal["leak", "linked leak", "coincidence", "invented"]
KINDS: tuple[Kind, ...] = ("leak", "linked leak", "coincidence", "invented")

Place = tuple[int, int, str]  # start, end, field


class Extent(Protocol):
    """Characters [start, end) of a text."""

    @property
    def start(self) -> int: ...  # noqa: D102

    @property
    def end(self) -> int: ...  # noqa: D102


Placed = TypeVar("Placed", bound=Extent)


@dataclass(frozen=True)
class Span:
    """Characters [start, end) of a text that contain a PHI value.

    `value` is the value as written in the record (the text may differ in case and punctuation); for an invented value
    it is the text itself. `patient_ids` are the patients it belongs to, those who were trained on first: every holder
    of a direct identifier, but for a health detail only those identified in the same text (otherwise none).
    """

    start: int
    end: int
    field: str
    value: str
    kind: Kind
    patient_ids: tuple[str, ...] = ()


def without_overlaps(places: Iterable[Placed], seriousness: Callable[[Placed], tuple]) -> list[Placed]:
    """Keep the longest of overlapping places, the most serious (lowest key) of equally long ones, in text order."""
    ordered = sorted(places, key=lambda place: (place.start - place.end, *seriousness(place), place.start))
    kept: list[tuple[int, int, int]] = []
    for number, place in enumerate(ordered):
        at = bisect_left(kept, (place.start, -1, -1))
        free_before = at == 0 or kept[at - 1][1] <= place.start
        free_after = at == len(kept) or kept[at][0] >= place.end
        if free_before and free_after:
            insort(kept, (place.start, place.end, number))
    return [ordered[number] for _, _, number in kept]
