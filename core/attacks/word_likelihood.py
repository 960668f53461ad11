"""Compare how well models with different vocabularies predict the same notes: whole words are hidden and scored."""

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
WORD_SHARE = 0.15  # share of a note's words that are scored, as many as a mask hides
_CHUNK = 20  # notes between two progress reports
_STREAM = 42


def word_likelihoods(
    models: Mapping[str, LanguageModel],
    corpus: Corpus,
    audit: AuditSpec,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """The table `reading` (docs/reference/tables.md) of masked models, keyed by arm: one row a held-out note and arm.

    `tokens` is the length of the whole note in the arm's own tokens. `characters` and `nats` describe the scored words
    (`WORD_SHARE` of the note's words, at least one, drawn by `audit.seed`): their characters without white space, and
    their −log p (`core.models.likelihood.word_log_likelihoods`). All arms score the same words.
    """
    notes = corpus.evaluation_notes(None, audit)
    notes = notes[notes["split"] == "heldout"].reset_index(drop=True)
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
