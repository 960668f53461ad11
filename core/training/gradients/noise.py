"""Gaussian noise for DP-SGD from the 64-bit words of a stream (core.common.randomness).

torch's own CPU generator uses a 32-bit seed, whatever number it is given: an attacker could try all noises that it can
draw for a step and subtract them. Here the words become normal numbers by the Box–Muller transform (1958), with numpy's
vectorised logarithm, sine and cosine on parts that fit the cache. With PCG64 this takes less time than
`torch.Tensor.normal_`.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from core.common.randomness import KeyedStream, Stream

PAIRS = 1 << 15  # pairs of normal numbers computed at a time


def add_gaussian(values: Tensor, deviation: float, rng: Stream) -> None:
    """Add independent draws of N(0, deviation²) to `values` (n,), float32, in place; independent of the thread count.

    By Box–Muller: of each 64 bits, 32 give the radius √(−2 ln u) (0 to 6.76) and 32 the angle 2π·v. On an accelerator,
    noise from a secret is computed on the CPU and copied, because the accelerator's own generator takes 63 bits and is
    not cryptographic. Noise from a public seed is drawn there, by that generator.
    """
    if values.device.type == "cpu":
        _add(values.numpy(), deviation, rng)
    elif isinstance(rng, KeyedStream):
        _add_from_cpu(values, deviation, rng)
    else:
        generator = torch.Generator(values.device).manual_seed(int(rng.integers(1 << 63)))
        values.add_(torch.randn(values.shape, generator=generator, device=values.device), alpha=deviation)


def _add_from_cpu(values: Tensor, deviation: float, rng: Stream) -> None:
    """`add_gaussian` for a tensor on any device, with noise computed on the CPU and copied in parts."""
    for part in values.split(2 * PAIRS):
        noise = np.zeros(len(part), dtype=np.float32)
        _add(noise, deviation, rng)
        part.add_(torch.from_numpy(noise).to(values.device))


def _add(flat: np.ndarray, deviation: float, rng: Stream) -> None:
    """`add_gaussian` for float32 (n,) in CPU memory."""
    for first in range(0, len(flat), 2 * PAIRS):
        part = flat[first : first + 2 * PAIRS]
        pairs = (len(part) + 1) // 2
        raw = rng.words(pairs) if isinstance(rng, KeyedStream) else rng.bit_generator.random_raw(pairs)
        words = raw.view(np.uint32)  # twice as many, each uniform on 0 … 2³² − 1
        radius = words[:pairs].astype(np.float32)
        radius += np.float32(0.5)  # never 0, whose logarithm is infinite
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= np.float32(-2.0 * deviation**2)
        np.sqrt(radius, out=radius)
        angle = words[pairs:].astype(np.float32)
        angle *= np.float32(2.0 * math.pi * 2.0**-32)
        part[:pairs] += np.cos(angle) * radius
        rest = len(part) - pairs  # one fewer if the length is odd
        part[pairs:] += np.sin(angle[:rest]) * radius[:rest]
