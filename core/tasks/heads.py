"""A small network on vectors that stay as they are: the head that a task needs, fitted in seconds and without privacy.

The encoder is not changed ("feature-based", Devlin et al. 2019, §5.3), so the score depends on what its vectors hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

WIDTH = 128  # hidden units
EPOCHS = 15
BATCH = 256  # rows of a step
RATE = 4e-3  # falls to 0 along a line
DECAY = 0.01
_TINY = 1e-6

Report = Callable[[int, int], None]  # (done, total)


def reported_from(report: Report | None, before: int, total: int) -> Report | None:
    """For a part of the work, the progress of all of it: `before` were done when the part began, of `total`."""
    return None if report is None else lambda done, _: report(before + done, total)


@dataclass(frozen=True)
class Head:
    """A fitted head. `mean` and `spread` (features,) standardise what it reads."""

    network: nn.Module
    mean: torch.Tensor
    spread: torch.Tensor

    def predict(self, features: np.ndarray) -> np.ndarray:
        """The most likely class of each row of `features`: (rows, features) → int64 (rows,)."""
        with torch.inference_mode():
            read = (torch.from_numpy(features) - self.mean) / self.spread
            return self.network(read).argmax(1).numpy()


def fit(features: np.ndarray, labels: np.ndarray, classes: int, *, seed: int) -> Head:
    """Fit one hidden layer of `WIDTH` units by cross-entropy, for `EPOCHS` epochs of AdamW, always on the CPU.

    The same arguments give the same head. Torch's global generator is left as it was.

    Args:
        features: float32 of shape (rows, features).
        labels: the class of each row, int64 of shape (rows,).
        classes: number of classes.
        seed: of the first weights and of the order of the rows.

    Raises:
        ValueError: there is no row to learn from.
    """
    if not len(features):
        raise ValueError("a head needs at least one labelled row to learn from, and there are none")
    rows, wanted = torch.from_numpy(features), torch.from_numpy(labels)
    mean, spread = rows.mean(0), rows.std(0, unbiased=False) + _TINY
    rows = (rows - mean) / spread
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(rows.shape[1], WIDTH), nn.ReLU(), nn.Linear(WIDTH, classes))
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    generator = np.random.default_rng(seed)
    steps = EPOCHS * -(-len(rows) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    for _ in range(EPOCHS):
        order = torch.from_numpy(generator.permutation(len(rows)))
        for part in order.split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(rows[part]), wanted[part]).backward()
            optimizer.step()
            schedule.step()
    return Head(network.eval(), mean, spread)
