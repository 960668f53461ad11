"""How well models with different word lists read the same notes: the same words, hidden whole, asked of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from core.corpus.tables import Corpus
from core.models.build import LanguageModel
from core.models.encoding import token_counts
from core.models.likelihood import word_log_likelihoods
from core.spec import AuditSpec

READ_NOTES = 300  # held-out notes, drawn at random
WORD_SHARE = 0.15  # of a note's words are asked for, as many as a mask hides
_CHUNK = 20  # notes between two reports of progress
_STREAM = 42


def reading(
    models: Mapping[str, LanguageModel],
    corpus: Corpus,
    audit: AuditSpec,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """The table `reading` (docs/reference/tables.md) of masked models by their arm: one row a held-out note and arm.

    `tokens` is the length of the whole note in the arm's own tokens. `characters` and `nats` are those of the words
    asked for (`WORD_SHARE` of the note's, at least one, drawn by `audit.seed`): characters without white space, and
    −log p of the words (`core.models.likelihood.word_log_likelihoods`). All arms are asked for the same words.
    """
    notes = corpus.notes_of("heldout")
    notes = notes[notes["text"].str.strip() != ""]
    rng = np.random.default_rng([audit.seed, _STREAM])
    notes = notes.iloc[np.sort(rng.permutation(len(notes))[:READ_NOTES])]
    texts = notes["text"].tolist()
    chosen = [_draw(len(text.split()), rng) for text in texts]
    asked = [sum(len(text.split()[word]) for word in words) for text, words in zip(texts, chosen, strict=True)]
    frames = []
    for number, (arm, lm) in enumerate(models.items()):
        nats: list[float] = []
        for start in range(0, len(texts), _CHUNK):
            found = word_log_likelihoods(lm, texts[start : start + _CHUNK], chosen[start : start + _CHUNK])
            nats += [-float(one.sum()) for one in found]
            if on_progress is not None:
                on_progress(number * len(texts) + len(nats), len(models) * len(texts))
        frame = notes[["note_id", "patient_id"]].assign(arm=arm, tokens=token_counts(lm, texts))
        frames.append(frame.assign(characters=asked, nats=nats))
    return pd.concat(frames, ignore_index=True)


def _draw(words: int, rng: np.random.Generator) -> np.ndarray:
    return np.sort(rng.permutation(words)[: max(1, round(WORD_SHARE * words))])
