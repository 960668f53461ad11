"""Does a model write language? Share of its words that exist: in public text or in the hospital's own vocabulary."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from core.corpus.tables import Corpus
from core.evaluation.bootstrap import Interval, patient_bootstrap, weighted_share
from core.phi.fields import FIELDS

PUBLIC_WORDS = Path(__file__).resolve().parents[2] / "assets" / "base" / "public_words.txt"
_WORD = re.compile(r"[^\W\d_]{2,}")  # letters only, at least two; "II-5b" holds one word, "x" none


class WordListMissing(FileNotFoundError):
    """The public word list is not there; the text says where it was looked for and how to make it."""


def words(text: str) -> list[str]:
    """Words of a text: runs of at least two letters, in lower case."""
    return _WORD.findall(text.lower())


def whole_words(generation: str) -> list[str]:
    """Words that a model wrote to their end: a word that touches the end of the text may be cut by the length limit."""
    found = words(generation)
    return found[:-1] if re.search(r"[^\W\d_]{2,}$", generation) else found


@cache
def public_words(path: Path = PUBLIC_WORDS) -> frozenset[str]:
    """Words of the public text that base models were trained on, one a line, plain or gzip-compressed (`.gz`).

    Raises WordListMissing, a sentence, when neither file exists.
    """
    packed = path.with_name(path.name + ".gz")
    if path.is_file():
        content = path.read_text(encoding="utf-8")
    elif packed.is_file():
        content = gzip.decompress(packed.read_bytes()).decode("utf-8")
    else:
        raise WordListMissing(
            f"The list of public words {path} does not exist, so words cannot be told from noise. Copy the folder "
            "assets again, or make it with `python -m core pretrain`."
        )
    return frozenset(word for line in content.splitlines() for word in words(line))


def hospital_words(corpus: Corpus) -> frozenset[str]:
    """Every word of the cohort: notes of all splits (canaries too) and the fields of all patients."""
    texts: Iterable[pd.Series] = [corpus.notes["text"], *(corpus.patients[field.name].dropna() for field in FIELDS)]
    return frozenset(word for column in texts for text in column for word in words(text))


def known_share(texts: Sequence[str], vocabulary: frozenset[str], *, resamples: int = 1_000, seed: int = 0) -> Interval:
    """Share of all words in `texts` that `vocabulary` holds, with a bootstrap interval over texts (generations).

    Each occurrence counts; `whole_words` says which.
    Raises ValueError when the texts hold no word at all.
    """
    found = [whole_words(text) for text in texts]
    written = np.array([len(one) for one in found])
    if written.sum() == 0:
        raise ValueError("the generations hold no words, so there is no share of known ones")
    known = np.array([sum(word in vocabulary for word in one) for one in found])
    return patient_bootstrap(weighted_share(known, written), np.arange(len(found)), resamples=resamples, seed=seed)
