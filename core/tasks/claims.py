"""What a note of the synthetic hospital states, and claims about it that are entailed, contradicted or left open.

The facts are read from the note's text, whose phrases are known (`core/corpus/synthetic/wording.toml`), and from its
entities. Every claim is paired with three notes, nearly always of different patients: one that states it, one that
states the contrary, one that says nothing about it. So each claim is true, false and open equally often, and whoever
reads claims alone is right in exactly a third of the cases. (Gururangan et al. 2018 show how much such artefacts give
away in SNLI and MultiNLI; Romanov & Shivade 2018 in MedNLI.)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

ENTAILED, CONTRADICTED, OPEN = "entailed", "contradicted", "open"
LABELS = (ENTAILED, CONTRADICTED, OPEN)

_PRESSURE = re.compile(r"(?<![\d/])(\d{2,3})/(\d{2,3})(?![\d/])")
_TEMPERATURE = re.compile(r"\b(?:[Tt]emp(?:erature)?|T) (\d\d\.\d)|(\d\d\.\d) degrees|readings \d+/\d+, (\d\d\.\d),")
_AGE = re.compile(r"\b(\d{2})-year-old|\b(\d{2}) years old|, (\d{2}), with ")
_DOSE = re.compile(r"^(.*?) (\d[\d.]* ?.*)$")
_MALE = re.compile(r"\b(?:he|his|him|man|gentleman|Mr)\b", re.IGNORECASE)
_FEMALE = re.compile(r"\b(?:she|her|woman|lady|Mrs)\b", re.IGNORECASE)
_BETTER = re.compile(
    r"\b(?:improving|much better|improved within|resolved|eased steadily|cleared before discharge|settled)\b",
    re.IGNORECASE,
)
_SAME = re.compile(r"\b(?:unchanged|(?<!vitals )(?<!been )stable(?! condition)|well controlled)\b", re.IGNORECASE)
_WORSE = re.compile(r"\bworse at night\b", re.IGNORECASE)
_AIR, _OXYGEN = re.compile("room air"), re.compile("liters of oxygen")
_TOLD_BY = {"full_name": ("sex",), "date_of_birth": ("age",), "email": ("sex", "age")}  # PHI field → what it gives away
FEVER, RAISED, LOW, OLD = 38.0, 140, 105, 65  # °C, mmHg, mmHg, years

_WORDED: dict[tuple[str, str], tuple[str, ...]] = {
    ("temperature", "fever"): ("The patient has a fever.", "The temperature is raised."),
    ("temperature", "none"): ("The patient has no fever.", "The temperature is normal."),
    ("pressure", "raised"): ("The blood pressure is high.", "The pressure is above the normal range."),
    ("pressure", "normal"): ("The blood pressure is normal.", "The pressure is within the normal range."),
    ("pressure", "low"): ("The blood pressure is low.", "The pressure is below the normal range."),
    ("oxygen", "air"): ("The patient breathes room air.", "No extra oxygen is needed."),
    ("oxygen", "extra"): ("The patient needs oxygen.", "The patient is given extra oxygen."),
    ("sex", "male"): ("The patient is a man.", "This is a male patient."),
    ("sex", "female"): ("The patient is a woman.", "This is a female patient."),
    ("age", "old"): (f"The patient is at least {OLD} years old.", "The patient is elderly."),
    ("age", "young"): (f"The patient is younger than {OLD} years.", "The patient is not yet elderly."),
    ("course", "better"): ("There is improvement.", "Things are getting better."),
    ("course", "same"): ("Nothing has changed.", "The state is the same as before."),
    ("course", "worse"): ("It is getting worse.", "The state is worse than before."),
}

_TOPICS = {  # disease groups whose names are not those of a disease
    "lipids": "blood lipids",
    "coronary": "coronary heart disease",
    "valve": "heart valve disease",
    "nose_allergy": "hay fever",
    "sleep": "a sleep disorder",
    "bowel": "bowel disease",
    "liver": "liver disease",
    "biliary": "gallbladder disease",
    "kidney": "kidney disease",
    "urinary": "a urinary disease",
    "prostate": "prostate disease",
    "thyroid": "an underactive thyroid",
    "hyperthyroid": "an overactive thyroid",
    "hormones": "a hormone disorder",
    "electrolytes": "an electrolyte disorder",
    "nutrition": "a nutritional deficiency",
    "platelets": "a blood cell disorder",
    "gut_cancer": "cancer of the digestive tract",
    "solid_cancer": "a solid tumor",
    "breast": "breast disease",
    "gynecology": "a gynecological disease",
    "skin": "skin disease",
    "ulcer": "a skin ulcer",
    "rheumatology": "a rheumatic disease",
    "back": "back pain",
    "complication": "a complication of care",
    "substance": "substance use",
    "neurology": "a neurological disease",
    "symptoms": "general symptoms",
    "eye": "eye disease",
    "ear": "ear disease",
}


@dataclass(frozen=True)
class Claim:
    """A claim about a note. `about` is what it speaks of (temperature, dose of a drug), `value` what it says."""

    family: str
    about: str
    value: str

    @property
    def topic(self) -> str:
        """The disease group that a claim about a disease names, in words."""
        return _TOPICS.get(self.value, self.value.replace("_", " "))

    def words(self, choice: int) -> str:
        """The claim as a sentence; `choice` picks one of its wordings."""
        if self.family == "dose":
            wordings: tuple[str, ...] = (
                f"The dose of {self.about} is {self.value}.",
                f"The patient takes {self.value} of {self.about}.",
            )
        elif self.family == "disease":
            wordings = (f"The note is about {self.topic}.", f"This is the care of {self.topic}.")
        else:
            wordings = _WORDED[self.about, self.value]
        return wordings[choice % len(wordings)]


@dataclass(frozen=True)
class Pair:
    """A note, a claim about it, and whether the note entails it."""

    premise: str
    claim: str
    label: str
    family: str
    patient_id: str


def facts(text: str, spans: Sequence[Mapping[str, int | str]], groups: Sequence[str] = ()) -> dict[str, str]:
    """What a note states: what it speaks of → the value. `groups` are the disease groups of its entities.

    A note that states two values of the same thing states none here, because no claim about it is clear.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for match in _TEMPERATURE.finditer(text):
        degrees = next(float(part) for part in match.groups() if part)
        found["temperature"].add("fever" if degrees >= FEVER else "none")
    for match in _PRESSURE.finditer(text):
        systolic = int(match.group(1))
        found["pressure"].add("raised" if systolic >= RAISED else "low" if systolic < LOW else "normal")
    for match in _AGE.finditer(text):
        years = next(int(part) for part in match.groups() if part)
        found["age"].add("old" if years >= OLD else "young")
    for name, value, pattern in (
        ("sex", "male", _MALE),
        ("sex", "female", _FEMALE),
        ("course", "better", _BETTER),
        ("course", "same", _SAME),
        ("course", "worse", _WORSE),
        ("oxygen", "air", _AIR),
        ("oxygen", "extra", _OXYGEN),
    ):
        if pattern.search(text):
            found[name].add(value)
    for drug, dose in _doses(text, spans):
        found[f"dose/{drug}"].add(dose)
    if groups:
        found["disease"] = set(groups)
    return {about: next(iter(values)) for about, values in found.items() if len(values) == 1}


