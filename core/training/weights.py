"""The trained weights: which parameters are trained, how a step moves them, and their moving average."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from core.spec import TrainingSpec


@contextmanager
def trainable(model: nn.Module, which: str) -> Iterator[dict[str, nn.Parameter]]:
    """Freeze what is not trained, yield the trained parameters by name, and restore `requires_grad` afterwards.

    The model is put into evaluation mode and stays there: without dropout, an example's loss depends on it alone.
    `no-embeddings` freezes every embedding table (tokens, positions, token types), and with the token table an output
    layer that is tied to it. The noise of DP-SGD then does not reach tokens that the private notes never use.
    """
    model.eval()
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    try:
        if which == "no-embeddings":
            for module in model.modules():
                if isinstance(module, nn.Embedding):
                    module.weight.requires_grad_(False)
        yield {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    finally:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(before[name])
            parameter.grad = None


def learning_rate(training: TrainingSpec, step: int, steps: int) -> float:
    """The learning rate of step 1…steps: linear warm-up over the `warmup` share, then linear decay to 0."""
    rising = round(training.warmup * steps)
    if step <= rising:
        return training.learning_rate * step / (rising + 1)
    return training.learning_rate * (steps + 1 - step) / (steps - rising)


def optimizer_of(parameters: Iterable[nn.Parameter], training: TrainingSpec) -> torch.optim.AdamW:
    """The optimiser of a run, private or not. `take_step` sets its learning rate."""
    return torch.optim.AdamW(parameters, lr=training.learning_rate, weight_decay=training.weight_decay, fused=True)


def take_step(optimizer: torch.optim.Optimizer, training: TrainingSpec, step: int, steps: int) -> None:
    """Move the weights by their gradients, with the learning rate of step 1…steps."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(training, step, steps)
    optimizer.step()


class AveragedWeights:
    """An exponential moving average of the weights after each step, corrected for the bias of its start at 0.

    With decay d, after t steps: average = (1 − d)·Σ_i d^(t−i)·w_i / (1 − d^t). Averaging is post-processing of noisy
    weights and costs no privacy.
    """

    def __init__(self, parameters: dict[str, nn.Parameter], decay: float):
        self.decay = decay
        self.steps = 0
        self._parameters = parameters
        self.sums: dict[str, Tensor] = {name: torch.zeros_like(p) for name, p in parameters.items()} if decay else {}

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the average."""
        self.steps += 1
        for name, total in self.sums.items():
            total.lerp_(self._parameters[name], 1 - self.decay)

    @torch.no_grad()
    def apply(self) -> None:
        """Replace the weights by their average."""
        if self.steps:
            for name, total in self.sums.items():
                self._parameters[name].copy_(total / (1 - self.decay**self.steps))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Use the average as the weights during an evaluation; the weights are restored afterwards."""
        kept = {name: self._parameters[name].detach().clone() for name in self.sums}
        try:
            self.apply()
            yield
        finally:
            with torch.no_grad():
                for name, value in kept.items():
                    self._parameters[name].copy_(value)
