"""Build a patient's notes from their record: admissions, the types of note in each, and the paragraphs of a note."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from core.corpus.synthetic.records import REFERENCE_DAY, Patient
from core.corpus.synthetic.wording import note_values, patient_values, sections
from core.corpus.synthetic.writer import Paragraph, Span, SpanWriter, Value, join
from core.phi.fields import DIRECT
from core.spec import CorpusSpec

_FIRST_DAY = date(2019, 1, 1).toordinal()
_LAST_DAY = REFERENCE_DAY.toordinal() - 90  # so that the longest admission ends before the day ages refer to
_DIRECT = frozenset(DIRECT)

# Paragraphs of each type of note: (section, probability that it is written). A section may come twice.
_LAYOUT: dict[str, tuple[tuple[tuple[str, float], ...], ...]] = {
    "physician": (
        (("opening", 1.0), ("history", 0.5)),
        (("vitals", 0.85), ("exam", 0.8), ("labs", 0.75)),
        (("medication", 1.0), ("plan", 1.0)),
    ),
    "nursing": ((("opening", 1.0), ("vitals", 0.9)), (("care", 1.0), ("care", 0.5), ("plan", 0.8))),
    "discharge": (
        (("opening", 1.0),),
        (("course", 1.0), ("course", 0.9), ("condition", 0.9)),
        (("medication", 1.0), ("plan", 1.0)),
    ),
    "letter": ((("opening", 1.0), ("body", 1.0), ("body", 0.6)), (("treatment", 1.0), ("plan", 0.9), ("closing", 0.8))),
}
_CONTACT_RATE = {"physician": 0.4, "nursing": 0.3, "discharge": 0.5, "letter": 0.4}


@dataclass(frozen=True, slots=True)
class Note:
    """A row of the notes table."""

    note_id: str
    patient_id: str
    admission_id: str
    split: str
    note_type: str
    date: str
    text: str
    phi: list[Span]
    entities: list[Span]


def notes_of_patient(spec: CorpusSpec, patient: Patient, *, count: int | None = None) -> list[Note]:
    """Every note of a patient, oldest first. The same seed and patient give the same notes, whatever else is generated.

    Args:
        spec: the cohort.
        patient: the patient.
        count: the number of notes, the first of which then names the patient (for canary patients). If None it is drawn
            from 1 + Poisson(Gamma) with mean `spec.notes_per_patient`, so that some patients have many. The variant
            `template-only` ignores it: there is one note for each code.
    """
    rng = random.Random(f"{spec.seed}/notes/{patient.patient_id}")
    if spec.variant == "template-only":
        texts = _template_only(patient)
        plan = [("physician", 1, day) for day in _days(rng, len(patient.diagnoses))]
    else:
        plan = _admissions(rng, count or _note_count(rng, spec.notes_per_patient))
        texts = _texts(spec, rng, patient, plan, name_first=count is not None)
    notes = []
    for number, ((kind, admission, day), body) in enumerate(zip(plan, texts, strict=True), start=1):
        notes.append(
            Note(
                f"{patient.patient_id}-{number:02d}",
                patient.patient_id,
                f"{patient.patient_id}-A{admission}",
                patient.split,
                kind,
                day.isoformat(),
                body.text,
                body.phi,
                body.entities,
            )
        )
    return notes


def _note_count(rng: random.Random, mean: float) -> int:
    """1 + Poisson(Gamma(3, (mean − 1)/3))."""
    if mean <= 1:
        return 1
    expected = rng.gammavariate(3.0, (mean - 1) / 3)
    count, waited = 1, rng.expovariate(1.0)
    while waited < expected:
        count, waited = count + 1, waited + rng.expovariate(1.0)
    return count


def _admissions(rng: random.Random, total: int) -> list[tuple[str, int, date]]:
    """(note type, admission number, day) of `total` notes; an admission has one to six."""
    sizes: list[int] = []
    while sum(sizes) < total:
        sizes.append(min(rng.choice((1, 1, 2, 3, 4, 5, 6)), total - sum(sizes)))
    plan = []
    for admission, (size, day) in enumerate(zip(sizes, _days(rng, len(sizes)), strict=True), start=1):
        for place, kind in enumerate(_kinds(rng, size)):
            plan.append((kind, admission, date.fromordinal(day.toordinal() + place)))
    return sorted(plan, key=lambda note: note[2])  # overlapping stays are ordered by day


def _kinds(rng: random.Random, size: int) -> list[str]:
    """The note types of one admission: a visit, or a stay from admission note to discharge summary."""
    if size == 1:
        return [rng.choice(("letter", "letter", "physician"))]
    middle = [rng.choice(("nursing", "nursing", "physician")) for _ in range(size - 2)]
    return ["physician", *middle, rng.choice(("discharge", "discharge", "nursing"))]


def _days(rng: random.Random, count: int) -> list[date]:
    return [date.fromordinal(day) for day in sorted(rng.randint(_FIRST_DAY, _LAST_DAY) for _ in range(count))]


def _template_only(patient: Patient) -> Iterator[Paragraph]:
    """One sentence for each code: 'Mr./Mrs. First Last is a N yo patient with <condition>.'

    Source: the Template Only corpus of Lehman 2021, §5.1.
    """
    for diagnosis in patient.diagnoses:
        writer = SpanWriter()
        wording = diagnosis.condition.wording
        phi = "diagnosis" if wording == patient.fields["diagnosis"] else None
        writer.write(
            (
                "Mr. " if patient.sex == "M" else "Mrs. ",
                Value(patient.fields["full_name"], phi="full_name"),
                f" is a {patient.age} yo patient with ",
                Value(wording, phi=phi, entity="problem"),
                ".",
            ),
            {},
        )
        yield writer.paragraph()


def _texts(
    spec: CorpusSpec, rng: random.Random, patient: Patient, plan: list[tuple[str, int, date]], *, name_first: bool
) -> Iterator[Paragraph]:
    constant = patient_values(patient)
    naming = min(1.0, spec.naming_rate / max(1e-9, 1 - spec.generic_rate))  # generic notes name nobody
    before: list[Paragraph] = []
    for number, (kind, _, day) in enumerate(plan):
        generic, named = rng.random() < spec.generic_rate, rng.random() < naming
        if name_first and number == 0:
            generic, named = False, True
        if generic:
            paragraphs = [_generic(rng, (3, 4, 5) if spec.note_length == "full" else (1, 2))]
        else:
            slots, second = note_values(rng, patient, constant, day, named)
            body = (
                _body(rng, kind, slots, second) if spec.note_length == "full" else _brief_body(rng, kind, slots, second)
            )
            if before and rng.random() < spec.copy_forward:
                body[int(rng.random() * len(body))] = before[int(rng.random() * len(before))]
            before = [paragraph for paragraph in body if not _names(paragraph)]
            paragraphs = [*(_header(rng, kind, slots) if named else ()), *body]
        if spec.variant == "name-insertion":
            paragraphs = [_line(constant["name"]), *paragraphs]
        yield join(paragraphs)


def _names(paragraph: Paragraph) -> bool:
    return any(name in _DIRECT for _, _, name in paragraph.phi)


def _line(value: Value) -> Paragraph:
    writer = SpanWriter()
    writer.write((value,), {})
    return writer.paragraph()


def _header(rng: random.Random, kind: str, slots: dict[str, Value]) -> Iterator[Paragraph]:
    """The lines that name the patient: always a header, sometimes contact details."""
    for name, rate in (("header", 1.0), ("contact", _CONTACT_RATE[kind])):
        if rate == 1.0 or rng.random() < rate:
            phrases = sections(name)[kind].phrases
            writer = SpanWriter()
            writer.write(phrases[int(rng.random() * len(phrases))], slots)
            yield writer.paragraph()


def _body(rng: random.Random, kind: str, slots: dict[str, Value], second: bool) -> list[Paragraph]:
    """The clinical paragraphs; `second` allows phrases about a second disease."""
    paragraphs = []
    of_kind = sections(kind)
    for layout in _LAYOUT[kind]:
        writer = SpanWriter()
        used = None
        for name, rate in layout:
            if rate < 1.0 and rng.random() >= rate:
                continue
            phrases = of_kind[name].phrases if second else of_kind[name].alone
            phrase = phrases[int(rng.random() * len(phrases))]
            if phrase is used:
                continue
            used = phrase
            writer.space()
            writer.write(phrase, slots)
        paragraphs.append(writer.paragraph())
    return paragraphs


def _brief_body(rng: random.Random, kind: str, slots: dict[str, Value], second: bool) -> list[Paragraph]:
    """One paragraph of two sentences: the opening, and one other section of this note type."""
    opening, *others = (name for layout in _LAYOUT[kind] for name, _ in layout)
    writer = SpanWriter()
    for name in (opening, others[int(rng.random() * len(others))]):
        section = sections(kind)[name]
        phrases = section.phrases if second else section.alone
        writer.space()
        writer.write(phrases[int(rng.random() * len(phrases))], slots)
    return [writer.paragraph()]


def _generic(rng: random.Random, lengths: Sequence[int]) -> Paragraph:
    """A note about the ward and not about a patient."""
    sentences = rng.sample(sections("generic")["sentences"].phrases, rng.choice(lengths))
    writer = SpanWriter()
    for sentence in sentences:
        writer.space()
        writer.write(sentence, {})
    return writer.paragraph()
