"""Per-unit gradient norms and clipped gradient sums of each kind of layer, from its input and its output's gradient.

For a layer y = x·W with input rows x_t (d,) and output gradients g_t (p,), the gradient of one unit is Σ_t x_t g_tᵀ.
Its norm is found without keeping it ("book-keeping", Bu et al. 2023, "Differentially Private Optimization on Large
Model at Small Cost", and the ghost norm of Li et al. 2022), whichever is cheaper for the shape at hand:

* Gram: ‖Σ_t x_t g_tᵀ‖² = Σ_{t,s} ⟨x_t, x_s⟩⟨g_t, g_s⟩, at L²·(d + p) products for a unit of L rows;
* direct: form the (d, p) matrix of the unit, take its norm and let it go, at L·d·p products.

Every class here handles one layer (or a tied pair): `squared_norms` returns (U,) float64, `add_clipped_sum` adds
Σ_u c_u·∇_u to the buffers of its parameters. Tensors arrive in the order of the `UnitLayout`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from core.training.units import Pieces, UnitLayout

# A product of Gram matrices takes this much longer than one of a direct norm (measured, T = 60…150, widths 128…512).
GRAM_COST = 1.3

# Floats of units' gradients that may exist at once (2 MiB): direct norms go through the units in slices of it.
SLICE = 524_288

Sums = dict[nn.Parameter, Tensor]
Factors = list[Tensor]  # (B_piece,) each example's clipping factor, one tensor a piece


class UnsupportedLayer(ValueError):
    """A trainable layer whose per-unit gradients are not known here."""


@dataclass
class Record:
    """What a layer left behind in each piece of a physical batch: its inputs and the gradients of its outputs."""

    inputs: list[Tensor]
    gradients: list[Tensor]

    @property
    def rows(self) -> tuple[Pieces, Pieces]:
        """Inputs (B, T, d) and output gradients (B, T, p) of every piece."""
        return [_rows(x) for x in self.inputs], [_rows(g) for g in self.gradients]


Records = dict[nn.Module, Record]


def _rows(values: Tensor) -> Tensor:
    """(B, …, d) as (B, T, d)."""
    return values.unsqueeze(1) if values.dim() == 2 else values.flatten(1, -2)


def _slices(units: int, floats_a_unit: int) -> Iterator[slice]:
    """Ranges of units whose matrices together stay under `SLICE` floats."""
    step = max(1, SLICE // max(1, floats_a_unit))
    return (slice(first, first + step) for first in range(0, units, step))


def _outer_squares(x: Tensor, g: Tensor) -> Tensor:
    """‖Σ_t x_t g_tᵀ‖² for x (U, L, d) and g (U, L, p), by the cheaper way. Returns (U,) float64."""
    units, length, d = x.shape
    p = g.shape[-1]
    if GRAM_COST * length * (d + p) <= d * p:
        return _gram_squares(x, g)
    squares = torch.empty(units, dtype=torch.float64, device=x.device)
    for part in _slices(units, d * p):
        squares[part] = torch.linalg.vector_norm(torch.bmm(x[part].transpose(1, 2), g[part]), dim=(1, 2)).double() ** 2
    return squares


def _gram_squares(x: Tensor, g: Tensor) -> Tensor:
    """As `_outer_squares`, by products of Gram matrices."""
    units, length, _ = x.shape
    squares = torch.empty(units, dtype=torch.float64, device=x.device)
    for part in _slices(units, 2 * length * length):
        products = torch.bmm(x[part], x[part].transpose(1, 2))  # (U, L, L)
        gram = torch.bmm(g[part], g[part].transpose(1, 2))
        squares[part] = products.mul_(gram).sum((1, 2), dtype=torch.float64)
    return squares


class _Vectors:
    """Gradients of biases and scales: vectors, so small that each example's is kept from the norm to the sum."""

    def __init__(self) -> None:
        self._kept: list[tuple[nn.Parameter, Tensor]] = []

    def squared_norms(self, layout: UnitLayout, gradients: list[tuple[nn.Parameter, Tensor]]) -> Tensor:
        """(U,) squared norms of the units' sums of per-example gradients (B, d)."""
        self._kept = gradients
        squares = torch.zeros(len(layout), dtype=torch.float64, device=layout.unit_of_example.device)
        for _, per_example in gradients:  # (B, d), all pieces
            per_unit = per_example.new_zeros(len(layout), per_example.shape[-1])
            per_unit.index_add_(0, layout.unit_of_example, per_example)
            squares += per_unit.square_().sum(1, dtype=torch.float64)
        return squares

    def add_clipped_sum(self, factors: Factors, sums: Sums) -> None:
        """Add Σ_b c_b·∇_b and let the kept gradients go."""
        for parameter, per_example in self._kept:
            sums[parameter].add_((torch.cat(factors) @ per_example).view_as(parameter))
        self._kept = []


