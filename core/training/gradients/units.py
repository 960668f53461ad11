"""Group the examples of a physical batch by privacy unit, arranged so that little has to be copied.

A *unit* is what differential privacy protects: a note (one or several samples of a long text) or a whole patient. The
gradients of a unit's examples are summed before they are clipped, so every layer needs its examples in blocks `(units,
rows of the unit)`. A physical batch may have run through the model in several *pieces* (short and long notes
separately, to reduce padding); a unit's examples may then lie in more than one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Pieces = list[Tensor]  # one tensor for each piece, (B_piece, T_piece, d)


@dataclass(frozen=True)
class Block:
    """Adjacent units with equally many examples in each piece; `spans` gives the rows in each piece."""

    units: slice
    spans: tuple[tuple[int, slice], ...]

    def __len__(self) -> int:
        return self.units.stop - self.units.start

    def of(self, pieces: Pieces) -> Pieces:
        """Tensors (B_piece, T, d), already in order, as (units, rows of the unit, d): one view for each span."""
        return [pieces[piece][rows].reshape(len(self), -1, pieces[piece].shape[-1]) for piece, rows in self.spans]


class UnitLayout:
    """The order in which the pieces of a physical batch are arranged, and the units' places in them.

    Units are numbered 0…U-1; `ids[u]` is the caller's name of unit u. Units with the same number of examples in every
    piece are adjacent, so that a block of them is a view of each piece.
    """

    def __init__(self, pieces: Sequence[Sequence[int] | np.ndarray | Tensor], device: torch.device):
        names = [np.asarray(ids.cpu() if isinstance(ids, Tensor) else ids, dtype=np.int64) for ids in pieces]
        self.ids, counts, units = ranked(names)
        self._orders = [_order(part, device) for part in units]
        units = [np.sort(part) for part in units]
        self.blocks = _blocks(counts, units)
        self.unit_of_examples = [torch.as_tensor(part, device=device) for part in units]  # (B_piece,) each
        self.unit_of_example = torch.cat(self.unit_of_examples)
        self.one_example_each = len(self.ids) == len(self.unit_of_example) and len(names) == 1

    def __len__(self) -> int:
        return len(self.ids)

    def arrange(self, piece: int, values: Tensor) -> Tensor:
        """Rows of `values` (B_piece, …) in the layout's order; a view if they already are."""
        order = self._orders[piece]
        return values if order is None else values.index_select(0, order)


def ranked(pieces: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Order the units, given the unit names (B_piece,) of the examples of each piece.

    Units with the same number of examples in every piece are adjacent; within these, the first seen comes first.

    Returns:
        The names (U,) in this order; the number of examples of each unit in each piece (U, pieces); and for each piece
        the place of its examples' units in the order, (B_piece,).
    """
    names, first_seen, inverse = np.unique(np.concatenate(pieces), return_index=True, return_inverse=True)
    piece = np.repeat(np.arange(len(pieces)), [len(ids) for ids in pieces])
    counts = np.bincount(inverse * len(pieces) + piece, minlength=len(names) * len(pieces))
    counts = counts.reshape(len(names), len(pieces))
    order = np.lexsort((first_seen, *counts.T))
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return names[order], counts[order], np.split(place[inverse], np.flatnonzero(np.diff(piece)) + 1)


def _blocks(counts: np.ndarray, units: Sequence[np.ndarray]) -> list[Block]:
    """Blocks of units with equal rows of `counts` (U, pieces); `units` has each piece's examples' units, sorted."""
    edges = [0, *(np.flatnonzero((counts[1:] != counts[:-1]).any(1)) + 1).tolist(), len(counts)]
    blocks = []
    for first, last in zip(edges, edges[1:], strict=False):
        spans = []
        for piece in np.flatnonzero(counts[first]).tolist():
            start = int(np.searchsorted(units[piece], first))
            spans.append((piece, slice(start, start + (last - first) * int(counts[first, piece]))))
        blocks.append(Block(slice(first, last), tuple(spans)))
    return blocks


def _order(units: np.ndarray, device: torch.device) -> Tensor | None:
    """The permutation that sorts examples by unit; None if they are sorted."""
    if (np.diff(units) >= 0).all():
        return None
    return torch.as_tensor(np.argsort(units, kind="stable"), device=device)
