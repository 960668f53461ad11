"""Random draws from a public seed and from a secret key."""

from __future__ import annotations

import hashlib
import pickle

import numpy as np
import pytest
from scipy import stats

from core.common.randomness import BLOCK_WORDS, KeyedStream, PublicSeed, SecretKey

KEY = bytes(range(16))


def test_a_keyed_stream_is_shake_128_block_by_block_however_it_is_read() -> None:
    naive = b"".join(
        hashlib.shake_128(b"secret" + number.to_bytes(8, "little")).digest(8 * BLOCK_WORDS) for number in range(3)
    )
    stream = KeyedStream(b"secret")
    sizes = (0, 1, 5, BLOCK_WORDS - 6, 1, BLOCK_WORDS + 3, 7)
    read = np.concatenate([stream.words(size) for size in sizes])
    assert read.tobytes() == naive[: 8 * sum(sizes)]


@pytest.mark.parametrize("draw", ["random", "normal", "laplace"])
def test_what_is_drawn_has_its_distribution(draw: str) -> None:
    stream, size = SecretKey(KEY).stream(1, 2), 200_000
    if draw == "random":
        values, law = stream.random((2, size // 2)).ravel(), stats.uniform()
        assert values.min() >= 0 and values.max() < 1
    else:
        values, law = getattr(stream, draw)(scale=2.5, size=size), getattr(stats, {"normal": "norm"}.get(draw, draw))
        law = law(scale=2.5)
    assert len(values) == size and np.isfinite(values).all()
    assert stats.kstest(values, law.cdf).pvalue > 1e-3


def test_the_ends_of_the_unit_interval_give_finite_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)
    monkeypatch.setattr(KeyedStream, "words", lambda self, count: ends[:count])
    stream = KeyedStream(b"")
    low, high, _ = stream.normal(scale=1.0, size=3)
    assert low == -high and 8.2 < high < 8.21
    low, high, _ = stream.laplace(scale=1.0, size=3)
    assert low == -high and 36 < high < 37
    assert stream.random(3).tolist() == [0.0, 1 - 2.0**-53, 0.5]


def test_streams_of_other_keys_and_paths_are_others_and_one_path_repeats() -> None:
    drawn = {
        SecretKey(key).stream(*path).words(2).tobytes()
        for key in (KEY, bytes(16), KEY[::-1])
        for path in ((1, 1), (1, 2), (2, 1), (1,), (1, 1, 0), (257,))
    }
    assert len(drawn) == 18
    key = SecretKey(KEY)
    assert (key.stream(3, 4).words(10) == key.stream(3, 4).words(10)).all()
    keys = {key.name_key("a"), key.name_key("b"), key.check, key.name_key(""), SecretKey(bytes(16)).check}
    assert len(keys) == 5


def test_a_public_seed_draws_what_it_always_drew() -> None:
    """Runs of public seeds keep their numbers."""
    assert PublicSeed(7).stream(4, 12).random() == pytest.approx(0.8967409206448517, abs=1e-15), "as written down once"
    assert PublicSeed(7).name_key("n1") == b"7\0n1\0" and PublicSeed(7).check == b""


def test_a_key_is_neither_printed_nor_pickled_nor_short() -> None:
    key = SecretKey(KEY)
    for text in (repr(key), str(key), f"{key}"):
        assert text == "SecretKey(…)"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(key)
    for wrong in (b"", KEY[:15], KEY + b"x"):
        with pytest.raises(ValueError, match="128 bits"):
            SecretKey(wrong)
    assert SecretKey.fresh().check != SecretKey.fresh().check
