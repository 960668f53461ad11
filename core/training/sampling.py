"""The examples of each step: shuffled epochs without privacy, Poisson samples of units with it.

Every random choice of a step is drawn from a generator seeded by (source, purpose, step), never from one that runs
through the whole training (core.common.randomness). A run resumed from a checkpoint therefore draws exactly what an
uninterrupted one would have drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from core.common.randomness import Stream
from core.spec import Unit
from core.training.gradients.units import ranked

BUCKET = 50  # batches that are sorted by length together; within such a bucket there is almost no padding


SMALLEST_PIECE = 6  # samples; smaller matrix products cost more than the padding they save


class Purpose(IntEnum):
    """The purpose of a random stream; the first part of its path."""

    SHUFFLE = 1
    SAMPLE = 2
    MASK = 3
    NOISE = 4


@dataclass(frozen=True)
class Units:
    """Privacy units and their samples: those of unit u are `samples[offsets[u]:offsets[u + 1]]`."""

    samples: np.ndarray
    offsets: np.ndarray

    @classmethod
    def build(cls, unit: Unit, note_index: np.ndarray, patient_ids: np.ndarray) -> Units:
        """Group samples by note or by patient; sample i belongs to note `note_index[i]`, note n to `patient_ids[n]`."""
        _, patient_of_note = np.unique(patient_ids, return_inverse=True)
        unit_of_note = np.arange(len(patient_ids)) if unit == "note" else patient_of_note
        count = len(patient_ids) if unit == "note" else int(patient_of_note.max(initial=-1)) + 1
        unit_of_sample = unit_of_note[note_index]
        sizes = np.bincount(unit_of_sample, minlength=count)
        return cls(np.argsort(unit_of_sample, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, unit: int) -> np.ndarray:
        """Sample numbers of one unit."""
        return self.samples[self.offsets[unit] : self.offsets[unit + 1]]


def poisson_batches(
    units: Units, lengths: np.ndarray, sample_rate: float, physical_batch: int, rng: Stream
) -> list[tuple[np.ndarray, np.ndarray]]:
    """One Poisson sample of units, divided into physical batches of about equally long samples.

    Every unit is in the sample with probability `sample_rate`, independently. Units are kept whole, so a physical batch
    has at most `physical_batch` samples, or one larger unit.

    Returns:
        (sample numbers, unit numbers) pairs, both (B,); an empty list if no unit was sampled.
    """
    chosen = np.flatnonzero(rng.random(len(units)) < sample_rate)
    members = {int(unit): units.of(int(unit)) for unit in chosen}
    longest = {unit: int(lengths[samples].max(initial=0)) for unit, samples in members.items()}
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    rows: list[np.ndarray] = []
    names: list[int] = []
    for unit in sorted((unit for unit in members if len(members[unit])), key=lambda unit: (longest[unit], unit)):
        if rows and sum(map(len, rows)) + len(members[unit]) > physical_batch:
            batches.append(_joined(rows, names))
            rows, names = [], []
        rows.append(members[unit])
        names.append(unit)
    return [*batches, _joined(rows, names)] if rows else batches


def _joined(rows: list[np.ndarray], names: list[int]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(rows), np.repeat(names, [len(row) for row in rows])


def pieces(samples: np.ndarray, units: np.ndarray, lengths: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Divide one physical batch (B,) into pieces of similar length, longest first, where padding would be wasteful.

    A patient has short and long notes, and all of them must be in one physical batch: as one piece, half of it would be
    padding. A batch with less than 10 % of padding stays one piece.
    """
    sizes = lengths[samples]
    if sizes.max() * len(sizes) <= 1.1 * sizes.sum():
        return _sorted_by_unit([(samples, units)])
    order = np.argsort(-sizes, kind="stable")
    cuts = [0]
    for place, size in enumerate(sizes[order]):
        if place - cuts[-1] >= SMALLEST_PIECE and size < 0.85 * sizes[order[cuts[-1]]]:
            cuts.append(place)
    return _sorted_by_unit([(samples[part], units[part]) for part in np.split(order, cuts[1:])])


def _sorted_by_unit(parts: list[tuple[np.ndarray, np.ndarray]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The same pieces with their rows in the order that clipping needs, so that it copies none."""
    _, _, places = ranked([units for _, units in parts])
    orders = [np.argsort(place, kind="stable") for place in places]
    return [(samples[order], units[order]) for (samples, units), order in zip(parts, orders, strict=True)]


def shuffled_batches(lengths: np.ndarray, batch_size: int, rng: np.random.Generator) -> list[np.ndarray]:
    """One epoch: every sample once, in batches of about equally long samples, in random order."""
    order = rng.permutation(len(lengths))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), batch_size * BUCKET):
        bucket = order[start : start + batch_size * BUCKET]
        bucket = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches += [bucket[first : first + batch_size] for first in range(0, len(bucket), batch_size)]
    return [batches[index] for index in rng.permutation(len(batches))]


def physical_batches(samples: np.ndarray, physical_batch: int) -> Iterator[np.ndarray]:
    """Divide a logical batch into parts of at most `physical_batch` samples."""
    return (samples[first : first + physical_batch] for first in range(0, len(samples), physical_batch))
