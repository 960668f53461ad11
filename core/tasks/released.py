"""What released notes are good for: a tagger of entities fitted on them, judged on real notes of held-out patients.

The tagger is the one of `core.tasks.entities`: a head on the vectors of a public masked model, which read no note of
the cohort. Nobody labelled the released notes, so the hospital's list of terms labels them (`core.tasks.lexicon`), and
also the real notes that the tagger is compared on: arms differ in their texts alone. Real notes to learn from are those
of population patients, who consented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.corpus.tables import Corpus
from core.models.build import LanguageModel
from core.tasks.entities import Tagged, count_entities, entity_counts
from core.tasks.lexicon import labelled, term_spans
from core.tasks.tagging import entities, tags_of
from core.tasks.utility import LABELLED_NOTES, labelled_notes, population_texts

RELEASED, REAL, PUBLIC, LIST = "released notes", "real notes", "public", "list of terms"
ALL_RELEASED = "all released notes"
MOST_RELEASED = 2_000  # that a tagger is fitted on, which bounds the time


@dataclass(frozen=True)
class TaggerCounts:
    """Counts of one arm on held-out notes (`core.tasks.entities.COUNTS`), and the texts and labels it was fitted on."""

    counts: pd.DataFrame
    texts: int
    labels: int


def texts_to_learn(corpus: Corpus, texts: Sequence[str], seed: int) -> dict[str, list[str]]:
    """By arm equally many released and real texts, at most `LABELLED_NOTES`; none if the hospital has no list of terms.

    The released ones are the first, which are as random as any; the real ones are drawn. A cohort without population
    patients has no real ones. Where there are more released texts, they are a further arm, since a recipient uses all.
    """
    if corpus.spec is None or corpus.spec.imported is not None:
        return {}
    real = population_texts(corpus, seed)
    count = min(LABELLED_NOTES, len(texts), len(real) or LABELLED_NOTES)
    chosen = np.sort(np.random.default_rng([seed, count]).permutation(len(real))[:count])
    found = {
        RELEASED: list(texts[:count]),
        ALL_RELEASED: list(texts[:MOST_RELEASED]) if len(texts) > count else [],
        REAL: [real[place] for place in chosen],
    }
    return {arm: of_arm for arm, of_arm in found.items() if of_arm}


def tagger_counts(
    encoder: LanguageModel, corpus: Corpus, learned: Mapping[str, Sequence[str]], *, seed: int
) -> dict[str, TaggerCounts]:
    """What taggers that were fitted on the texts of each arm find in held-out notes; and the list of terms itself.

    Every arm is judged on the same notes by the spans that the hospital's writer recorded. Empty without such notes.

    Args:
        encoder: A public masked model.
        corpus: A synthetic hospital.
        learned: Texts by arm.
        seed: Of the draws and of the heads.
    """
    judged = labelled_notes(corpus, seed)[1]
    if not judged:
        return {}
    found = {}
    for arm, texts in learned.items():
        known = labelled(texts)
        if known:
            counts = entity_counts(encoder, known, judged, seed=seed)
            found[arm] = TaggerCounts(counts, len(known), sum(len(entities(one.tags)) for one in known))
    return found | {LIST: TaggerCounts(_by_list(judged), 0, 0)}


def _by_list(judged: Sequence[Tagged]) -> pd.DataFrame:
    said = [tags_of(one.words, term_spans(one.text)) for one in judged]
    return count_entities([one.unit for one in judged], [one.tags for one in judged], said)
