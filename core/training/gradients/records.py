"""What a physical batch keeps from a model's layers until its units are clipped.

`Record` holds what the hooks saw of one layer; `Vectors` holds the gradients of all biases and scales, which are small
enough to be kept whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from core.training.gradients.units import Pieces, UnitLayout

Sums = dict[Tensor, Tensor]  # each parameter's part of the clipped sum, in its shape


@dataclass
class Record:
    """What is kept from a layer for each piece of a physical batch: its inputs and the gradients of its outputs.

    For a LayerNorm the outputs are kept too.
    """

    inputs: list[Tensor] = field(default_factory=list)
    gradients: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    def add(self, layer: nn.Module, x: Tensor, output: Tensor, gradient: Tensor) -> None:
        """Add the tensors of one piece in `layer`."""
        self.inputs.append(x)
        self.gradients.append(gradient)
        if isinstance(layer, nn.LayerNorm):
            self.outputs.append(output.detach())

    def arrange(self, layout: UnitLayout) -> None:
        """Reorder the rows of every piece to match the layout."""
        for values in (self.inputs, self.gradients, self.outputs):
            values[:] = [layout.arrange(piece, rows) for piece, rows in enumerate(values)]

    @property
    def rows(self) -> tuple[Pieces, Pieces]:
        """Inputs (B, T, d) and output gradients (B, T, p) of every piece."""
        return [rows_of(x) for x in self.inputs], [rows_of(g) for g in self.gradients]


Records = dict[nn.Module, Record]


def rows_of(values: Tensor) -> Tensor:
    """(B, …, d) as (B, T, d)."""
    return values.unsqueeze(1) if values.dim() == 2 else values.flatten(1, -2)


class Vectors:
    """Gradients of biases and scales in one physical batch, side by side in one matrix with one row per example.

    They are vectors, small enough to keep each example's from the norm to the sum.
    """

    def __init__(self, layout: UnitLayout, width: int, like: Tensor) -> None:
        self._layout = layout
        self._rows = like.new_empty(len(layout.unit_of_example), width)
        self._columns: list[tuple[int, nn.Parameter, slice]] = []
        self._used = 0

    def add(self, layer: int, parameter: nn.Parameter, pieces: Pieces) -> Tensor:
        """Add a parameter of layer number `layer` whose gradients are the sums over T of `pieces` (B, T, d).

        Returns:
            These gradients (B, d), as a view of the matrix.
        """
        columns = slice(self._used, self._used + parameter.numel())
        first = 0
        for values in pieces:
            torch.sum(values, 1, out=self._rows[first : first + len(values), columns])
            first += len(values)
        self._columns.append((layer, parameter, columns))
        self._used = columns.stop
        return self._rows[:, columns]

    def add_squares(self, squares: Tensor) -> None:
        """Add the units' squared norms to `squares` (U, layers)."""
        rows = self._rows[:, : self._used]
        if not self._layout.one_example_each:
            per_unit = rows.new_zeros(len(self._layout), self._used)
            rows = per_unit.index_add_(0, self._layout.unit_of_example, rows)
        rows = rows.square()
        for layer, _, columns in self._columns:
            squares[:, layer] += rows[:, columns].sum(1)

    def add_clipped_sum(self, factors: Tensor, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u to the parameters' buffers; `factors` is (U,)."""
        total = factors[self._layout.unit_of_example] @ self._rows[:, : self._used]
        for _, parameter, columns in self._columns:
            sums[parameter].add_(total[columns].view_as(parameter))
