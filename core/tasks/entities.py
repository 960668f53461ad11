"""Entity extraction: problems, tests and treatments in notes of held-out patients (Hoory 2021, §4 and table 1).

The encoder of a masked model reads the notes. A head on its vectors, fitted on labelled notes of population patients,
gives each word a BIO tag. What is stored are counts of entities for each patient, so that precision, recall, F1 and
their intervals can be computed from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from core.attacks.probes.vectors import batches, padded, with_specials
from core.models.build import LanguageModel
from core.tasks.heads import Report, fit, reported_from
from core.tasks.tagging import TYPES, entities, tag_set, tags_of, word_spans

TASK = "entities"
COUNTS = ("task", "kind", "patient_id", "trials", "predicted", "correct")


@dataclass(frozen=True)
class Tagged:
    """A text cut into words, with a tag for each: a note, or an abstract."""

    text: str
    words: tuple[tuple[int, int], ...]  # (start, end) in characters
    tags: tuple[str, ...]
    unit: str  # the patient (or document) that it belongs to


def tagged_notes(notes: pd.DataFrame) -> list[Tagged]:
    """The notes of a cohort with the tags that their column `entity_spans` gives."""
    rows = zip(notes["text"], notes["entity_spans"], notes["patient_id"], strict=True)
    found = []
    for text, spans, patient in rows:
        words = word_spans(text)
        found.append(Tagged(text, tuple(words), tuple(tags_of(words, spans)), str(patient)))
    return [one for one in found if one.words]


def entity_counts(
    lm: LanguageModel,
    learned: Sequence[Tagged],
    judged: Sequence[Tagged],
    types: Sequence[str] = TYPES,
    *,
    seed: int,
    report: Report | None = None,
) -> pd.DataFrame:
    """Fit a head on `learned` and count what it finds in `judged`, with the columns `COUNTS`.

    One row a unit and type of entity: `trials` entities are there, `predicted` were said, and `correct` of these have
    both ends and the type right.

    Raises:
        ValueError: there is nothing to learn from.
    """
    tags = tag_set(types)
    place = {tag: number for number, tag in enumerate(tags)}
    total = len(learned) + len(judged)
    known = word_vectors(lm, learned, report=reported_from(report, 0, total))
    labels = np.concatenate([np.array([place[tag] for tag in one.tags]) for one in learned])
    head = fit(np.concatenate(known), labels, len(tags), seed=seed)
    asked = word_vectors(lm, judged, report=reported_from(report, len(learned), total))
    said = [[tags[number] for number in head.predict(vectors)] for vectors in asked]
    return count_entities([one.unit for one in judged], [one.tags for one in judged], said, types)


def count_entities(
    units: Sequence[str], true: Sequence[Sequence[str]], said: Sequence[Sequence[str]], types: Sequence[str] = TYPES
) -> pd.DataFrame:
    """Count entities by unit and type from tags, (units), each a sequence of tags; columns as in `COUNTS`."""
    counts: dict[tuple[str, str], list[int]] = {}
    for unit, wanted, found in zip(units, true, said, strict=True):
        there, told = set(entities(wanted)), set(entities(found))
        for name in types:
            row = counts.setdefault((name, unit), [0, 0, 0])
            for number, which in enumerate((there, told, there & told)):
                row[number] += sum(entity[2] == name for entity in which)
    rows = [(TASK, name, unit, *numbers) for (name, unit), numbers in counts.items()]
    return pd.DataFrame(rows, columns=list(COUNTS))


def word_vectors(lm: LanguageModel, texts: Sequence[Tagged], *, report: Report | None = None) -> list[np.ndarray]:
    """For each text (words, 3 × width), float32: the vector of each word between those of its two neighbours.

    A word's vector is the last hidden state of its first piece (Devlin et al. 2019, §5.3; for GPT-2, which only reads
    to the left, of its last). At the ends of a text, zeros take the place of the missing neighbour. A text that is
    longer than the model's context is read in several pieces, which end between words.
    """
    parts: list[tuple[int, list[int], np.ndarray]] = []  # (text, ids with special tokens, place of each word)
    for number, one in enumerate(texts):
        parts += [(number, ids, places) for ids, places in _pieces(lm, one)]
    found: list[list[np.ndarray]] = [[] for _ in texts]
    vectors: list[np.ndarray] = [np.empty(0)] * len(parts)
    done = 0
    with torch.inference_mode():
        for batch in batches([len(ids) for _, ids, _ in parts]):
            ids, attention = padded(lm, [parts[row][1] for row in batch])
            hidden = lm.hidden(ids, attention).float().cpu().numpy()
            for row, states in zip(batch, hidden, strict=True):
                vectors[row] = states[parts[row][2]]
            done += len(batch)
            if report is not None:
                report(min(len(texts), done * len(texts) // len(parts)), len(texts))
    for (number, _, _), part in zip(parts, vectors, strict=True):
        found[number].append(part)
    return [_with_neighbours(np.concatenate(of_text)) for of_text in found]


def _pieces(lm: LanguageModel, one: Tagged) -> list[tuple[list[int], np.ndarray]]:
    """Pieces of a text that fit the context: token ids with special ones, and the place of each word among them."""
    encoding = lm.tokenizer.backend_tokenizer.encode(one.text, add_special_tokens=False)
    room = lm.context - 2
    starts = np.array([start for start, _ in encoding.offsets])
    ends = np.array([end for _, end in encoding.offsets])
    if lm.causal:  # the last piece that begins before the word's end
        places = np.array([np.searchsorted(starts, end, side="left") - 1 for _, end in one.words])
    else:  # the first piece that ends behind the word's start
        places = np.array([np.searchsorted(ends, start, side="right") for start, _ in one.words])
    places = places.clip(0, max(0, len(encoding.ids) - 1))
    pieces, begun, start = [], 0, 0
    while begun < len(places):
        end = max(begun + 1, int(np.searchsorted(places, start + room, side="left")))
        # A piece ends behind the last token of a word (GPT-2), or before the first token of the next.
        between = int(places[end - 1]) + 1 if lm.causal else int(places[min(end, len(places) - 1)])
        after = len(encoding.ids) if end == len(places) else between
        ids = encoding.ids[start : min(after, start + room)]
        pieces.append((with_specials(lm, ids), (places[begun:end] - start + 1).clip(0, len(ids))))
        begun, start = end, after
    return pieces


def _with_neighbours(vectors: np.ndarray) -> np.ndarray:
    """(words, width) → (words, 3 × width): the word before, the word, the word after."""
    nothing = np.zeros((1, vectors.shape[1]), dtype=vectors.dtype)
    around = np.concatenate([nothing, vectors, nothing])
    return np.concatenate([around[:-2], vectors, around[2:]], axis=1)
