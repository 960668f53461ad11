"""Which examples of a physical batch belong to one privacy unit, arranged so that little has to be copied about.

A *unit* is what differential privacy protects: a note (one or several samples of a long text) or a whole patient. The
gradients of a unit's examples are summed before they are clipped, so every layer needs its examples in blocks `(units,
rows of the unit)`. A physical batch may have run through the model in several *pieces* (short and long notes apart, so
that little is padded); a unit's examples may then lie in more than one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

Pieces = list[Tensor]  # one tensor a piece, each (B_piece, T_piece, d)


class UnitLayout:
    """The order in which the pieces of a physical batch are laid out, and the units' places in them.

    Units are numbered 0…U-1; `ids[u]` is the caller's name of unit u. In one piece, units with the same number of
    examples lie side by side, so that a block of them is a view; over several pieces each unit is put together alone.
    """

    def __init__(self, pieces: Sequence[Sequence[int] | np.ndarray | Tensor], device: torch.device):
        names = [np.asarray(ids.cpu() if isinstance(ids, Tensor) else ids, dtype=np.int64) for ids in pieces]
        unique, first_seen, inverse, sizes = np.unique(
            np.concatenate(names), return_index=True, return_inverse=True, return_counts=True
        )
        rank = np.empty(len(unique), dtype=np.int64)
        by_size = np.lexsort((first_seen, sizes))
        rank[by_size] = np.arange(len(unique))
        self.ids: np.ndarray = unique[by_size]
        self._sizes: np.ndarray = sizes[by_size]
        self._units = [rank[part] for part in np.split(inverse, np.cumsum([len(ids) for ids in names])[:-1])]
        self._orders = [_order(units, device) for units in self._units]
        self._units = [np.sort(units) for units in self._units]
        self.unit_of_examples = [torch.as_tensor(units, device=device) for units in self._units]  # (B_piece,) each
        self.unit_of_example = torch.cat(self.unit_of_examples)

    def __len__(self) -> int:
        return len(self.ids)

    def arrange(self, piece: int, values: Tensor) -> Tensor:
        """Rows of `values` (B_piece, …) in the layout's order; a view when they already are."""
        order = self._orders[piece]
        return values if order is None else values.index_select(0, order)

    def split(self, *tensors: Pieces) -> Iterator[tuple[slice, list[Tensor]]]:
        """Slices of units, and the tensors (already in order) as (units, rows of each unit, d)."""
        if len(self._units) == 1:
            yield from self._blocks([pieces[0] for pieces in tensors])
            return
        bounds = [np.searchsorted(units, np.arange(len(self) + 1)) for units in self._units]
        for unit in range(len(self)):
            spans = [(piece, slice(edge[unit], edge[unit + 1])) for piece, edge in enumerate(bounds)]
            spans = [(piece, span) for piece, span in spans if span.start < span.stop]
            yield (
                slice(unit, unit + 1),
                [torch.cat([t[piece][span].flatten(0, 1) for piece, span in spans]).unsqueeze(0) for t in tensors],
            )

    def _blocks(self, tensors: list[Tensor]) -> Iterator[tuple[slice, list[Tensor]]]:
        """Units of equal size side by side, as views of the one piece."""
        first = first_unit = 0
        for size, units in zip(*np.unique(self._sizes, return_counts=True), strict=True):
            last, last_unit = first + int(size * units), first_unit + int(units)
            yield slice(first_unit, last_unit), [t[first:last].reshape(int(units), -1, t.shape[-1]) for t in tensors]
            first, first_unit = last, last_unit


def _order(units: np.ndarray, device: torch.device) -> Tensor | None:
    """The permutation that sorts examples by unit; None when they are sorted."""
    if (np.diff(units) >= 0).all():
        return None
    return torch.as_tensor(np.argsort(units, kind="stable"), device=device)
