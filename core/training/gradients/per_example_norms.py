"""Per-unit gradients of a weight matrix: their norms, then their clipped sum.

For a layer y = x·W with input rows x_t (d,) and output gradients g_t (p,), the gradient of one unit is Σ_t x_t g_tᵀ
over the unit's L rows. There are two ways to compute its norm:

* form it, in L·d·p products, and keep it until the clipping factors are known: the clipped sum is then a weighted sum
  of the kept gradients, and the total number of products is that of a plain step;
* Gram ("book-keeping", Bu et al. 2023, "Differentially Private Optimization on Large Model at Small Cost", and the
  ghost norm of Li et al. 2022): ‖Σ_t x_t g_tᵀ‖² = Σ_{t,s} ⟨x_t, x_s⟩⟨g_t, g_s⟩, in L²·(d + p) products, and the
  clipped sum by one weighted product over all rows.

A unit with few rows has a gradient larger than the rows themselves, so it is never formed. The gradient of a unit with
many rows (a long note, a patient's notes) is smaller than what the forward and backward pass keep anyway, and forming
it once is cheapest. Memory therefore stays in proportion to the batch, and `KEPT_FLOATS` bounds it for large models.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd, prod

import torch
from torch import Tensor

from core.training.gradients.units import Block, Pieces, UnitLayout

# A unit's gradient is kept if it is at most this many times as large as its rows (measured, T = 48…192, widths
# 128…512).
KEEP_BELOW = 2.0

# Floats of units' gradients that may be kept at once (320 MB): 64 notes in the shipped models.
KEPT_FLOATS = 80_000_000

# A product of Gram matrices takes this much longer than one of a direct norm (measured, T = 60…150, widths 128…512).
GRAM_COST = 1.3

# Squares summed in float32 before float64 takes over: an error of 10⁻⁶ at most. Smaller groups take longer.
SQUARES_AT_ONCE = 2_048

# Floats that may exist at once where gradients are formed only for their norm (2 MiB).
SLICE = 524_288


class Store:
    """Memory for the gradients that a physical batch keeps from norm to sum; every batch reuses it."""

    def __init__(self) -> None:
        self._room: Tensor | None = None
        self._used = 0

    def take(self, like: Tensor, *shape: int) -> Tensor | None:
        """Uninitialised memory of that shape, or None if the limit is reached."""
        start, end = self._used, self._used + prod(shape)
        if end > KEPT_FLOATS:
            return None
        if self._room is None:  # allocated all at once: on a CPU, pages that are never written use no memory
            self._room = like.new_empty(KEPT_FLOATS)
        self._used = end
        return self._room[start:end].view(shape)

    def clear(self) -> None:
        """Release everything that was taken."""
        self._used = 0


class OuterProducts:
    """The gradients (d, p) of the units of one weight, from their norms until their clipped sum."""

    def __init__(self) -> None:
        self.kept: list[tuple[Block, Tensor]] = []  # blocks of units, and their gradients (units, d, p)
        self.left: list[tuple[Block, Pieces, Pieces]] = []  # the other blocks, with their rows of x and of g
        self._gradients = torch.empty(0)  # all kept gradients, (K, d, p)

    def form(self, x: Pieces, g: Pieces, layout: UnitLayout, store: Store) -> None:
        """Form Σ_t x_t g_tᵀ for the blocks where it pays; x is (B, T, d) for each piece, g (B, T, p)."""
        d, p = x[0].shape[-1], g[0].shape[-1]
        worth = [
            KEEP_BELOW * sum(len(x[piece][rows]) * x[piece].shape[1] for piece, rows in block.spans) * (d + p)
            >= len(block) * d * p
            for block in layout.blocks
        ]
        count = sum(len(block) for block, keep in zip(layout.blocks, worth, strict=True) if keep)
        room = store.take(x[0], count, d, p) if count else None
        self.kept, self.left, first = [], [], 0
        for block, keep in zip(layout.blocks, worth, strict=True):
            rows = block.of(x), block.of(g)
            if not keep or room is None:
                self.left.append((block, *rows))
                continue
            gradients = room[first : first + len(block)]
            first += len(block)
            _sum_of_products(*rows, gradients)
            self.kept.append((block, gradients))
        self._gradients = torch.empty(0) if room is None else room

    def add_clipped_sum(self, factors: Tensor, total: Tensor) -> None:
        """Add Σ_u c_u·∇_u to `total` (d, p) and release the gradients."""
        if self.kept:
            chosen = torch.cat([factors[block.units] for block, _ in self.kept])
            total.add_((chosen @ self._gradients.flatten(1)).view(total.shape))
        for block, xs, gs in self.left:
            scale = factors[block.units, None, None]
            for rows, gradients in zip(xs, gs, strict=True):
                if rows.shape[-1] <= gradients.shape[-1]:  # the smaller one is scaled
                    rows = rows * scale
                else:
                    gradients = gradients * scale
                total.addmm_(rows.flatten(0, 1).t(), gradients.flatten(0, 1))
        self.kept, self.left, self._gradients = [], [], torch.empty(0)


def _sum_of_products(xs: Pieces, gs: Pieces, out: Tensor) -> None:
    """Write Σ_t x_t g_tᵀ into `out` (units, d, p); xs (units, L, d) and gs (units, L, p) come in parts."""
    for number, (x, g) in enumerate(zip(xs, gs, strict=True)):
        if len(out) == 1 and number == 0:
            torch.mm(x[0].t(), g[0], out=out[0])
        elif len(out) == 1:
            out[0].addmm_(x[0].t(), g[0])
        elif number == 0:
            torch.bmm(x.transpose(1, 2), g, out=out)
        else:
            out.baddbmm_(x.transpose(1, 2), g)


def squares_of(gradients: Tensor) -> Tensor:
    """(units,) float64 squared norms of gradients (units, d, p), summed in parts because float32 sums lose digits."""
    d, p = gradients.shape[1:]
    parts = gradients.view(len(gradients), -1, max(gcd(d * p, SQUARES_AT_ONCE), min(d, p)))
    return torch.linalg.vector_norm(parts, dim=2).double().square_().sum(1)


def outer_squares(xs: Pieces, gs: Pieces) -> Tensor:
    """(units,) float64 ‖Σ_t x_t g_tᵀ‖² without keeping gradients; xs (units, L, d) and gs (units, L, p) in parts."""
    x, g = joined(xs), joined(gs)
    units, length, d = x.shape
    p = g.shape[-1]
    if GRAM_COST * length * (d + p) <= d * p:
        return gram_squares(x, g)
    squares = torch.empty(units, dtype=torch.float64, device=x.device)
    for part in slices(units, d * p):
        squares[part] = squares_of(torch.bmm(x[part].transpose(1, 2), g[part]))
    return squares


def gram_squares(x: Tensor, g: Tensor) -> Tensor:
    """As `outer_squares`, by products of Gram matrices; x (units, L, d), g (units, L, p)."""
    units, length, _ = x.shape
    squares = torch.empty(units, dtype=torch.float64, device=x.device)
    for part in slices(units, 2 * length * length):
        products = torch.bmm(x[part], x[part].transpose(1, 2))  # (units, L, L)
        gram = torch.bmm(g[part], g[part].transpose(1, 2))
        squares[part] = products.mul_(gram).sum(2).sum(1, dtype=torch.float64)
    return squares


def joined(parts: Pieces) -> Tensor:
    """The rows of units (units, L_i, d), given in parts, as one tensor (units, Σ L_i, d)."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def slices(units: int, floats_a_unit: int) -> Iterator[slice]:
    """Ranges of units whose matrices together have at most `SLICE` floats."""
    step = max(1, SLICE // max(1, floats_a_unit))
    return (slice(first, first + step) for first in range(0, units, step))
