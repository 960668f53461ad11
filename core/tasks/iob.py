"""Read labelled sentences from files in the IOB format: one token and its tag a line, an empty line between sentences.

BC5CDR (Li et al. 2016) comes in this form: abstracts of PubMed with diseases and chemicals.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from core.tasks.entities import Tagged
from core.tasks.tagging import OUTSIDE

LEARN_FILE, JUDGE_FILE = "train.tsv", "test.tsv"
SENTENCES_OF_AN_ABSTRACT = 10  # the test files have 9.6 (BC5CDR, 4,797 in 500) and 9.4 (NCBI disease, 940 in 100)


def read_iob(path: Path) -> list[Tagged]:
    """The sentences of a file; each is its own unit, named by its number. Tokens are joined by blanks.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line is not a token, a tab and a tag such as `B-Disease`; the text names file and line.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist. Give the folder that holds {LEARN_FILE} and {JUDGE_FILE}.")
    found: list[Tagged] = []
    tokens: list[tuple[str, str]] = []
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if line.strip():
            token, tab, tag = line.rstrip().partition("\t")
            if not tab or not token or not (tag == OUTSIDE or tag[:2] in ("B-", "I-") and len(tag) > 2):
                raise ValueError(f"{path}, line {number}: {line[:60]!r} is not a token, a tab and a tag like B-Disease")
            tokens.append((token, tag))
        elif tokens:
            found.append(_sentence(tokens, str(len(found))))
            tokens = []
    return found


def types_of(sentences: list[Tagged]) -> tuple[str, ...]:
    """The types of entity that occur, in alphabetical order."""
    return tuple(sorted({tag[2:] for one in sentences for tag in one.tags if tag != OUTSIDE}))


def abstract_of(sentences: pd.Series) -> pd.Series:
    """The abstract of each sentence, for intervals: sentences of one name the same things, so they are not independent.

    The files do not say where an abstract begins, so every ten consecutive sentences are treated as one. They cut
    across abstracts, so intervals are still somewhat too narrow: with a moderate effect of the abstract, simulated
    standard errors are 6 % (BC5CDR) and 17 % (NCBI disease) too small.

    Args:
        sentences: (n,) numbers of sentences in their file, as `read_iob` names them.
    """
    return sentences.astype(int) // SENTENCES_OF_AN_ABSTRACT


def _sentence(tokens: list[tuple[str, str]], unit: str) -> Tagged:
    words, end = [], -1
    for token, _ in tokens:
        words.append((end + 1, end + 1 + len(token)))
        end += 1 + len(token)
    return Tagged(" ".join(token for token, _ in tokens), tuple(words), tuple(tag for _, tag in tokens), unit)
