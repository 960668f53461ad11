"""The hospital's phrases (wording.toml, compiled once) and the values that fill the slots of one note."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from core.corpus.synthetic.conditions import Condition, Group, Lab
from core.corpus.synthetic.records import Diagnosis, Patient
from core.corpus.synthetic.writer import Phrase, Slot, Value, compile_phrase, marked_value
from core.phi.dates import MONTHS

_NEEDS_SECOND_DISEASE = {"other", "othermed"}
_FREE_WORDS = {
    "trend": (
        "unchanged",
        "improving",
        "slowly improving",
        "worse at night",
        "well controlled",
        "much better",
        "stable",
    ),
    "trend_past": ("improved within two days", "resolved", "eased steadily", "cleared before discharge", "settled"),
    "mood": (
        "calm and cooperative",
        "comfortable",
        "tired but pleasant",
        "in good spirits",
        "anxious about results",
        "drowsy",
        "talkative",
        "quiet but appropriate",
    ),
    "family": ("the family", "a sister", "a brother", "the spouse", "a neighbor", "a close friend", "the caregiver"),
    "arrange": ("arrange", "order", "obtain", "request", "schedule"),
}


@dataclass(frozen=True)
class Section:
    """Phrases to draw from; `alone` leaves out those that mention a second disease."""

    phrases: tuple[Phrase, ...]
    alone: tuple[Phrase, ...]


@dataclass(frozen=True)
class CareWords:
    """The phrases about one condition as slot values, computed once."""

    symptoms: tuple[Value, ...]
    findings: tuple[Value, ...]
    signs: tuple[Value, ...]  # the abnormal findings
    plans: tuple[Value, ...]


@cache
def sections(kind: str) -> dict[str, Section]:
    """The sections of a note type, of `header`, of `contact` or of `generic`, by name."""
    source = tomllib.loads((Path(__file__).parent / "wording.toml").read_text(encoding="utf-8"))
    return {name: _section(lines) for name, lines in source[kind].items()}


def marked_terms() -> Iterator[tuple[str, str]]:
    """(words, problem | test | treatment) that the phrases of wording.toml mark, each as often as it is marked."""
    source = tomllib.loads((Path(__file__).parent / "wording.toml").read_text(encoding="utf-8"))
    for kind in source:
        for section in sections(kind).values():
            for phrase in section.phrases:
                for part in phrase:
                    if isinstance(part, Value) and part.entity is not None:
                        yield part.text, part.entity


def _section(lines: list[str]) -> Section:
    phrases = tuple(compile_phrase(line) for line in lines)
    alone = tuple(
        phrase
        for phrase in phrases
        if not any(isinstance(part, Slot) and part.name in _NEEDS_SECOND_DISEASE for part in phrase)
    )
    return Section(phrases, alone)


@cache
def care_words(condition: Condition) -> CareWords:
    """Symptoms are problems; so is a finding, unless its line starts with '~', which marks a normal finding."""
    care = condition.care
    findings = tuple(
        Value(text[1:]) if text.startswith("~") else Value(text, entity="problem") for text in care.findings
    )
    return CareWords(
        symptoms=tuple(Value(text, entity="problem") for text in care.symptoms),
        findings=findings,
        signs=tuple(finding for finding in findings if finding.entity),
        plans=tuple(marked_value(text) for text in care.plans),
    )


def patient_values(patient: Patient) -> dict[str, Value]:
    """The slots that have the same value in every note of a patient."""
    fields, male = patient.fields, patient.sex == "M"
    direct = {
        "name": ("full_name", fields["full_name"]),
        "mrn": ("mrn", fields["mrn"].removeprefix("MRN-")),
        "ssn": ("ssn", fields["ssn"]),
        "phone": ("phone", fields["phone"]),
        "email": ("email", fields["email"]),
        "address": ("address", fields["address"]),
        "height": ("height", fields["height"]),
        "weight": ("weight", fields["weight"]),
        "dx": ("diagnosis", fields["diagnosis"]),
    }
    values = {slot: Value(text, phi=field) for slot, (field, text) in direct.items()}
    pronouns = ("he", "his", "him") if male else ("she", "her", "her")
    values |= {slot: Value(word) for slot, word in zip(("he", "his", "him"), pronouns, strict=True)}
    return values


def note_values(
    rng: random.Random, patient: Patient, constant: dict[str, Value], day: date, named: bool
) -> tuple[dict[str, Value], bool]:
    """(slots of one note, whether the note can mention a second disease).

    A value equal to the record's has its PHI field. The blood pressure of another day or the drug of another disease
    has none.
    """
    diagnoses = patient.diagnoses
    focus = diagnoses[0] if len(diagnoses) == 1 or rng.random() < 0.65 else rng.choice(diagnoses[1:])
    group = focus.condition.group
    slots = dict(constant)
    slots |= _vital_signs(rng, patient, group)
    slots |= _clinical(rng, patient, focus)
    slots |= _small_words(rng, patient, day)
    others = [d for d in diagnoses if d is not focus and d.medication != focus.medication]
    if others:
        other = rng.choice(others)
        slots["other"] = _recorded(patient, "diagnosis", other.condition.wording, "problem")
        slots["othermed"] = _medication(patient, other)
    slots["who"] = constant["name"] if named and rng.random() < 0.35 else Value("the patient")
    slots["dob"] = Value(written_date(rng, patient.birth), phi="date_of_birth")
    return slots, bool(others)


def written_date(rng: random.Random, day: date) -> str:
    """A date in one of the usual forms: 1957-03-22 (half of the time), 22 March 1957, 03/22/1957."""
    form = rng.random()
    if form < 0.5:
        return day.isoformat()
    if form < 0.75:
        return f"{day.day} {MONTHS[day.month - 1]} {day.year}"
    return f"{day.month:02d}/{day.day:02d}/{day.year}"


def _recorded(patient: Patient, field: str, text: str, entity: str | None, tail: str = "") -> Value:
    return Value(text, tail, field if text == patient.fields[field] else None, entity)


def _medication(patient: Patient, diagnosis: Diagnosis) -> Value:
    return _recorded(patient, "medication", diagnosis.medication, "treatment", diagnosis.how_taken)


def _clinical(rng: random.Random, patient: Patient, focus: Diagnosis) -> dict[str, Value]:
    care = focus.condition.care
    words = care_words(focus.condition)
    symptom, symptom2 = _two(rng, words.symptoms)
    finding, finding2 = _two(rng, words.findings)
    plan, plan2 = _two(rng, words.plans)
    lab, lab2 = _two(rng, care.labs)
    kind = "treatment" if focus.procedure in care.procedures else "test"
    return {
        "dx": _recorded(patient, "diagnosis", focus.condition.wording, "problem"),
        "med": _medication(patient, focus),
        "procedure": _recorded(patient, "procedure", focus.procedure, kind),
        "test": _recorded(patient, "procedure", rng.choice(care.tests), "test"),
        "symptom": symptom,
        "symptom2": symptom2,
        "finding": finding,
        "finding2": finding2,
        "sign": words.signs[int(rng.random() * len(words.signs))],
        "plan": plan,
        "plan2": plan2,
        "lab": _measured(rng, lab),
        "lab2": _measured(rng, lab2),
    }


def _two(rng: random.Random, values: tuple) -> tuple:
    """Two different members of a tuple of at least two."""
    first = int(rng.random() * len(values))
    second = int(rng.random() * (len(values) - 1))
    return values[first], values[second + (second >= first)]


def _measured(rng: random.Random, lab: Lab) -> Value:
    amount = lab.low + (lab.high - lab.low) * rng.random()
    return Value(lab.name, f" {amount:.{lab.decimals}f}{lab.unit}", entity="test")


def _vital_signs(rng: random.Random, patient: Patient, group: Group) -> dict[str, Value]:
    """Pulse and breaths per minute, temperature in °C, saturation in %, and a pressure that often is the record's."""
    pressure = patient.fields["blood_pressure"]
    if rng.random() >= 0.6:
        systolic, diastolic = pressure.split("/")
        shift = rng.randint(-14, 14)
        pressure = f"{int(systolic) + shift}/{int(diastolic) + shift // 2}"
    uniform = rng.random
    temperature = 37.4 + 1.7 * uniform() if group.febrile and uniform() < 0.6 else 36.3 + 0.9 * uniform()
    saturation = 87 + int(8 * uniform()) if group.breathless else 94 + int(6 * uniform())
    oxygen = "room air" if saturation > 92 else ("2 liters of oxygen", "4 liters of oxygen")[int(2 * uniform())]
    return {
        "bp": _recorded(patient, "blood_pressure", pressure, None),
        "hr": Value(str(62 + int(44 * uniform()))),
        "rr": Value(str(13 + int((13 if group.breathless else 7) * uniform()))),
        "temp": Value(f"{temperature:.1f}"),
        "spo2": Value(str(saturation)),
        "oxygen": Value(oxygen),
    }


def _small_words(rng: random.Random, patient: Patient, day: date) -> dict[str, Value]:
    age, uniform = patient.age_on(day), rng.random
    article = "an" if age in (18, *range(80, 90)) else "a"
    pain = 3 + int(6 * uniform())
    nouns = ("man", "gentleman", "man") if patient.sex == "M" else ("woman", "lady", "woman")
    numbers = {
        "age": age,
        "years": 2 + int(min(18, age - 17) * uniform()),
        "day": 2 + int(7 * uniform()),
        "days": 2 + int(8 * uniform()),
        "weeks": 2 + int(10 * uniform()),
        "hours": 2 + int(6 * uniform()),
        "metres": 20 * (1 + int(15 * uniform())),
        "urine": 50 * (6 + int(30 * uniform())),
        "pain": pain,
        "pain2": int(pain * uniform()),
        "percent": 25 * (1 + int(4 * uniform())),
    }
    slots = {name: Value(str(number)) for name, number in numbers.items()}
    slots["a_age"] = Value(f"{article} {age}")
    slots["sexnoun"] = Value(nouns[int(3 * uniform())])
    for name, words in _FREE_WORDS.items():
        slots[name] = Value(words[int(len(words) * uniform())])
    return slots
