"""Which examples of a physical batch belong to one privacy unit, arranged so that no gradient has to be copied about.

A *unit* is what differential privacy protects: a note (one or several samples of a long text) or a whole patient. The
gradients of a unit's examples are summed before they are clipped, so every layer needs its examples in blocks
`(units, examples of the unit)`. Units with the same number of examples lie side by side, and a block is then a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class UnitBlock:
    """`units` neighbouring units of `size` examples each: examples `first:last`, units `first_unit:last_unit`."""

    first: int
    last: int
    first_unit: int
    last_unit: int
    size: int

    @property
    def units(self) -> int:
        """How many units the block holds."""
        return self.last_unit - self.first_unit


class UnitLayout:
    """The order in which a physical batch is laid out, and its blocks of equally large units.

    `unit_ids` has one integer an example. Units are numbered 0…U-1 in the order of the layout; `ids[u]` is the caller's
    name of unit u.
    """

    def __init__(self, unit_ids: Sequence[int] | np.ndarray | Tensor, device: torch.device):
        names = np.asarray(unit_ids.cpu() if isinstance(unit_ids, Tensor) else unit_ids, dtype=np.int64)
        unique, first_seen, inverse, sizes = np.unique(
            names, return_index=True, return_inverse=True, return_counts=True
        )
        rank = np.empty(len(unique), dtype=np.int64)
        by_size = np.lexsort((first_seen, sizes))
        rank[by_size] = np.arange(len(unique))
        unit_of = rank[inverse]
        order = np.argsort(unit_of, kind="stable")
        self.ids: np.ndarray = unique[by_size]
        self.blocks = tuple(_blocks(sizes[by_size]))
        in_order = bool(np.array_equal(order, np.arange(len(order))))
        self._order = None if in_order else torch.as_tensor(order, device=device)
        self.unit_of_example = torch.as_tensor(unit_of[order], device=device)  # (B,) in the layout's order

    def __len__(self) -> int:
        return len(self.ids)

    def arrange(self, values: Tensor) -> Tensor:
        """Rows of `values` (B, …) in the layout's order; a view when they already are."""
        return values if self._order is None else values.index_select(0, self._order)

    def split(self, *tensors: Tensor) -> Iterator[tuple[UnitBlock, list[Tensor]]]:
        """For each block, the tensors (B, T, d) already in order as (units, size·T, d)."""
        for block in self.blocks:
            yield block, [t[block.first : block.last].reshape(block.units, -1, t.shape[-1]) for t in tensors]


def _blocks(sizes: np.ndarray) -> Iterator[UnitBlock]:
    """Blocks of equal `sizes` (sorted, ascending)."""
    first = first_unit = 0
    for size, units in zip(*np.unique(sizes, return_counts=True), strict=True):
        last, last_unit = first + int(size * units), first_unit + int(units)
        yield UnitBlock(first, last, first_unit, last_unit, int(size))
        first, first_unit = last, last_unit
