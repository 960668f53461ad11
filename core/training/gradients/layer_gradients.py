"""Per-unit gradient norms and clipped gradient sums of each kind of layer, from its input and its output's gradient.

Every class here handles one layer (or a tied pair) and the units of one physical batch at a time. `squared_norms`
returns (U,) float64 of the weight's gradients and keeps what `add_clipped_sum` needs to add Σ_u c_u·∇_u to the buffers
of its parameters, so that the layer's records can be released in between. `add_vectors` passes the gradients of biases
and scales to `Vectors`, which keeps them whole. Tensors arrive in the order of the `UnitLayout`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from core.common.transformers_parts import Conv1D
from core.training.gradients.per_example_norms import (
    OuterProducts,
    Store,
    gram_squares,
    joined,
    outer_squares,
    slices,
    squares_of,
)
from core.training.gradients.records import Records, Sums, Vectors, rows_of
from core.training.gradients.units import Pieces, UnitLayout

# The normalised input can be recovered from a LayerNorm's output, losing at most four bits, if every shift is at most
# this many times its scale.
SHIFT_OVER_SCALE = 16.0


class UnsupportedLayer(ValueError):
    """A trainable layer whose per-unit gradients cannot be computed here."""


class LinearGradients:
    """`nn.Linear` (weight (out, in)) and the `Conv1D` of Hugging Face's GPT-2 (weight (in, out))."""

    def __init__(self, layer: nn.Linear | Conv1D):
        self.layer = layer
        self.layers: tuple[nn.Module, ...] = (layer,)
        self.weight = layer.weight if layer.weight.requires_grad else None
        self.bias = layer.bias if layer.bias is not None and layer.bias.requires_grad else None
        self._products = OuterProducts()

    def add_vectors(self, records: Records, column: int, vectors: Vectors) -> None:
        """Add the bias."""
        if self.bias is not None:
            vectors.add(column, self.bias, records[self.layer].rows[1])

    def squared_norms(self, records: Records, layout: UnitLayout, store: Store) -> Tensor:
        """(U,) squared norms of the unit gradients of the weight."""
        squares = torch.zeros(len(layout), dtype=torch.float64, device=layout.unit_of_example.device)
        if self.weight is not None:
            x, g = self._sides(records)
            self._products.form(x, g, layout, store)
            for block, gradients in self._products.kept:
                squares[block.units] = squares_of(gradients)
            for block, xs, gs in self._products.left:
                squares[block.units] = outer_squares(xs, gs)
        return squares

    def add_clipped_sum(self, layout: UnitLayout, factors: Tensor, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u of the weight to its buffer."""
        if self.weight is not None:
            self._products.add_clipped_sum(factors, self._narrow_first(sums[self.weight]))

    def _sides(self, records: Records) -> tuple[Pieces, Pieces]:
        """Input rows and output gradients, the narrower first: BLAS is faster with few long rows."""
        x, g = records[self.layer].rows
        return (x, g) if x[0].shape[-1] <= g[0].shape[-1] else (g, x)

    def _narrow_first(self, total: Tensor) -> Tensor:
        """A buffer of the weight's shape, oriented like the products of `_sides`."""
        by_input = total if isinstance(self.layer, Conv1D) else total.t()  # (in, out)
        return by_input if by_input.shape[0] <= by_input.shape[1] else by_input.t()


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
        self.looked_up: tuple[Pieces, Pieces] = ([], [])  # ids and gradients, from the norms until the clipped sum

    def add_vectors(self, records: Records, column: int, vectors: Vectors) -> None:
        """Add nothing."""

    def gradient(self, records: Records) -> tuple[Pieces, Pieces]:
        """Token ids (B, T, 1) and output gradients (B, T, d) by piece, zero where the padding row was looked up."""
        record = records[self.layer]
        ids = [tokens.flatten(1).unsqueeze(-1) for tokens in record.inputs]
        gradients = [rows_of(g) for g in record.gradients]
        if self.layer.padding_idx is not None:
            gradients = [
                g.masked_fill(tokens == self.layer.padding_idx, 0.0) for tokens, g in zip(ids, gradients, strict=True)
            ]
        return ids, gradients

    def squared_norms(self, records: Records, layout: UnitLayout, store: Store) -> Tensor:
        """(U,) squared norms: the rows that a unit uses are summed first, then squared."""
        self.looked_up = ids, gradients = self.gradient(records)
        size = self.layer.num_embeddings
        keys = [
            (u[:, None] * size + t.squeeze(-1)).flatten() for u, t in zip(layout.unit_of_examples, ids, strict=True)
        ]
        g = torch.cat([piece.flatten(0, 1) for piece in gradients])
        unique, inverse = torch.unique(torch.cat(keys), return_inverse=True)
        rows = g.new_zeros(len(unique), g.shape[-1]).index_add_(0, inverse, g)
        units = torch.div(unique, size, rounding_mode="floor")
        squares = torch.zeros(len(layout), dtype=torch.float64, device=g.device)
        return squares.index_add_(0, units, rows.square_().sum(1).double())

    def add_clipped_sum(self, layout: UnitLayout, factors: Tensor, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u to the buffer."""
        for ids, g, units in zip(*self.looked_up, layout.unit_of_examples, strict=True):
            scaled = g * factors[units, None, None]
            sums[self.layer.weight].index_add_(0, ids.flatten(), scaled.flatten(0, 1))
        self.looked_up = [], []


class LayerNormGradients:
    """`nn.LayerNorm`: ∂scale = Σ_t g_t ⊙ x̂_t and ∂shift = Σ_t g_t, both vectors."""

    def __init__(self, layer: nn.LayerNorm):
        self.layer = layer
        self.layers: tuple[nn.Module, ...] = (layer,)
        self.weight = layer.weight if layer.weight is not None and layer.weight.requires_grad else None
        self.bias = layer.bias if layer.bias is not None and layer.bias.requires_grad else None

    def add_vectors(self, records: Records, column: int, vectors: Vectors) -> None:
        """Add shift and scale."""
        record = records[self.layer]
        gradients = [self._rows(g) for g in record.gradients]
        shifts = None if self.bias is None else vectors.add(column, self.bias, gradients)
        if self.weight is None:
            return
        if self._output_tells(self.weight):  # y = x̂ ⊙ scale + shift, so Σ_t g ⊙ x̂ = (Σ_t g ⊙ y − shift ⊙ Σ_t g) / scale
            products = [self._rows(y * g) for y, g in zip(record.outputs, record.gradients, strict=True)]
            scales = vectors.add(column, self.weight, products)
            if shifts is not None and self.bias is not None:
                scales.sub_(shifts * self.bias.flatten())
            scales.div_(self.weight.flatten())
        else:
            normalised = [F.layer_norm(x, self.layer.normalized_shape, eps=self.layer.eps) for x in record.inputs]
            terms = [self._rows(x.mul_(g)) for x, g in zip(normalised, record.gradients, strict=True)]
            vectors.add(column, self.weight, terms)

    def _output_tells(self, weight: Tensor) -> bool:
        """Whether x̂ can be recovered from the output at full precision, which avoids normalising the input again."""
        if self.layer.bias is None:
            return bool((weight != 0).all())
        return self.bias is not None and bool((self.bias.abs() < SHIFT_OVER_SCALE * weight.abs()).all())

    def _rows(self, values: Tensor) -> Tensor:
        """(B, …, *normalized_shape) as (B, T, d) with d = the product of normalized_shape."""
        return rows_of(values.flatten(-len(self.layer.normalized_shape)))

    def squared_norms(self, records: Records, layout: UnitLayout, store: Store) -> Tensor:
        """(U,) zeros."""
        return torch.zeros(len(layout), dtype=torch.float64, device=layout.unit_of_example.device)

    def add_clipped_sum(self, layout: UnitLayout, factors: Tensor, sums: Sums) -> None:
        """Add nothing."""


class TiedGradients:
    """An embedding and the output layer that shares its weight: the norm is that of ∇_in + ∇_out.

    Where the unit's gradient is formed, both are summed in it. Otherwise, with inputs A and output gradients G of the
    output layer and gradients E of the embedding's output, ⟨∇_in, ∇_out⟩ = Σ_{t,s} ⟨A_t, E_s⟩·G[t, id_s].
    """

    def __init__(self, embedding: nn.Embedding, output: nn.Linear):
        self.embedding = EmbeddingGradients(embedding)
        self.output = LinearGradients(output)
        self.layers: tuple[nn.Module, ...] = (embedding, output)
        self._products = OuterProducts()

    def add_vectors(self, records: Records, column: int, vectors: Vectors) -> None:
        """Add the output layer's bias."""
        self.output.add_vectors(records, column, vectors)

    def squared_norms(self, records: Records, layout: UnitLayout, store: Store) -> Tensor:
        """(U,) squared norms of the unit gradients of the shared weight."""
        x, g = records[self.output.layer].rows
        ids, e = self.embedding.gradient(records)
        squares = torch.zeros(len(layout), dtype=torch.float64, device=x[0].device)
        self._products.form(g, x, layout, store)
        for block, gradients in self._products.kept:  # (units, V, d)
            squares[block.units] = squares_of(_with_looked_up(gradients, joined(block.of(ids)), joined(block.of(e))))
        by_gram: list[slice] = []
        if self._products.left:
            self.embedding.looked_up = ids, e
        for block, gs, xs in self._products.left:
            places = [joined(parts) for parts in (xs, gs, block.of(ids), block.of(e))]
            length, d, p, looked_up = places[0].shape[1], x[0].shape[-1], g[0].shape[-1], places[3].shape[1]
            if length * (d + p) + looked_up * d <= d * p:
                by_gram.append(block.units)
                squares[block.units] = gram_squares(*places[:2]) + 2.0 * _cross(*places)
            else:
                squares[block.units] = _formed_squares(*places)
        if by_gram:  # the other methods already include the embedding's part
            looked_up_squares = self.embedding.squared_norms(records, layout, store)
            for units in by_gram:
                squares[units] += looked_up_squares[units]
        return squares

    def add_clipped_sum(self, layout: UnitLayout, factors: Tensor, sums: Sums) -> None:
        """Add Σ_u c_u·∇_u of embedding and output layer to the shared buffer."""
        if self._products.left:
            rest = factors.clone()
            for block, _ in self._products.kept:
                rest[block.units] = 0.0  # the kept gradients include both
            self.embedding.add_clipped_sum(layout, rest, sums)
        self._products.add_clipped_sum(factors, sums[self.output.layer.weight])


def _with_looked_up(gradients: Tensor, ids: Tensor, e: Tensor) -> Tensor:
    """Add the rows e (units, S, d) to gradients (units, V, d) at ids (units, S, 1), in place."""
    units, vocabulary, width = gradients.shape
    first = vocabulary * torch.arange(units, device=ids.device)[:, None]
    gradients.view(-1, width).index_add_(0, (first + ids.squeeze(-1)).flatten(), e.flatten(0, 1))
    return gradients


def _formed_squares(x: Tensor, g: Tensor, ids: Tensor, e: Tensor) -> Tensor:
    """(units,) squared norms of ∇_in + ∇_out, forming and releasing a few units' gradients at a time."""
    squares = torch.empty(len(x), dtype=torch.float64, device=x.device)
    for part in slices(len(x), g.shape[-1] * x.shape[-1]):
        gradients = torch.bmm(g[part].transpose(1, 2), x[part])
        squares[part] = squares_of(_with_looked_up(gradients, ids[part], e[part]))
    return squares


def _cross(x: Tensor, g: Tensor, ids: Tensor, e: Tensor) -> Tensor:
    """(units,) ⟨∇_in, ∇_out⟩ from x (units, L, d), g (units, L, V), ids (units, S, 1), e (units, S, d)."""
    crossed = torch.empty(len(x), dtype=torch.float64, device=x.device)
    for part in slices(len(x), 2 * x.shape[1] * e.shape[1]):
        index = ids[part].transpose(1, 2).expand(-1, x.shape[1], -1)  # (units, L, S)
        products = torch.bmm(x[part], e[part].transpose(1, 2))
        crossed[part] = products.mul_(g[part].gather(2, index)).sum(2).sum(1, dtype=torch.float64)
    return crossed
