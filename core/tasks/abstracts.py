"""Entities in labelled sentences of abstracts, such as BC5CDR's: a head is fitted on some and judged on others.

The sentences come from a folder with train.tsv and test.tsv (`core.tasks.iob`), and no patient is in them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from core.models.build import LanguageModel
from core.tasks.entities import Tagged, entity_counts
from core.tasks.iob import JUDGE_FILE, LEARN_FILE, read_iob, types_of

LEARNED_SENTENCES, JUDGED_SENTENCES = 400, 1_000


def labelled_sentences(
    folder: Path, *, learned: int = LEARNED_SENTENCES, judged: int = JUDGED_SENTENCES
) -> tuple[list[Tagged], list[Tagged]]:
    """At most `learned` sentences of train.tsv and at most `judged` of test.tsv, both drawn at random.

    Raises:
        FileNotFoundError, ValueError: a file is missing, cannot be read or holds no sentence of use; the text is a
            sentence.
    """
    known = _drawn(read_iob(folder / LEARN_FILE), learned)
    asked = _drawn(read_iob(folder / JUDGE_FILE), judged)
    if not types_of(known) or not asked:
        raise ValueError(f"{folder}: {LEARN_FILE} needs sentences with entities, and {JUDGE_FILE} needs sentences")
    return known, asked


def sentence_counts(lm: LanguageModel, known: list[Tagged], asked: list[Tagged]) -> pd.DataFrame:
    """Fit a head on the sentences `known` and count the entities it finds in those of `asked` (`entity_counts`).

    `patient_id` is the sentence's number in its file.
    """
    return entity_counts(lm, known, asked, types_of(known), seed=0)


def _drawn(sentences: list[Tagged], most: int) -> list[Tagged]:
    places = np.sort(np.random.default_rng(0).permutation(len(sentences))[:most])
    return [sentences[place] for place in places]
