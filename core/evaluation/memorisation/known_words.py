"""Whether a model writes language: the share of its words found in public text or in the hospital's own vocabulary.

Identifiers are not language. A name that a model copies from a patient's note is a leak and must not count as a word
written well; an invented name is not a spelling mistake either. So words of identifiers are left out of the count.
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
from core.evaluation.stats.boundary_intervals import share_interval
from core.phi.fields import DIRECT, FIELDS

_WORD = re.compile(r"[^\W\d_]{2,}")  # at least two letters and nothing else: "II-5b" contains one word, "x" none


class WordListMissing(FileNotFoundError):
    """The public word list does not exist; the message says where it was expected and how to make it."""


def words(text: str) -> list[str]:
    """Words of a text: runs of at least two letters, in lower case."""
    return _WORD.findall(text.lower())


def whole_words(generation: str) -> list[str]:
    """Words that a model finished writing: a word at the very end of the text may be cut off by the length limit."""
    found = words(generation)
    return found[:-1] if re.search(r"[^\W\d_]{2,}$", generation) else found


@cache
def public_words(path: Path) -> frozenset[str]:
    """Words of the public text that base models were trained on, one a line, plain or gzip-compressed (`.gz`).

    Raises:
        WordListMissing: Neither file exists; the message is a sentence for the user.
    """
    packed = path.with_name(path.name + ".gz")
    if path.is_file():
        content = path.read_text(encoding="utf-8")
    elif packed.is_file():
        content = gzip.decompress(packed.read_bytes()).decode("utf-8")
    else:
        raise WordListMissing(
            f"The list of public words {path} does not exist, so known words cannot be counted. Copy the folder "
            "assets again, or make the list with `python -m core pretrain --words FILE`."
        )
    return frozenset(word for line in content.splitlines() for word in words(line))


def hospital_words(corpus: Corpus) -> frozenset[str]:
    """All words of the cohort except identifiers: notes of all splits, with canaries, and patients' health details.

    Marked spans of direct identifiers are removed from the notes. In imported notes these are the ones that were found.
    """
    notes = (
        without_spans(text, [(span["start"], span["end"]) for span in spans if span["field"] in DIRECT])
        for text, spans in zip(corpus.notes["text"], corpus.notes["phi_spans"], strict=True)
    )
    details = [corpus.patients[field.name].dropna() for field in FIELDS if field.name not in DIRECT]
    return frozenset(word for text in chain(notes, *details) for word in words(str(text)))


def identifier_words(corpus: Corpus, vocabulary: frozenset[str]) -> frozenset[str]:
    """Words of anybody's direct identifiers that the `vocabulary` does not contain: they are left out of the count."""
    columns = [corpus.patients[name].dropna() for name in DIRECT]
    return frozenset(word for text in chain(*columns) for word in words(str(text))) - vocabulary


def identifier_spans(hits: pd.DataFrame) -> dict[int, list[tuple[int, int]]]:
    """Spans of direct identifiers in generations, by generation_id: those of a patient, or of no patient at all."""
    found = hits[(hits["rule"] == "value") & hits["field"].isin(DIRECT)]
    spans: dict[int, list[tuple[int, int]]] = {}
    for generation, start, end in zip(found["generation_id"], found["start"], found["end"], strict=True):
        spans.setdefault(int(generation), []).append((int(start), int(end)))
    return spans


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with the spans (start, end) replaced by blanks, so that all other offsets stay the same."""
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
    """Share of all words in `texts` that are in `vocabulary`, with a bootstrap interval over texts (generations).

    Every occurrence counts, except for words in `left_out`; `whole_words` defines what a word is.

    Raises:
        ValueError: The texts contain no words.
    """
    found = [[word for word in whole_words(text) if word not in left_out] for text in texts]
    written = np.array([len(one) for one in found])
    if written.sum() == 0:
        raise ValueError("the generations contain no words, so there is no share of known words")
    known = np.array([sum(word in vocabulary for word in one) for one in found])
    share = patient_bootstrap(weighted_share(known, written), np.arange(len(found)), resamples=resamples, seed=seed)
    return share_interval(share, int((written > 0).sum()))
