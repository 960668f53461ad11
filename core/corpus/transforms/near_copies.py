"""Notes that repeat, word for word or nearly (Lee et al. 2022, “Deduplicating training data …”).

Two notes are near copies when the Jaccard similarity of their sets of five-word shingles is at least 0.8, as there.
Candidates come from MinHash signatures in bands (Broder 1997; 25 bands of 5 hashes: a pair at 0.8 is missed once in
20,000), and every candidate's similarity is then computed exactly, so nothing is called a copy by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIMILAR = 0.8
WORDS = 5  # of a shingle
BANDS, ROWS = 25, 5
MOST_COMPARED = 200  # notes of one bucket compared with each other; of a larger one each with the first so many
MOST_REMEMBERED = 1_000_000  # pairs that were compared and found unlike: further ones are compared again
_CHUNK = 2_000
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_PRIME = np.uint64((1 << 61) - 1)


@dataclass(frozen=True)
class Copies:
    """Which notes repeat an earlier one; arrays have one element a note, in the notes' order.

    `exact_group` and `near_group` number the groups of notes that are the same, word for word and nearly (every exact
    group lies within one near group; a note that nothing repeats is a group of its own).
    """

    exact_group: np.ndarray
    near_group: np.ndarray

    def repeats(self, how: Literal["exact", "near"]) -> np.ndarray:
        """True for every note that repeats one before it."""
        group = self.exact_group if how == "exact" else self.near_group
        first = np.unique(group, return_index=True)[1]
        again = np.ones(len(group), dtype=bool)
        again[first] = False
        return again

    @property
    def exact(self) -> int:
        """Notes that repeat an earlier one word for word."""
        return int(self.repeats("exact").sum())

    @property
    def near(self) -> int:
        """Notes that repeat an earlier one word for word or nearly."""
        return int(self.repeats("near").sum())


def find_copies(texts: Sequence[str]) -> Copies:
    """Groups of copies and near copies. Blanks and case do not count; notes under five words have exact copies only."""
    return copies_in(lambda: (texts[start : start + _CHUNK] for start in range(0, len(texts), _CHUNK)))


def copies_in(read: Callable[[], Iterable[Sequence[str]]], on_progress: Callable[[int], None] | None = None) -> Copies:
    """As `find_copies`, of texts that `read()` brings a batch at a time: it is called twice, and must bring the same.

    What is kept of a text is 216 bytes, and its shingles if any other text might be nearly the same. `on_progress` is
    told how many texts were read so far, the first time.
    """
    ids, bands = [np.empty(0, dtype="S16")], [np.empty((0, BANDS), dtype=np.uint64)]
    done = 0
    for batch in read():
        plain = [_plain(text) for text in batch]
        ids.append(np.array([blake2b(text.encode(), digest_size=16).digest() for text in plain], dtype="S16"))
        bands.append(_bands(_signatures(_shingles(plain))))
        done += len(plain)
        if on_progress is not None:
            on_progress(done)
    _, first, group = np.unique(np.concatenate(ids), return_index=True, return_inverse=True)
    distinct = np.sort(first)  # the places of texts that repeat none before them
    exact = np.searchsorted(distinct, first)[group]
    every = np.concatenate(bands)
    near = _near_groups(every if len(distinct) == len(every) else every[distinct], distinct, read)
    return Copies(exact_group=exact, near_group=near[exact])


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


def _near_groups(bands: np.ndarray, places: np.ndarray, read: Callable[[], Iterable[Sequence[str]]]) -> np.ndarray:
    """Group number of every distinct text: connected by a chain of near copies. Text i is the one at `places[i]`."""
    parent = list(range(len(bands)))

    def root(text: int) -> int:
        while parent[text] != text:
            parent[text] = text = parent[parent[text]]
        return text

    needed = np.zeros(len(bands), dtype=bool)
    for members in _buckets(bands):
        needed[members] = True
    shingles = _shingles_of(np.flatnonzero(needed), places, read)
    unlike: set[tuple[int, int]] = set()
    for members in _buckets(bands):
        for place, first in enumerate(members[:MOST_COMPARED].tolist()):
            for second in members[place + 1 :].tolist():
                if root(first) == root(second) or (first, second) in unlike:
                    continue
                if _jaccard(shingles[first], shingles[second]) >= SIMILAR:
                    parent[root(second)] = root(first)
                elif len(unlike) < MOST_REMEMBERED:
                    unlike.add((first, second))
    return np.array([root(text) for text in range(len(bands))], dtype=np.int64)


def _buckets(bands: np.ndarray) -> Iterator[np.ndarray]:
    """Texts (two at least, ascending) that agree in a band; those without shingles are alike in nothing."""
    some = np.flatnonzero(bands[:, 0]) if len(bands) else np.empty(0, dtype=np.int64)
    for band in range(BANDS):
        order = some[np.argsort(bands[some, band], kind="stable")]
        starts = np.flatnonzero(np.diff(bands[order, band], prepend=np.uint64(0))) if len(order) else order
        for members in np.split(order, starts[1:]):
            if len(members) > 1:
                yield members


def _shingles_of(
    texts: np.ndarray, places: np.ndarray, read: Callable[[], Iterable[Sequence[str]]]
) -> dict[int, np.ndarray]:
    """The hashed shingles of some of the distinct texts, read anew."""
    wanted, found, done = places[texts], {}, 0
    for batch in read() if len(texts) else ():
        low, high = np.searchsorted(wanted, (done, done + len(batch)))
        if high > low:
            part = _shingles([_plain(batch[place - done]) for place in wanted[low:high]])
            for row in range(high - low):
                found[int(texts[low + row])] = part.indices[part.indptr[row] : part.indptr[row + 1]].copy()
        done += len(batch)
    return found


def _shingles(texts: list[str]) -> csr_array:
    """Sets of hashed shingles, a row a text."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(analyzer=_five_words, n_features=2**30, binary=True, alternate_sign=False, norm=None)
    return csr_array(hashing.transform(texts))


