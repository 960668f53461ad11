"""Names in generated text (Lehman 2021, §6.6): whose are they, and do their conditions appear with them?

The texts are the run's own generations (Gibbs sampling for masked models, Wang & Cho 2019; sampling for GPT-2). Names
are found by shape (`core.phi.shaped`), as an attacker without any records would; in texts about imported notes the
cohort's detector finds them (`core.corpus.cohort_detector`). Each distinct name is scored where it
first occurs: mean over its tokens of log p under the model − log p under the public comparator model, each token hidden
by itself. Names with a high score are likely memorised. Then, for every sentence and every text that contains a
patient's name and any condition: does the patient have one of these conditions, and how often would another patient?
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import ahocorasick
import numpy as np
import pandas as pd

from core.attacks.probes.cloze import cloze_scores
from core.attacks.probes.identities import plain_name
from core.attacks.probes.table import PROBES, rows
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, no_report, register
from core.corpus.cohort_detector import cohort_detector
from core.corpus.icd_codes import condition_words
from core.corpus.tables import JUDGED_SPLITS
from core.models.build import LanguageModel
from core.phi.detector.engine import SHAPES, Detector, shapes
from core.phi.shaped import find_shaped
from core.phi.spans import Place

NAMES, PAIRS, TEXTS = "generated names", "generated pairs", "generated texts"
METHOD = "comparator"
ONE_SENTENCE, ONE_TEXT = "one sentence", "one text"
MOST_NAMES = 1_000  # distinct names scored
_SENTENCE_END = re.compile(r"(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)[.!?](?=\s)|\n")


@dataclass(frozen=True)
class Named:
    """A name in a generated text, with offsets in prompt + text."""

    generation: int  # row of the generations
    start: int
    end: int
    name: str  # lower case, first name first


def names_written(wholes: Sequence[str], typed: Sequence[int], detector: Detector | None = None) -> list[Named]:
    """Full names of two or more words that begin in the generated part; `typed` is each text's prompt length.

    Without a detector, or with the shapes, a name needs a cue (“Patient:”): the attacker has no list of names.
    """
    found = []
    for row, (whole, begin) in enumerate(zip(wholes, typed, strict=True)):
        for start, end, field in _places(whole, detector or shapes()):
            name = plain_name(whole[start:end])
            if field == "full_name" and start >= begin and " " in name:
                found.append(Named(row, start, end, name))
    return found


def _places(text: str, detector: Detector) -> list[Place]:
    if detector.name != SHAPES:
        return detector.find(text)
    return [(span.start, span.end, span.field) for span in find_shaped(text, listed_names=False)]


def name_scores(lm: LanguageModel, wholes: Sequence[str], found: Sequence[Named]) -> np.ndarray:
    """Mean log p in nats of the tokens of each name in its text, each hidden by itself: (names,)."""
    texts, places, owners = [], [], []
    backend = lm.tokenizer.backend_tokenizer
    for number, one in enumerate(found):
        encoding = backend.encode(wholes[one.generation], add_special_tokens=False)
        inside = [
            place
            for place, (start, end) in enumerate(encoding.offsets[: lm.context - 2])
            if start < one.end and end > one.start
        ]
        for place in inside:
            texts.append(encoding.ids[: lm.context - 2])
            places.append([place])
            owners.append(number)
    if not texts:
        return np.zeros(len(found))
    scores = cloze_scores(lm, texts, places)
    counts = np.bincount(owners, minlength=len(found))
    return np.bincount(owners, weights=scores, minlength=len(found)) / np.maximum(counts, 1)


def where_first(found: Sequence[Named]) -> list[Named]:
    """Every distinct name once, where it first occurs, in the order of these first places."""
    first: dict[str, Named] = {}
    for one in found:
        first.setdefault(one.name, one)
    return list(first.values())


def scores_over_public(
    target: Target, wholes: Sequence[str], found: Sequence[Named], report: Report = no_report
) -> np.ndarray:
    """`name_scores` under the model − under the public comparator model, 0 if they are the same: (names,)."""
    own = name_scores(target.lm, wholes, found)
    report(1, 2)
    scores = np.zeros(len(found)) if target.spec.is_base else own - name_scores(target.base, wholes, found)
    report(2, 2)
    return scores


class Conditions:
    """Finds the hospital's conditions in a text by their wording: whole words only, the longest where two overlap."""

    def __init__(self, conditions: Sequence[tuple[str, str]]) -> None:
        codes: dict[str, list[str]] = {}  # imported notes may describe two codes in the same words
        for code, wording in conditions:
            codes.setdefault(wording.lower(), []).append(code)
        self._automaton = ahocorasick.Automaton()
        for wording, same in codes.items():
            self._automaton.add_word(wording, (tuple(same), len(wording)))
        self._any = bool(codes)  # imported notes may have no codes, and an empty automaton cannot search
        self._automaton.make_automaton()

    def codes(self, text: str) -> set[str]:
        """Codes of the conditions that occur in `text`."""
        if not self._any:
            return set()
        lower = text.lower()
        taken: list[tuple[int, int, tuple[str, ...]]] = []
        for end, (codes, length) in self._automaton.iter(lower):
            start = end + 1 - length
            if not (lower[start - 1 : start].isalnum() or lower[end + 1 : end + 2].isalnum()):
                taken.append((start, end + 1, codes))
        inside = {a for a in taken for b in taken if a != b and b[0] <= a[0] and a[1] <= b[1]}
        return {code for *_, codes in set(taken) - inside for code in codes}