class LinearGradients:
    """`nn.Linear` (weight (out, in)) and the `Conv1D` of Hugging Face's GPT-2 (weight (in, out))."""

    def __init__(self, layer: nn.Linear | Conv1D):
        self.layer = layer
        self.layers: tuple[nn.Module, ...] = (layer,)
        self.weight = layer.weight if layer.weight.requires_grad else None
        self.bias = layer.bias if layer.bias is not None and layer.bias.requires_grad else None
        self._vectors = _Vectors()

    def squared_norms(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) squared norms of the unit gradients of weight and bias together."""
        squares = self.bias_squares(records, layout)
        if self.weight is not None:
            for part, (x, g) in layout.split(*records[self.layer].rows):
                squares[part] += _outer_squares(x, g)
        return squares

    def bias_squares(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) squared norms of the bias alone."""
        if self.bias is None:
            return self._vectors.squared_norms(layout, [])
        _, gradients = records[self.layer].rows
        return self._vectors.squared_norms(layout, [(self.bias, torch.cat([g.sum(1) for g in gradients]))])

    def add_clipped_sum(self, records: Records, factors: Factors, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u to the buffers."""
        self._vectors.add_clipped_sum(factors, sums)
        if self.weight is None:
            return
        total = sums[self.weight]
        total = total if isinstance(self.layer, Conv1D) else total.t()  # (in, out); BLAS is faster this way round
        for x, g, factor in zip(*records[self.layer].rows, factors, strict=True):
            scale = factor[:, None, None]
            x, g = (x * scale, g) if x.shape[-1] <= g.shape[-1] else (x, g * scale)  # the smaller one is scaled
            total.addmm_(x.flatten(0, 1).t(), g.flatten(0, 1))


class EmbeddingGradients:
    """`nn.Embedding`: the gradient of row v is the sum of the output gradients where v was looked up."""

    def __init__(self, layer: nn.Embedding):
        if layer.max_norm is not None or layer.scale_grad_by_freq or layer.sparse:
            raise UnsupportedLayer(
                "an embedding with max_norm, scale_grad_by_freq or sparse gradients mixes examples and cannot be "
                "trained privately: build it without these options"
            )
        self.layer = layer
        self.layers: tuple[nn.Module, ...] = (layer,)

    def gradient(self, records: Records) -> tuple[Pieces, Pieces]:
        """Token ids (B, T, 1) and output gradients (B, T, d) a piece, zero where the padding row was looked up."""
        record = records[self.layer]
        ids = [tokens.flatten(1).unsqueeze(-1) for tokens in record.inputs]
        gradients = [_rows(g) for g in record.gradients]
        if self.layer.padding_idx is not None:
            gradients = [
                g.masked_fill(tokens == self.layer.padding_idx, 0.0) for tokens, g in zip(ids, gradients, strict=True)
            ]
        return ids, gradients

    def squared_norms(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) squared norms: the rows a unit touches are summed first, then squared."""
        ids, gradients = self.gradient(records)
        size = self.layer.num_embeddings
        keys = [
            (u[:, None] * size + t.squeeze(-1)).flatten() for u, t in zip(layout.unit_of_examples, ids, strict=True)
        ]
        g = torch.cat([piece.flatten(0, 1) for piece in gradients])
        unique, inverse = torch.unique(torch.cat(keys), return_inverse=True)
        rows = g.new_zeros(len(unique), g.shape[-1]).index_add_(0, inverse, g)
        units = torch.div(unique, size, rounding_mode="floor")
        squares = torch.zeros(len(layout), dtype=torch.float64, device=g.device)
        return squares.index_add_(0, units, rows.square_().sum(1, dtype=torch.float64))

    def add_clipped_sum(self, records: Records, factors: Factors, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u to the buffer."""
        for ids, g, factor in zip(*self.gradient(records), factors, strict=True):
            sums[self.layer.weight].index_add_(0, ids.flatten(), (g * factor[:, None, None]).flatten(0, 1))


class LayerNormGradients:
    """`nn.LayerNorm`: ∂scale = Σ_t g_t ⊙ x̂_t and ∂shift = Σ_t g_t."""

    def __init__(self, layer: nn.LayerNorm):
        self.layer = layer
        self.layers: tuple[nn.Module, ...] = (layer,)
        self.weight = layer.weight if layer.weight is not None and layer.weight.requires_grad else None
        self.bias = layer.bias if layer.bias is not None and layer.bias.requires_grad else None
        self._vectors = _Vectors()

    def squared_norms(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) squared norms of scale and shift together."""
        record = records[self.layer]
        gradients: list[tuple[nn.Parameter, Tensor]] = []
        if self.weight is not None:
            scaled = [
                F.layer_norm(x, self.layer.normalized_shape, eps=self.layer.eps).mul_(g)
                for x, g in zip(record.inputs, record.gradients, strict=True)
            ]
            gradients.append((self.weight, self._per_example(scaled)))
        if self.bias is not None:
            gradients.append((self.bias, self._per_example(record.gradients)))
        return self._vectors.squared_norms(layout, gradients)

    def _per_example(self, pieces: list[Tensor]) -> Tensor:
        """Pieces (B_piece, …, *normalized_shape) summed to (B, d) with d = the product of normalized_shape."""
        dimensions = len(self.layer.normalized_shape)
        return torch.cat([_rows(values.flatten(-dimensions)).sum(1) for values in pieces])

    def add_clipped_sum(self, records: Records, factors: Factors, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u to the buffers."""
        self._vectors.add_clipped_sum(factors, sums)


class TiedGradients:
    """An embedding and the output layer that shares its weight: ‖∇_in + ∇_out‖² has a cross term.

    With inputs A and output gradients G of the output layer, and gradients E of the embedding's output,
    ⟨∇_in, ∇_out⟩ = Σ_{t,s} ⟨A_t, E_s⟩·G[t, id_s].
    """

    def __init__(self, embedding: nn.Embedding, output: nn.Linear):
        self.embedding = EmbeddingGradients(embedding)
        self.output = LinearGradients(output)
        self.layers: tuple[nn.Module, ...] = (embedding, output)

    def squared_norms(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) squared norms of the shared weight and of the output layer's bias."""
        squares = self.output.bias_squares(records, layout)
        by_gram = torch.zeros_like(squares, dtype=torch.bool)
        places = (*records[self.output.layer].rows, *self.embedding.gradient(records))
        for part, (x, g, ids, e) in layout.split(*places):
            length, d, p = x.shape[1], x.shape[-1], g.shape[-1]
            if length * (d + p) + e.shape[1] * d <= d * p:
                by_gram[part] = True
                squares[part] += _gram_squares(x, g)
                squares[part] += 2.0 * self._cross(x, g, e, ids)
            else:
                squares[part] += self._direct(x, g, e, ids)
        if by_gram.any():  # the direct way has the embedding's share in it already
            squares += self.embedding.squared_norms(records, layout) * by_gram
        return squares

    @staticmethod
    def _cross(x: Tensor, g: Tensor, e: Tensor, ids: Tensor) -> Tensor:
        """(U,) ⟨∇_in, ∇_out⟩ from x (U, L, d), g (U, L, V), e (U, S, d), ids (U, S, 1)."""
        crossed = torch.empty(len(x), dtype=torch.float64, device=x.device)
        for part in _slices(len(x), 2 * x.shape[1] * e.shape[1]):
            index = ids[part].transpose(1, 2).expand(-1, x.shape[1], -1)  # (U, L, S)
            products = torch.bmm(x[part], e[part].transpose(1, 2))
            crossed[part] = products.mul_(g[part].gather(2, index)).sum((1, 2), dtype=torch.float64)
        return crossed

    @staticmethod
    def _direct(x: Tensor, g: Tensor, e: Tensor, ids: Tensor) -> Tensor:
        """(U,) squared norms with each unit's (V, d) gradient formed, measured and let go."""
        squares = torch.empty(len(x), dtype=torch.float64, device=x.device)
        for unit in range(len(x)):
            gradient = (x[unit].t() @ g[unit]).t().index_add_(0, ids[unit, :, 0], e[unit])
            squares[unit] = torch.linalg.vector_norm(gradient, dim=1).square_().sum(dtype=torch.float64)
        return squares

    def add_clipped_sum(self, records: Records, factors: Factors, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u of both ends to the shared buffer."""
        self.output.add_clipped_sum(records, factors, sums)
        self.embedding.add_clipped_sum(records, factors, sums)
