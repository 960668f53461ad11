"""Per-unit clipped gradient sums from one backward pass, and the noise of DP-SGD.

DP-SGD (Abadi et al. 2016) bounds the effect of one unit on a step: the gradient ∇_u of each unit (summed over its
examples) is scaled by c_u = min(1, C / ‖∇_u‖), the scaled gradients are summed over the logical batch, and Gaussian
noise of standard deviation σ·C is added to the *sum*, once. `Clipper` does this exactly, following Bu et al. 2023
("book-keeping"): forward hooks keep every layer's input, one backward pass gives the gradients of the layers'
*outputs*, and together they give each unit's norm and then the clipped sum
(`core.training.gradients.per_example_norms` explains how). Autograd computes no weight gradients.

Opacus' optimiser is not used because its `DPOptimizer` needs per-sample gradients on the parameters, and its ghost mode
rejects tied embeddings and needs a second backward pass. What remains of it (a normal draw and a division) is shorter
than the adapter would be, and `core.training.gradients.noise` draws from a better generator. ε is accounted by
`core.training.accounting.privacy_loss`, which is tested against exact values and other accountants. Its RDP is Opacus',
and so is the GDP of `core.training.accounting.gaussian`.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from core.common.randomness import Stream
from core.training.gradients.layers import LayerGradients, layers_of
from core.training.gradients.noise import add_gaussian
from core.training.gradients.per_example_norms import Store
from core.training.gradients.records import Record, Records, Sums, Vectors
from core.training.gradients.units import UnitLayout


class TrainingDiverged(ArithmeticError):
    """A loss or gradient is no longer a finite number."""


class Clipper:
    """Accumulates clipped per-unit gradients of `model` and turns them into one noisy gradient per logical batch.

    Every example is one row of the batch dimension (dimension 0) of every layer's input, and its loss must not depend
    on any other row. GPT-2's and DistilBERT's `position_ids` must therefore be passed with a batch dimension.

    To use it, run the model with gradients enabled and call `backward` with one loss per example, for each piece of a
    physical batch; then call `clip`. Repeat this for each physical batch of the logical batch, then call
    `noisy_gradient` and the optimiser's step. `close` (or `with`) removes the hooks.
    """

    def __init__(self, model: nn.Module, max_grad_norm: float):
        if not max_grad_norm > 0:
            raise ValueError(f"the clipping norm C must be above 0, not {max_grad_norm}")
        self.max_grad_norm = float(max_grad_norm)
        self._handlers = layers_of(model)
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise ValueError("nothing to train: every parameter of the model is frozen")
        self._names = {module: name for name, module in model.named_modules()}
        self._calls: dict[nn.Module, tuple[Tensor, Tensor]] = {}  # from the latest forward pass
        self._records: Records = {}  # of the pieces of the physical batch
        self._pieces: list[Sequence[int] | np.ndarray | Tensor] = []  # their unit ids
        self._total, self._sums = _flat_zeros(self._parameters)  # of the logical batch: whole, and by parameter
        self._vector_width = sum(parameter.numel() for parameter in self._parameters if parameter.dim() == 1)
        self._vectors: Vectors | None = None
        self._measured: list[LayerGradients] = []  # the layers of the physical batch whose norms are known
        self._store = Store()
        self._seen: set[int] = set()
        layers = [layer for handler in self._handlers for layer in handler.layers]
        self._hooks = [layer.register_forward_hook(self._keep) for layer in layers]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the hooks from the model."""
        for hook in self._hooks:
            hook.remove()
        self._hooks, self._calls, self._records, self._pieces = [], {}, {}, []

    def _keep(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Forward hook: store one call of `layer`, if gradients are enabled."""
        if not torch.is_grad_enabled():
            return
        if layer in self._calls:
            self._calls = {}
            raise ValueError(
                f"the layer {self._names[layer]} ran twice before backward(): run the model once per piece of a batch"
            )
        self._calls[layer] = (inputs[0].detach(), output)

    def backward(self, losses: Tensor, unit_ids: Sequence[int] | np.ndarray | Tensor) -> None:
        """Run the backward pass of one piece of a physical batch. Nothing is added to the sum before `clip`.

        Args:
            losses: (B,) one loss per example, from the latest forward pass. B = 0 adds nothing.
            unit_ids: (B,) the unit of each example. A unit may have examples in several pieces before one `clip`.

        Raises:
            ValueError: if there is not one loss for each example (a scalar would clip nothing), or if a layer did not
                see one row for each example.
        """
        calls, self._calls = self._calls, {}
        if losses.dim() != 1 or len(losses) != len(unit_ids):
            raise ValueError(
                f"clipping needs one loss per example and one unit id per example, not losses of shape "
                f"{tuple(losses.shape)} with {len(unit_ids)} unit ids: a summed or averaged loss would clip nothing"
            )
        if len(losses) == 0:
            return
        for layer, (_, output) in calls.items():
            if len(output) != len(losses):
                raise ValueError(
                    f"the layer {self._names[layer]} saw {len(output)} rows for {len(losses)} losses: "
                    f"pass inputs with a full batch dimension (position_ids too)"
                )
        outputs = [output for _, output in calls.values()]
        gradients = torch.autograd.grad(losses.sum(), outputs, allow_unused=True)
        for layer, gradient in zip(calls, gradients, strict=True):
            if gradient is None:  # treating it as zero could let a gradient that autograd lost escape the clipping
                self._records, self._pieces = {}, []  # discard the incomplete piece
                raise ValueError(f"the layer {self._names[layer]} ran, but the losses do not depend on it: freeze it")
            self._records.setdefault(layer, Record()).add(layer, *calls[layer], gradient)
        self._pieces.append(unit_ids)

    def clip(self) -> Tensor:
        """Clip the gradients of the units whose pieces `backward` has seen, and add them to the sum.

        Returns:
            (U,) the units' gradient norms before clipping, in ascending order of unit id.

        Raises:
            ValueError: if a unit was already clipped in this logical batch, or a layer ran in some pieces only.
            TrainingDiverged: if a norm is not finite.
        """
        if not self._pieces:
            return torch.zeros(0, dtype=torch.float64)
        records, layout = self._arranged()
        again = self._seen.intersection(layout.ids.tolist())
        if again:
            raise ValueError(
                f"unit {min(again)} is spread over two physical batches, so it would be clipped twice and count "
                f"double: keep all examples of a unit in one physical batch"
            )
        norms = self._norms(records, layout)
        factors = (self.max_grad_norm / norms.clamp(min=self.max_grad_norm)).float()  # (U,) min(1, C / norm)
        with torch.no_grad():
            for handler in self._measured:
                handler.add_clipped_sum(layout, factors, self._sums)
            assert self._vectors is not None  # `_norms` made it
            self._vectors.add_clipped_sum(factors, self._sums)
        self._forget()
        self._seen.update(layout.ids.tolist())
        return norms[torch.as_tensor(np.argsort(layout.ids), device=norms.device)]

    def layer_squares(self) -> Tensor:
        """The units' squared gradient norms by layer, as an alternative to `clip`: (U, layers) float64; adds nothing.

        Units are in ascending order of unit id, trainable layers in the order of the model (tied
        layers are one); 0 for a layer that did not run.

        Raises:
            ValueError: when `backward` has seen no example.
        """
        if not self._pieces:
            raise ValueError("there are no gradients: call backward() first")
        records, layout = self._arranged()
        squares = self._squares(records, layout).clamp_(min=0.0)
        self._forget()
        return squares[torch.as_tensor(np.argsort(layout.ids), device=squares.device)]

    def _arranged(self) -> tuple[Records, UnitLayout]:
        """The records of the physical batch in the order of its units; they are removed from the clipper."""
        records, self._records = self._records, {}
        pieces, self._pieces = self._pieces, []
        layout = UnitLayout(pieces, next(iter(records.values())).gradients[0].device)
        for layer, record in records.items():
            if len(record.inputs) != len(pieces):
                raise ValueError(f"the layer {self._names[layer]} took part in some pieces of the batch only")
            record.arrange(layout)
        return records, layout

    @torch.no_grad()
    def _squares(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U, layers) squared gradient norm of each unit in each layer, float64. Consumes the records."""
        squares = torch.zeros(
            len(layout), len(self._handlers), dtype=torch.float64, device=layout.unit_of_example.device
        )
        self._vectors, self._measured = Vectors(layout, self._vector_width, self._total), []
        for column, handler in enumerate(self._handlers):
            used = [layer in records for layer in handler.layers]
            if all(used):
                squares[:, column] = handler.squared_norms(records, layout, self._store)
                handler.add_vectors(records, column, self._vectors)
                self._measured.append(handler)
                for layer in handler.layers:
                    del records[layer]  # its handler has what it needs: free memory for the next layer
            elif any(used):
                names = ", ".join(self._names[layer] for layer in handler.layers)
                raise ValueError(f"only one of the tied layers {names} took part in the forward pass")
        self._vectors.add_squares(squares)
        return squares

    def _forget(self) -> None:
        """Release what was kept between the norms and the clipped sum of a physical batch."""
        self._vectors, self._measured = None, []
        self._store.clear()

    def _norms(self, records: Records, layout: UnitLayout) -> Tensor:
        """(U,) gradient norm of each unit over all trainable parameters, float64."""
        first, *others = self._squares(records, layout).unbind(1)
        squares = sum(others, start=first)  # in layer order, so that every bit is reproducible
        norms = squares.clamp(min=0.0).sqrt()
        if not torch.isfinite(norms).all():
            raise TrainingDiverged("training diverged: a gradient is not a finite number; lower the learning rate")
        return norms

    def noisy_gradient(self, noise_multiplier: float, expected_units: float, rng: Stream) -> None:
        """End the logical batch: set every `p.grad` to (clipped sum + N(0, (σ·C)²)) / expected_units.

        Call it once for each logical batch, however many physical batches it has. There may be none: a Poisson sample
        can be empty, and its noise still counts. `expected_units` is the *expected* number of units (q·n), not the
        actual one, which is private.
        """
        add_gaussian(self._total, noise_multiplier * self.max_grad_norm, rng)
        self.clipped_gradient(expected_units)

    def clipped_gradient(self, expected_units: float) -> None:
        """As `noisy_gradient`, without noise and so without any privacy: the control of a private run."""
        self._total.div_(expected_units)
        for parameter, gradient in self._sums.items():
            parameter.grad = gradient
        self._total, self._sums = _flat_zeros(self._parameters)  # the old sums now belong to the optimiser
        self._seen = set()


def _flat_zeros(parameters: Sequence[nn.Parameter]) -> tuple[Tensor, Sums]:
    """One vector of zeros for all parameters together, and each parameter's part of it in the parameter's shape."""
    flat = torch.zeros(sum(parameter.numel() for parameter in parameters), device=parameters[0].device)
    return flat, dict(zip(parameters, _views(flat, parameters), strict=True))


def _views(flat: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    parts = flat.split([parameter.numel() for parameter in parameters])
    return [part.view_as(parameter) for part, parameter in zip(parts, parameters, strict=True)]
