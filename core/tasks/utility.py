"""The table `utility` of a run: what its model is good for, as counts for each patient.

Three tasks: entity extraction (masked models), inference about a note, and how close the model's own texts are to real
notes (GPT-2). Heads are fitted on notes of the population split alone. These patients consented and are in no training
set, so nothing here costs ε: for members it is post-processing of the trained model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from core.common.errors import Cancelled
from core.corpus.tables import Corpus
from core.models.build import LanguageModel
from core.spec import RunSpec
from core.tasks.claims import Pair, claim_pairs
from core.tasks.coherence import groups_in
from core.tasks.entities import Tagged, entity_counts, tagged_notes
from core.tasks.heads import Report
from core.tasks.inference import inference_counts
from core.tasks.texts import CEILING, FEWEST_TEXTS, GENERATED, MOST_TEXTS, Stop, cluster_counts, own_texts

COLUMNS = ("task", "kind", "patient_id", "cluster", "trials", "predicted", "correct")
LABELLED_NOTES, JUDGED_NOTES = 400, 300
LABELLED_CLAIMS, JUDGED_CLAIMS = 200, 120  # each with three notes
_STREAM = 57


def utility_counts(
    lm: LanguageModel,
    base: Callable[[], LanguageModel],
    corpus: Corpus,
    spec: RunSpec,
    *,
    report: Report | None = None,
    should_stop: Stop | None = None,
) -> pd.DataFrame:
    """All rows of the table, with the columns `COLUMNS`; a task that this cohort or kind of model lacks has none.

    Entity extraction needs marked entities, inference the synthetic hospital's records, both notes of population
    patients. The same notes and claims are drawn for every model of the cohort (`AuditSpec.seed`).

    Args:
        lm: the model.
        base: loads the public base model; called only if it is needed.
        corpus: its cohort.
        spec: its settings.
        report: called with (done, total) between batches; an exception from it stops the work.
        should_stop: asked between the tokens of generated texts.

    Raises:
        Cancelled: when `should_stop()` returns True.
    """
    seed, frames = spec.audit.seed, []
    learned, judged = labelled_notes(corpus, seed)
    if not lm.causal and any(set(one.tags) != {"O"} for one in learned) and judged:
        frames.append(entity_counts(lm, learned, judged, seed=seed, report=report))
    known, asked = labelled_claims(corpus, seed)
    if known and asked:
        frames.append(inference_counts(lm, known, asked, seed=seed, report=report))
    halves = held_out_halves(corpus, seed) if lm.causal else None
    if halves is not None:
        frames += _text_counts(lm, base(), *halves, seed, should_stop)
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    return found.reindex(columns=list(COLUMNS))


def labelled_notes(corpus: Corpus, seed: int) -> tuple[list[Tagged], list[Tagged]]:
    """(notes of population patients to learn from, notes of held-out patients to judge by), with their tags."""
    learned, judged = _drawn(corpus, "population", LABELLED_NOTES, seed), _drawn(corpus, "heldout", JUDGED_NOTES, seed)
    return tagged_notes(learned), tagged_notes(judged)


def population_texts(corpus: Corpus, seed: int) -> list[str]:
    """The texts of at most `LABELLED_NOTES` notes of population patients, the same as in `labelled_notes`."""
    return _drawn(corpus, "population", LABELLED_NOTES, seed)["text"].tolist()


def labelled_claims(corpus: Corpus, seed: int) -> tuple[list[Pair], list[Pair]]:
    """(claims about notes of population patients, claims about notes of held-out patients); none without records."""
    if corpus.spec is None or corpus.spec.imported is not None:
        return [], []
    pairs = []
    for split, triples in (("population", LABELLED_CLAIMS), ("heldout", JUDGED_CLAIMS)):
        notes = _drawn(corpus, split, 4 * triples, seed)
        pairs.append(claim_pairs(notes, [groups_in(text) for text in notes["text"]], triples, seed=seed))
    return pairs[0], pairs[1]


def held_out_halves(corpus: Corpus, seed: int) -> tuple[pd.DataFrame, pd.DataFrame] | None:
    """Equally many notes of two halves of the held-out patients; None if there are too few."""
    notes = corpus.notes_of("heldout")
    notes = notes[notes["text"].str.strip() != ""]
    rng = np.random.default_rng([seed, _STREAM, 2])
    patients = rng.permutation(np.sort(notes["patient_id"].unique()))
    sides = [notes[notes["patient_id"].isin(half)] for half in (patients[::2], patients[1::2])]
    count = min(MOST_TEXTS, *map(len, sides))
    if count < FEWEST_TEXTS:
        return None
    first, second = (side.iloc[np.sort(rng.permutation(len(side))[:count])] for side in sides)
    return first, second


def _text_counts(
    lm: LanguageModel, base: LanguageModel, reference: pd.DataFrame, others: pd.DataFrame, seed: int, stop: Stop | None
) -> list[pd.DataFrame]:
    texts = own_texts(lm, len(reference), seed, should_stop=stop)
    if stop is not None and stop():
        raise Cancelled("the measurement of the model's own texts was stopped")
    units = others["patient_id"].tolist()
    return [
        cluster_counts(base, texts, [None] * len(texts), reference, GENERATED, seed),
        cluster_counts(base, others["text"].tolist(), units, reference, CEILING, seed),
    ]


def _drawn(corpus: Corpus, split: str, most: int, seed: int) -> pd.DataFrame:
    """At most `most` notes of a split with a text, drawn at random."""
    notes = corpus.notes[(corpus.notes["split"] == split) & (corpus.notes["text"].str.strip() != "")]
    place = np.random.default_rng([seed, _STREAM]).permutation(len(notes))[:most]
    return notes.iloc[np.sort(place)].reset_index(drop=True)
