"""Static word vectors of the training notes: CBoW and skip-gram (Mikolov et al. 2013) by gensim (Lehman 2021, §5.2)."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

METHODS = {"CBoW": 0, "skip-gram": 1}  # gensim's `sg`
WIDTH, WINDOW, EPOCHS = 200, 6, 10  # as in Lehman 2021, A.7
MOST_NOTES = 50_000  # a random part of a larger cohort is read
_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """The words and numbers of a text, in lower case."""
    return _WORD.findall(text.lower())


def word_vectors(texts: Sequence[str], method: str, seed: int) -> dict[str, np.ndarray]:
    """A vector of `WIDTH` numbers for every word of `texts`, each note read as one sentence; `method` is in `METHODS`.

    Words that occur only once get a vector too (gensim's default leaves out those below five occurrences): names are
    rare, and this favours the attacker. Uses one thread, so that a seed always gives the same vectors.
    """
    from gensim.models import Word2Vec

    if len(texts) > MOST_NOTES:
        places = np.random.default_rng(seed).permutation(len(texts))[:MOST_NOTES]
        texts = [texts[place] for place in np.sort(places)]
    model = Word2Vec(
        [words(text) for text in texts],
        vector_size=WIDTH,
        window=WINDOW,
        epochs=EPOCHS,
        sg=METHODS[method],
        min_count=1,
        workers=1,
        seed=seed + 1,
    )
    return {word: model.wv[word] for word in model.wv.index_to_key}


def mean_vectors(known: dict[str, np.ndarray], texts: Sequence[str]) -> np.ndarray:
    """Mean vector of the known words of every text: (texts, WIDTH), NaN where no word is known."""
    found = np.full((len(texts), WIDTH), np.nan)
    for row, text in enumerate(texts):
        vectors = [known[word] for word in words(text) if word in known]
        if vectors:
            found[row] = np.mean(vectors, axis=0)
    return found
