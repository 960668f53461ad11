"""Unique values from a keyed permutation, which maps a patient's number to their name, phone number and so on.

Because it is a bijection, no two patients share a value, and no table of used values is needed. Patients can therefore
be generated in any order, in parts, and in constant memory.
"""

from __future__ import annotations

import random

_MASK = (1 << 64) - 1
_ROUNDS = 4


class Permutation:
    """A pseudo-random bijection of 0..size−1: a four-round Feistel network with cycle walking."""

    def __init__(self, size: int, key: str):
        rng = random.Random(key)
        self.size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._keys = [rng.getrandbits(64) for _ in range(_ROUNDS)]

    def __call__(self, index: int) -> int:
        """The image of `index`. Raises ValueError outside 0..size−1."""
        if not 0 <= index < self.size:
            raise ValueError(f"number {index} is outside the {self.size:,} values that can be told apart")
        value = self._round_trip(index)
        while value >= self.size:  # cycle walking: the domain is at most 4 times `size`, so it ends soon
            value = self._round_trip(value)
        return value

    def _round_trip(self, value: int) -> int:
        half, mask = self._half, (1 << self._half) - 1
        left, right = value >> half, value & mask
        for key in self._keys:
            mixed = ((right + key) * 0x9E3779B97F4A7C15) & _MASK
            mixed = ((mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9) & _MASK
            left, right = right, left ^ ((mixed >> 32) & mask)
        return (left << half) | right
