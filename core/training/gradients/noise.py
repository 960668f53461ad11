"""Gaussian noise for DP-SGD from the 64-bit words of a stream (core.common.randomness).

torch's own CPU generator uses a 32-bit seed, whatever number it is given: an attacker could try all noises that it can
draw for a step and subtract them. Here the words become normal numbers by the Box–Muller transform (1958), with numpy's
vectorised logarithm, sine and cosine on parts that fit the cache.

There are two forms:

* From a public seed, of which ε is not promised anyway: 32 bits each for radius and angle, in float32. With PCG64 this
  takes less time than `torch.Tensor.normal_`, and stored runs are reproducible only if no bit of it changes.
* From a secret: float64 throughout. 32-bit radii are far enough apart in the tail that the low bits of a gradient show
  which of two sums the noise was added to (Mironov 2012).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from core.common.randomness import KeyedStream, Stream

PAIRS = 1 << 15  # pairs of normal numbers computed at a time
NOISE_FORM = "float64 noise"  # in checkpoints; change it whenever a secret gives other noise than before


def add_gaussian(values: Tensor, deviation: float, rng: Stream) -> None:
    """Add independent draws of N(0, deviation²) to `values` (n,), float32, in place; independent of the thread count.

    Noise from a secret is computed and added on the CPU, whatever the device: the generator of an accelerator takes 63
    bits and is not cryptographic. Noise from a public seed is drawn on the device of the values.
    """
    if isinstance(rng, KeyedStream):
        _add_secret(values, deviation, rng)
    elif values.device.type == "cpu":
        _add_public(values.numpy(), deviation, rng)
    else:
        generator = torch.Generator(values.device).manual_seed(int(rng.integers(1 << 63)))
        values.add_(torch.randn(values.shape, generator=generator, device=values.device), alpha=deviation)


def _add_secret(values: Tensor, deviation: float, rng: KeyedStream) -> None:
    """`add_gaussian` from a secret, for a tensor on any device.

    Values and noise are added in float64. Only their sum is rounded: to multiples of the distance between float32
    numbers at the standard deviation, which does not depend on the data, and then to float32, which is coarser for
    larger sums. Without the first, a gradient and noise that nearly cancel would keep low bits of the two.
    """
    grid = float(np.spacing(np.float32(deviation)))
    for part in values.split(2 * PAIRS):
        total = part.cpu().numpy() + _normal(len(part), rng) * deviation
        total /= grid  # a power of two, so this is exact
        np.rint(total, out=total)
        total *= grid
        part.copy_(torch.from_numpy(total.astype(np.float32)))


def _normal(size: int, rng: KeyedStream) -> np.ndarray:
    """Standard normal numbers, float64 (size,), by Box–Muller; none beyond 13.4."""
    pairs = (size + 1) // 2
    radius = _uniform(pairs, rng)
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    angle = (rng.words(pairs) >> np.uint64(11)).astype(np.float64)
    angle *= 2.0 * math.pi * 2.0**-53
    return np.concatenate((np.cos(angle) * radius, (np.sin(angle) * radius)[: size - pairs]))


def _uniform(size: int, rng: KeyedStream) -> np.ndarray:
    """Uniform float64 (size,) from 2⁻¹²⁹ to 1, with 53 bits of precision down to 2⁻⁷⁵.

    A word of 64 bits has fewer significant bits if it is below 2⁵³. One in 2,048 is, and gets 64 bits more.
    """
    words = rng.words(size)
    uniform = words.astype(np.float64)
    few = np.flatnonzero(words < np.uint64(1 << 53))
    uniform[few] += (rng.words(len(few)).astype(np.float64) + 0.5) * 2.0**-64  # never 0: its logarithm is infinite
    uniform *= 2.0**-64
    return uniform


def _add_public(flat: np.ndarray, deviation: float, rng: np.random.Generator) -> None:
    """`add_gaussian` from a public seed, for float32 (n,) in CPU memory; no draw is beyond 6.76 standard deviations."""
    for first in range(0, len(flat), 2 * PAIRS):
        part = flat[first : first + 2 * PAIRS]
        pairs = (len(part) + 1) // 2
        words = rng.bit_generator.random_raw(pairs).view(np.uint32)  # twice as many, each uniform on 0 … 2³² − 1
        radius = words[:pairs].astype(np.float32)
        radius += np.float32(0.5)  # never 0: its logarithm is infinite
        radius *= np.float32(2.0**-32)
        np.log(radius, out=radius)
        radius *= np.float32(-2.0 * deviation**2)
        np.sqrt(radius, out=radius)
        angle = words[pairs:].astype(np.float32)
        angle *= np.float32(2.0 * math.pi * 2.0**-32)
        part[:pairs] += np.cos(angle) * radius
        rest = len(part) - pairs  # one fewer if the length is odd
        part[pairs:] += np.sin(angle[:rest]) * radius[:rest]