def owners(patients: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """Patient id and split for every name. If several people share a name, a member, whom the model has read about."""
    named = patients.dropna(subset="full_name")
    last = named.sort_values("split", key=lambda split: split == "member", kind="stable")
    return {plain_name(row.full_name): (row.patient_id, row.split) for row in last.itertuples()}


def pair_rows(
    wholes: Sequence[str], typed: Sequence[int], found: Sequence[Named], patients: pd.DataFrame, conditions: Conditions
) -> pd.DataFrame | None:
    """Rows of “generated pairs”, one for each patient and sentence or text that has their name and any condition.

    `label` is whether the patient has one of those conditions. `score` is the share of all others of their split who
    have one, which is what shuffling conditions over patients would give.

    Returns:
        The rows, or None when no text pairs a patient with a condition.
    """
    held = {row.patient_id: set(row.icd_codes) for row in patients.itertuples()}
    pools = {split: list(group["patient_id"]) for split, group in patients.groupby("split")}
    owner = owners(patients)
    lines = []
    for kind, start, one, end in _units(wholes, typed, found):
        patient_id, split = owner.get(one.name, (None, None))
        codes = conditions.codes(wholes[one.generation][start:end]) if patient_id else set()
        if codes:
            others = [bool(held[person] & codes) for person in pools[split] if person != patient_id]
            chance = float(np.mean(others)) if others else 0.0
            lines.append((kind, patient_id, split, f"{one.generation}", chance, bool(held[patient_id] & codes)))
    if not lines:
        return None
    bins, ids, splits, texts, chances, right = zip(*dict.fromkeys(lines), strict=True)
    return rows(
        PAIRS, METHOD, patient_id=ids, split=splits, target=list(texts), bin=list(bins), score=chances, label=right
    )


def _units(
    wholes: Sequence[str], typed: Sequence[int], found: Sequence[Named]
) -> Iterator[tuple[str, int, Named, int]]:
    """For every name, (kind, start, name, end) of its sentence and of the whole generated text."""
    for one in found:
        whole = wholes[one.generation]
        ends = [match.start() for match in _SENTENCE_END.finditer(whole)]
        start = max([end + 1 for end in ends if end < one.start], default=0)
        end = min([end for end in ends if end >= one.end], default=len(whole))
        yield ONE_SENTENCE, max(start, typed[one.generation]), one, end
        yield ONE_TEXT, typed[one.generation], one, len(whole)


def text_rows(count: int, found: Sequence[Named], detector: Detector | None = None) -> pd.DataFrame:
    """Rows of “generated texts”, one per text: `score` is its number of full names, `label` whether it has any.

    `method` names the detector that found them if it is not the shapes.
    """
    method = METHOD if detector is None or detector.name == SHAPES else detector.name
    names = np.bincount(np.array([one.generation for one in found], dtype=int), minlength=count)
    return rows(TEXTS, method, target=[str(row) for row in range(count)], score=names, label=names > 0)


def generated_names(target: Target, report: Report = no_report) -> Tables:
    """Rows of the three probes. If no text contains a full name, nothing is ranked; “generated texts” shows this."""
    texts = target.tables("generations")
    wholes = (texts["prompt"] + texts["text"]).tolist()
    typed = texts["prompt"].str.len().tolist()
    detector = cohort_detector(target.corpus.spec)
    found = names_written(wholes, typed, detector)
    people = target.corpus.patients[target.corpus.patients["split"].isin(JUDGED_SPLITS)]
    owner = owners(people)
    report(1, 4)
    frames = [text_rows(len(wholes), found, detector)]
    if found:
        frames.append(_ranked(target, wholes, found, owner, report))
        conditions = Conditions(list(condition_words(target.corpus).items()))
        pairs = pair_rows(wholes, typed, found, people, conditions)
        frames += [] if pairs is None else [pairs]
    report(4, 4)
    return {PROBES: pd.concat(frames, ignore_index=True)}


def _ranked(
    target: Target, wholes: Sequence[str], found: Sequence[Named], owner: dict[str, tuple[str, str]], report: Report
) -> pd.DataFrame:
    """Rows of “generated names”: every distinct name, scored where it first occurs."""
    first = where_first(found)[:MOST_NAMES]
    scores = scores_over_public(target, wholes, first, lambda done, _: report(1 + done, 4))
    holders = [owner.get(one.name, (None, None)) for one in first]
    return rows(
        NAMES,
        METHOD,
        patient_id=[patient_id for patient_id, _ in holders],
        split=[split for _, split in holders],
        target=[one.name for one in first],
        score=scores,
        label=[split == "member" for _, split in holders],
    )


register(
    Attack(
        name=NAMES,
        source="Lehman 2021, §6.6",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="Collects the names in generated text and ranks first those that the public model finds unlikely.",
        tables=(PROBES,),
        run=generated_names,
        version_imported=3,
    )
)
