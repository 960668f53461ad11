"""How much of a synthetic hospital's wording a public text shares: sequences of five words, digits masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS

LENGTH = 5  # words
_WORD = re.compile(r"[^\W_]+(?:['.-][^\W_]+)*")

Sequences = set[tuple[str, ...]]


def five_grams(texts: Iterable[str]) -> Sequences:
    """Sequences of five words, lower-case, with every digit masked; runs of numbers alone are no wording."""
    found: Sequences = set()
    for text in texts:
        words = [re.sub(r"\d", "0", word) for word in _WORD.findall(text.lower())]
        grams = zip(*[words[start:] for start in range(LENGTH)], strict=False)
        found |= {gram for gram in grams if any(character.isalpha() for character in "".join(gram))}
    return found


def shared_with_hospital(texts: Iterable[str]) -> float:
    """Share of the different five-word sequences of a `classroom` cohort's notes that these texts contain too."""
    hospital = _of_hospital()
    return len(hospital & five_grams(texts)) / len(hospital)


@cache
def _of_hospital() -> Sequences:
    corpus = build(CORPUS_PRESETS["classroom"])
    return five_grams([*corpus.notes["text"], *corpus.canaries["text"]])
