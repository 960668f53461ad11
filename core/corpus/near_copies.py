"""Notes that repeat, word for word or nearly (Lee et al. 2022, “Deduplicating training data …”).

Two notes are near copies when the Jaccard similarity of their sets of five-word shingles is at least 0.8, as there.
Candidates come from MinHash signatures in bands (Broder 1997; 25 bands of 5 hashes: a pair at 0.8 is missed once in
20,000), and every candidate's similarity is then computed exactly, so nothing is called a copy by chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIMILAR = 0.8
WORDS = 5  # of a shingle
BANDS, ROWS = 25, 5
MOST_COMPARED = 200  # notes of one bucket compared with each other; of a larger one each with the first so many
_CHUNK = 2_000
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
    plain = [" ".join(text.split()).lower() for text in texts]
    numbers: dict[str, int] = {}
    exact = np.array([numbers.setdefault(text, len(numbers)) for text in plain], dtype=np.int64)
    near = _near_groups(list(numbers))
    return Copies(exact_group=exact, near_group=near[exact] if len(exact) else exact)


def similarity(left: str, right: str) -> float:
    """Jaccard similarity of the two texts' sets of five-word shingles (0 when neither has any)."""
    a, b = (_shingles([text]).indices for text in (left, right))
    union = len(np.union1d(a, b))
    return len(np.intersect1d(a, b)) / union if union else 0.0


def _near_groups(texts: list[str]) -> np.ndarray:
    """Group number of every distinct text: connected by a chain of near copies."""
    if not texts:
        return np.empty(0, dtype=np.int64)
    shingles = _shingles(texts)
    pairs = [(a, b) for a, b in _candidates(_signatures(shingles)) if _jaccard(shingles, a, b) >= SIMILAR]
    rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
    from scipy.sparse import coo_array  # here, like scikit-learn below: a page's first paint must not wait for them
    from scipy.sparse.csgraph import connected_components

    links = coo_array((np.ones(len(pairs), dtype=np.int8), (rows, columns)), shape=(len(texts), len(texts)))
    return connected_components(links, directed=False)[1].astype(np.int64)


def _shingles(texts: list[str]) -> csr_array:
    """Sets of hashed shingles, a row a text."""
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import HashingVectorizer

    hashing = HashingVectorizer(analyzer=_five_words, n_features=2**30, binary=True, alternate_sign=False, norm=None)
    matrix = csr_array(hashing.transform(texts))
    matrix.sort_indices()
    return matrix


def _five_words(text: str) -> list[str]:
    words = text.split()
    return [" ".join(words[place : place + WORDS]) for place in range(len(words) - WORDS + 1)]


def _signatures(shingles: csr_array) -> np.ndarray:
    """(texts, BANDS · ROWS) MinHash values; a text without shingles has the largest value everywhere."""
    rng = np.random.default_rng(5)
    factors = rng.integers(1, int(_PRIME), size=BANDS * ROWS, dtype=np.uint64)
    offsets = rng.integers(0, int(_PRIME), size=BANDS * ROWS, dtype=np.uint64)
    signatures = np.full((shingles.shape[0], BANDS * ROWS), np.iinfo(np.uint64).max, dtype=np.uint64)
    for start in range(0, shingles.shape[0], _CHUNK):
        part = shingles[start : start + _CHUNK]
        filled = np.flatnonzero(np.diff(part.indptr))
        hashes = part.indices.astype(np.uint64)
        for number, (factor, offset) in enumerate(zip(factors, offsets, strict=True)):
            mixed = hashes * factor + offset  # modulo 2^64
            mixed ^= mixed >> np.uint64(29)
            if len(filled):
                signatures[start + filled, number] = np.minimum.reduceat(mixed, part.indptr[filled])
    return signatures


def _candidates(signatures: np.ndarray) -> Iterator[tuple[int, int]]:
    """Pairs of texts whose signatures agree in at least one band, each once."""
    seen: set[tuple[int, int]] = set()
    some = np.flatnonzero(signatures[:, 0] != np.iinfo(np.uint64).max)
    for band in range(BANDS):
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for text in some:
            buckets[signatures[text, band * ROWS : (band + 1) * ROWS].tobytes()].append(int(text))
        for members in buckets.values():
            for place, first in enumerate(members[:MOST_COMPARED]):
                for second in members[place + 1 :]:
                    if (first, second) not in seen:
                        seen.add((first, second))
                        yield first, second


def _jaccard(shingles: csr_array, first: int, second: int) -> float:
    a = shingles.indices[shingles.indptr[first] : shingles.indptr[first + 1]]
    b = shingles.indices[shingles.indptr[second] : shingles.indptr[second + 1]]
    both = len(np.intersect1d(a, b, assume_unique=True))
    return both / (len(a) + len(b) - both)