def _five_words(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[place : place + WORDS]) for place in range(len(words) - WORDS + 1)]


def _signatures(shingles: csr_array) -> np.ndarray:
    """(texts, BANDS · ROWS) MinHash values; a text without shingles has the largest value everywhere."""
    rng = np.random.default_rng(5)
    factors = rng.integers(1, int(_PRIME), size=BANDS * ROWS, dtype=np.uint64)
    offsets = rng.integers(0, int(_PRIME), size=BANDS * ROWS, dtype=np.uint64)
    signatures = np.full((shingles.shape[0], BANDS * ROWS), np.iinfo(np.uint64).max, dtype=np.uint64)
    filled = np.flatnonzero(np.diff(shingles.indptr))
    hashes = shingles.indices.astype(np.uint64)
    for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
        mixed = hashes * factor + offset  # modulo 2^64
        mixed ^= mixed >> np.uint64(29)
        if len(filled):
            signatures[filled, number] = np.minimum.reduceat(mixed, shingles.indptr[filled])
    return signatures


def _bands(signatures: np.ndarray) -> np.ndarray:
    """(texts, BANDS) one number for the hashes of each band, never 0; a text without shingles has 0 everywhere.

    Equal bands have equal numbers. Should unlike ones ever have, their texts are compared in vain, no more.
    """
    parts = signatures.reshape(len(signatures), BANDS, ROWS)
    mixed = np.zeros((len(signatures), BANDS), dtype=np.uint64)
    for row in range(ROWS):
        mixed = (mixed ^ parts[:, :, row]) * _MIXER
        mixed ^= mixed >> np.uint64(32)
    mixed |= np.uint64(1)
    mixed[signatures[:, 0] == np.iinfo(np.uint64).max] = 0
    return mixed


def _jaccard(left: np.ndarray, right: np.ndarray) -> float:
    """Of two sets of hashed shingles; 0 when neither has any."""
    both = len(np.intersect1d(left, right, assume_unique=True))
    union = len(left) + len(right) - both
    return both / union if union else 0.0
