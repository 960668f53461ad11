"""Gaussian noise for DP-SGD, whose every draw follows from a numpy generator of 128 bits.

torch's own generator on a CPU is seeded by 32 bits, whatever number it is given: all noises that it can draw for a step
could be tried one after the other and subtracted. numpy's PCG64 takes up the whole seed. Its raw words become normal
numbers by the transform of Box and Muller (1958), with numpy's vectorised logarithm, sine and cosine, a stretch that
fits the cache at a time; this takes less time than `torch.Tensor.normal_`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

PAIRS = 1 << 15  # pairs of normal numbers that are made at a time


def add_gaussian(values: Tensor, deviation: float, rng: np.random.Generator) -> None:
    """Add independent draws of N(0, deviation²) to `values` (n,), float32, in place; the same on any number of threads.

    On a CPU, by Box-Muller: of each 64 bits, 32 give the radius √(−2 ln u) (0 to 6.76) and 32 the angle 2π·v. On an
    accelerator, by its own generator, seeded with 63 bits of `rng`.
    """
    if values.device.type != "cpu":
        generator = torch.Generator(values.device).manual_seed(int(rng.integers(1 << 63)))
        values.add_(torch.randn(values.shape, generator=generator, device=values.device), alpha=deviation)
        return
    flat = values.numpy()
    for first in range(0, len(flat), 2 * PAIRS):
        part = flat[first : first + 2 * PAIRS]
        pairs = (len(part) + 1) // 2
        words = rng.bit_generator.random_raw(pairs).view(np.uint32)  # twice as many, each uniform on 0 … 2³² − 1
        radius = words[:pairs].astype(np.float32)
        radius += np.float32(0.5)  # never 0, whose logarithm is infinite
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= np.float32(-2.0 * deviation**2)
        np.sqrt(radius, out=radius)
        angle = words[pairs:].astype(np.float32)
        angle *= np.float32(2.0 * math.pi * 2.0**-32)
        part[:pairs] += np.cos(angle) * radius
        rest = len(part) - pairs  # one fewer when the number is odd
        part[pairs:] += np.sin(angle[:rest]) * radius[:rest]