def claim_pairs(notes: pd.DataFrame, groups: Sequence[Sequence[str]], triples: int, *, seed: int) -> list[Pair]:
    """At most `triples` claims, each with a note that entails it, one that contradicts it and one that leaves it open.

    The families take turns, so that each has about as many claims as the others. The three notes of a claim are drawn
    at random; a note may be used more than once, a claim with the same wording too.

    Args:
        notes: columns text, entity_spans, phi_spans and patient_id.
        groups: disease groups of each note's entities (`core.tasks.coherence`).
        triples: number of claims.
        seed: of the draws.
    """
    rng = np.random.default_rng(seed)
    texts, patients = notes["text"].tolist(), notes["patient_id"].astype(str).tolist()
    stated = [
        facts(text, spans, of_note) for text, spans, of_note in zip(texts, notes["entity_spans"], groups, strict=True)
    ]
    by_value: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number, of_note in enumerate(stated):
        for about, value in of_note.items():
            by_value[about][value].append(number)
    mentions = [
        _mentioned(*of_note) for of_note in zip(texts, notes["entity_spans"], notes["phi_spans"], groups, strict=True)
    ]
    claims = _claims(by_value)
    if not claims:
        return []
    families = sorted(claims)
    pairs: list[Pair] = []
    for number in range(triples):
        of_family = claims[families[number % len(families)]]
        about, value = of_family[int(rng.integers(len(of_family)))]
        family, _, name = about.partition("/")
        claim = Claim(family, name or family, value)
        others = [note for other, with_it in by_value[about].items() if other != value for note in with_it]
        free = [note for note in range(len(texts)) if about not in mentions[note]]
        if not others or not free:
            continue
        words = claim.words(int(rng.integers(2)))
        for label, pool in zip(LABELS, (by_value[about][value], others, free), strict=True):
            note = pool[int(rng.integers(len(pool)))]
            pairs.append(Pair(texts[note], words, label, family, patients[note]))
    return pairs


def _claims(by_value: Mapping[str, Mapping[str, list[int]]]) -> dict[str, list[tuple[str, str]]]:
    """(about, value) of every claim for which a note states the contrary, by family."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for about, values in sorted(by_value.items()):
        if len(values) > 1:
            found[about.partition("/")[0]] += [(about, value) for value in sorted(values)]
    return dict(found)


def _mentioned(
    text: str,
    spans: Sequence[Mapping[str, int | str]],
    identifiers: Sequence[Mapping[str, int | str]],
    groups: Sequence[str],
) -> set[str]:
    """Everything about which a note says something, clearly or not: none of it is open. A name tells the sex."""
    patterns = {"temperature": (_TEMPERATURE,), "pressure": (_PRESSURE,), "age": (_AGE,), "sex": (_MALE, _FEMALE)}
    patterns |= {"oxygen": (re.compile("room air|oxygen"),), "course": (_BETTER, _SAME, _WORSE)}
    found = {name for name, words in patterns.items() if any(pattern.search(text) for pattern in words)}
    found |= {f"dose/{drug}" for drug, _ in _doses(text, spans)}
    found |= {about for span in identifiers for about in _TOLD_BY.get(str(span["field"]), ())}
    return found | ({"disease"} if groups else set())


def _doses(text: str, spans: Sequence[Mapping[str, int | str]]) -> Iterator[tuple[str, str]]:
    """(drug in lower case, dose) of each treatment of a note that has a dose."""
    for span in spans:
        named = _DOSE.match(text[int(span["start"]) : int(span["end"])]) if span["field"] == "treatment" else None
        if named is not None:
            yield named.group(1).lower(), named.group(2)
