"""Sources of a training run's random draws: a public seed, or a secret key.

Every draw that ε relies on (noise, Poisson samples, masks, which of a note's words count) is a function of one source
and of a path such as (purpose, step), so a run resumed from a checkpoint draws what it would have drawn.

* `PublicSeed`: numpy's PCG64, seeded by (seed, *path). Anyone who knows the seed can draw the noise again and subtract
  it. This suits teaching, which must be reproducible; ε is then shown, but not guaranteed.
* `SecretKey`: 128 bits from the operating system, expanded by SHAKE-128 (FIPS 202), a cryptographic hash whose output
  cannot be distinguished from random without the key.

Attacks, tasks and evaluations draw from `numpy.random.default_rng([seed, number, …])`, where `seed` is the audit's and
`number` says what is drawn. A number belongs to one module (`tests/meta/test_streams.py`); numbers 13 and 15 each
belong to two, and stay because finished runs drew from them (a comment at each says why this does no harm). NumPy fills
a path with zeros, so [seed, number] and [seed, number, 0] are the same stream. Masks are drawn by the number of a
sample instead, [seed, sample, draw], and so share draws with some choices of patients; they only hide tokens.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import Literal, NoReturn

import numpy as np
from scipy.special import ndtri

NoiseSource = Literal["public seed", "secret"]
KEY_BYTES = 16
BLOCK_WORDS = 1 << 15  # 64-bit words from one call of SHAKE-128: 256 KiB
_STREAM, _NAME, _CHECK = b"stream", b"name", b"check"  # purposes of the key's output


def new_key() -> bytes:
    """128 bits from the operating system."""
    return secrets.token_bytes(KEY_BYTES)


class KeyedStream:
    """Random numbers from a secret, with the methods of `numpy.random.Generator` that training needs.

    Block i of the stream is SHAKE-128(secret ‖ i).
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._block = 0
        self._left = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> np.ndarray:
        """The next `count` 64-bit words, uint64 (count,)."""
        parts, missing = [self._left], count - len(self._left)
        while missing > 0:
            parts.append(self._next_block())
            missing -= BLOCK_WORDS
        drawn = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._left = drawn[count:]
        return drawn[:count]

    def random(self, size: int | tuple[int, ...]) -> np.ndarray:
        """Uniform float64 on [0, 1), multiples of 2⁻⁵³."""
        return self._bits(53, size) * 2.0**-53

    def normal(self, *, scale: float, size: int) -> np.ndarray:
        """N(0, scale²), float64 (size,), by the inverse distribution function; none beyond 8.2 standard deviations."""
        return scale * ndtri(self._inside(size))

    def laplace(self, *, scale: float, size: int) -> np.ndarray:
        """Laplace(0, scale), float64 (size,), by the inverse distribution function; none beyond 36.1 scales."""
        centred = self._inside(size) - 0.5
        return -scale * np.sign(centred) * np.log1p(-2 * np.abs(centred))

    def _inside(self, size: int) -> np.ndarray:
        """Uniform float64 (size,) strictly between 0 and 1, symmetric about ½."""
        return (self._bits(52, size) + 0.5) * 2.0**-52  # with 53 bits, adding a half could round up to 1

    def _bits(self, bits: int, size: int | tuple[int, ...]) -> np.ndarray:
        """Integers below 2^bits, as float64."""
        return (self.words(int(np.prod(size))) >> np.uint64(64 - bits)).astype(np.float64).reshape(size)

    def _next_block(self) -> np.ndarray:
        number, self._block = self._block, self._block + 1
        output = hashlib.shake_128(self._secret + number.to_bytes(8, "little")).digest(8 * BLOCK_WORDS)
        return np.frombuffer(output, dtype="<u8").astype(np.uint64, copy=False)


Stream = np.random.Generator | KeyedStream


class PublicSeed:
    """Draws that anyone who knows the seed can repeat."""

    source: NoiseSource = "public seed"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def stream(self, *path: int) -> np.random.Generator:
        """The generator for one path, for example (purpose, step)."""
        return np.random.default_rng([self._seed, *map(int, path)])

    def name_key(self, name: str) -> bytes:
        """A key for draws by hash that belong to one name, such as a note's id."""
        return f"{self._seed}\0{name}\0".encode()

    @property
    def check(self) -> bytes:
        """Empty, because the settings that hold the seed identify it."""
        return b""


class SecretKey:
    """Draws that nobody can repeat without the key. The key is never printed and never pickled."""

    source: NoiseSource = "secret"
    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        """Raises ValueError for a key that is not 128 bits long."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a noise key has {8 * KEY_BYTES} bits, not {8 * len(key)}")
        self._key = key

    @classmethod
    def fresh(cls) -> SecretKey:
        """A new key from the operating system."""
        return cls(new_key())

    def stream(self, *path: int) -> KeyedStream:
        """The generator for one path, for example (purpose, step)."""
        return KeyedStream(self._derived(_STREAM, b"".join(int(part).to_bytes(8, "little") for part in path)))

    def name_key(self, name: str) -> bytes:
        """A key for draws by hash that belong to one name, such as a note's id."""
        return self._derived(_NAME, str(name).encode())

    @property
    def check(self) -> bytes:
        """32 bytes for comparing two keys; the key cannot be computed from them."""
        return self._derived(_CHECK, b"")

    def _derived(self, purpose: bytes, about: bytes) -> bytes:
        """32 bytes for one purpose. The length prefixes make the encoding of the inputs unambiguous."""
        parts = b"".join(len(part).to_bytes(8, "little") + part for part in (self._key, purpose, about))
        return hashlib.shake_128(parts).digest(32)

    def __repr__(self) -> str:
        return "SecretKey(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret key cannot be pickled: it would be copied to wherever the pickle goes")


Randomness = PublicSeed | SecretKey
