"""Does a model write language? Share of its words that exist: in public text or in the hospital's own vocabulary.

Identifiers are no language. A name that a model copies from a patient's note is a leak, and must not count as a word
well written; nor is an invented name a mistake in writing. So words of identifiers count neither way.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from core.corpus.tables import Corpus
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_share
from core.phi.fields import DIRECT, FIELDS

PUBLIC_WORDS = Path(__file__).resolve().parents[3] / "assets" / "base" / "public_words.txt"
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
    """Every word of the cohort but its identifiers: notes of all splits (canaries too), health details of all patients.

    Marked spans of direct identifiers are cut out of the notes. In imported notes those are the ones that were found.
    """
    notes = (
        without_spans(text, [(span["start"], span["end"]) for span in spans if span["field"] in DIRECT])
        for text, spans in zip(corpus.notes["text"], corpus.notes["phi_spans"], strict=True)
    )
    details = [corpus.patients[field.name].dropna() for field in FIELDS if field.name not in DIRECT]
    return frozenset(word for text in chain(notes, *details) for word in words(str(text)))


def identifier_words(corpus: Corpus, vocabulary: frozenset[str]) -> frozenset[str]:
    """Words of anybody's direct identifiers that are no words of the `vocabulary` besides: they count neither way."""
    columns = [corpus.patients[name].dropna() for name in DIRECT]
    return frozenset(word for text in chain(*columns) for word in words(str(text))) - vocabulary


def identifier_spans(hits: pd.DataFrame) -> dict[int, list[tuple[int, int]]]:
    """Where generations hold a direct identifier, by generation_id: anybody's, or one that nobody has."""
    found = hits[(hits["rule"] == "value") & hits["field"].isin(DIRECT)]
    spans: dict[int, list[tuple[int, int]]] = {}
    for generation, start, end in zip(found["generation_id"], found["start"], found["end"], strict=True):
        spans.setdefault(int(generation), []).append((int(start), int(end)))
    return spans


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with blanks in the places of the spans (start, end), so that all other offsets stay."""
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def known_share(
    texts: Sequence[str],
    vocabulary: frozenset[str],
    *,
    left_out: Collection[str] = (),
    resamples: int = 1_000,
    seed: int = 0,
) -> Interval:
    """Share of all words in `texts` that `vocabulary` holds, with a bootstrap interval over texts (generations).

    Each occurrence counts but those of words that are `left_out`; `whole_words` says which words there are.
    Raises ValueError when the texts hold no word at all.
    """
    found = [[word for word in whole_words(text) if word not in left_out] for text in texts]
    written = np.array([len(one) for one in found])
    if written.sum() == 0:
        raise ValueError("the generations hold no words, so there is no share of known ones")
    known = np.array([sum(word in vocabulary for word in one) for one in found])
    return patient_bootstrap(weighted_share(known, written), np.arange(len(found)), resamples=resamples, seed=seed)
