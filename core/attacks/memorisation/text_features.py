"""Features of a note's text that may predict which notes a model memorises (Mireshghallah 2022, §4.4 and table 7).

(A) digits, (B) length in tokens, (C) characters that are neither letter, digit nor white space, (D) how often the three
rarest of its tokens occur in the training notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pandas as pd

FEATURES = ("digits", "tokens", "others", "rarest", "second_rarest", "third_rarest")
FEATURE_COLUMNS = {
    "note_id": "str",
    "patient_id": "str",
    "split": "str",
    "ratio": "float64",  # log-likelihood ratio to the public base model, nats per token: higher = memorised
    **dict.fromkeys(FEATURES, "float64"),
}


def features(texts: Sequence[str], tokens: Sequence[Sequence[int]], training: Sequence[Sequence[int]]) -> pd.DataFrame:
    """The features of every text, one row each.

    The three rarest are chosen among a text's distinct tokens; a text with fewer repeats its rarest.

    Args:
        texts: the texts.
        tokens: token ids of each text.
        training: token ids of all training notes.
    """
    counts = Counter(token for ids in training for token in ids)
    rows = []
    for text, ids in zip(texts, tokens, strict=True):
        rare = sorted(counts[token] for token in set(ids)) or [0]
        rare = rare[:3] + rare[:1] * (3 - len(rare))
        digits = sum(character.isdigit() for character in text)
        others = sum(not (character.isalnum() or character.isspace()) for character in text)
        rows.append((digits, len(ids), others, *sorted(rare)))
    return pd.DataFrame(rows, columns=list(FEATURES)).astype(float)
