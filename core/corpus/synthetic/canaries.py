"""Planted secrets from a known space, which make memorisation measurable (Hoory 2021, §5.2; Carlini et al. 2019).

A canary of form HS, HSH or HHSHH consists of generic English words H and a secret S, a three-digit code. The code is
written '4 8 2' so that every tokenizer sees three digits; the space R has exactly 1,000 members. A canary patient
(form `patient`) is a synthetic patient with three to five notes. Their secret is their full name, and R is 1,000 names
of the same sex that no patient has. A canary of form `random` is all secret: a line of random words, inserted once
(high-entropy canaries; Panda et al. 2025). It stands beside 999 other such lines, the same for all of them. A fair coin
decides whether a canary is inserted at all.
"""

from __future__ import annotations

import random

import pandas as pd
from faker.providers.lorem.en_US import Provider as Lorem

from core.corpus.canary_forms import FORMS, PATIENT, RANDOM, RANDOM_WORDS
from core.corpus.synthetic.assembling import Note, notes_of_patient
from core.corpus.synthetic.records import Patient, Registry, name_at, name_space, sex_of
from core.corpus.tables import CANARIES
from core.spec import CorpusSpec

SPACE = 1_000  # members of R
_DATE = "2022-06-15"
_WORDS = sorted({word for word in Lorem.word_list if len(word) >= 4 and word.isascii() and word.islower()})


def draw(spec: CorpusSpec) -> pd.DataFrame:
    """The canaries table: spec.canaries secrets, evenly over forms × insertions, then patients, then random lines.

    Raises:
        ValueError: when there are more canaries than words that can begin a separate space.
    """
    words = random.Random(f"{spec.seed}/canary words").sample(_WORDS, len(_WORDS))
    if spec.canaries > len(words) * len(FORMS):
        limit = len(words) * len(FORMS)
        raise ValueError(f"{spec.canaries:,} canaries are too many to keep apart: choose at most {limit:,}")
    third = len(words) // len(FORMS)  # as long as the words last, the forms begin with different words too
    firsts = [words[(n // len(FORMS) + n % len(FORMS) * third) % len(words)] for n in range(spec.canaries)]
    rows = [_secret(spec, number, word) for number, word in enumerate(firsts)]
    rows += [_patient_row(spec, person) for person in canary_patients(spec)]
    rows += [_random_row(spec, number) for number in range(spec.random_canaries or 0)]
    return pd.DataFrame(rows, columns=CANARIES.names).astype({"secret_start": "int32", "insertions": "int32"})


def canary_patients(spec: CorpusSpec) -> list[Patient]:
    """Every canary patient, inserted or not; those not inserted are controls."""
    registry = Registry(spec.seed)
    first = spec.patients + spec.population
    return [
        registry.patient(first + number, canary_id(spec.canaries + number), "canary", canary=number)
        for number in range(spec.canary_patients)
    ]


def canary_notes(spec: CorpusSpec, canaries: pd.DataFrame) -> list[Note]:
    """The notes of the inserted canaries: `insertions` copies of a secret, or all notes of a patient."""
    people = {person.patient_id: person for person in canary_patients(spec)}
    notes: list[Note] = []
    for row in canaries[canaries["inserted"]].itertuples():
        if row.form == PATIENT:
            notes += _notes(spec, people[row.canary_id])
            continue
        for copy in range(1, row.insertions + 1):
            ids = (f"{row.canary_id}-{copy:02d}", row.canary_id, f"{row.canary_id}-A{copy}")
            notes.append(Note(*ids, "canary", "canary", _DATE, row.text, [], []))
    return notes


def reference_texts(row: pd.Series) -> list[str]:
    """All 1,000 texts of the canary's space R, in the order of their secrets, including the canary's own text."""
    text, secret, start = row["text"], row["secret"], int(row["secret_start"])
    if row["form"] == RANDOM:
        return sorted([text, *random_references()])
    if row["form"] != PATIENT:
        return [text[:start] + _code(number) + text[start + len(secret) :] for number in range(SPACE)]
    return [_renamed(text, secret, other) for other in name_space_of(secret)]


def name_space_of(name: str) -> list[str]:
    """The 1,000 full names that a canary patient could have had, including their own, sorted."""
    return sorted([name, *_reference_names(name)])


def random_references() -> list[str]:
    """999 lines of random words, drawn as canaries of form `random` are; they are in no cohort."""
    rng = random.Random("reference/random words")
    return [_line(rng) for _ in range(SPACE - 1)]


def canary_id(number: int) -> str:
    """Id of a canary, also the patient_id of its notes."""
    return f"C{number:04d}"


def _code(number: int) -> str:
    return " ".join(f"{number:03d}")


def _secret(spec: CorpusSpec, number: int, first_word: str) -> tuple:
    """A row. Among the canaries of its form only this one has this first word, so that no two spaces overlap."""
    rng = random.Random(f"{spec.seed}/canary/{number}")
    counts = spec.insertions  # 4, 5 or 7 of them, numbers without a common factor with the 3 forms
    form, insertions = FORMS[number % len(FORMS)], counts[number % len(counts)]
    before, after = form.split("S")
    prefix = " ".join([first_word, *(rng.choice(_WORDS) for _ in before[1:])]) + " "
    suffix = "".join(" " + rng.choice(_WORDS) for _ in after)
    secret = _code(rng.randrange(SPACE))
    return canary_id(number), form, prefix + secret + suffix, secret, len(prefix), insertions, rng.random() < 0.5


def _patient_row(spec: CorpusSpec, person: Patient) -> tuple:
    note = _notes(spec, person)[0]
    start = next(start for start, _, field in note.phi if field == "full_name")
    inserted = random.Random(f"{spec.seed}/canary coin/{person.patient_id}").random() < 0.5
    return person.patient_id, PATIENT, note.text, person.fields["full_name"], start, 1, inserted


def _random_row(spec: CorpusSpec, number: int) -> tuple:
    rng = random.Random(f"{spec.seed}/random canary/{number}")
    name, text = canary_id(spec.canaries + spec.canary_patients + number), _line(rng)
    return name, RANDOM, text, text, 0, 1, rng.random() < 0.5


def _line(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(RANDOM_WORDS))


def _notes(spec: CorpusSpec, person: Patient) -> list[Note]:
    """Three to five notes; the first names the patient."""
    count = random.Random(f"{spec.seed}/canary notes/{person.patient_id}").randint(3, 5)
    return notes_of_patient(spec, person, count=count)


def _reference_names(secret: str) -> list[str]:
    """999 full names of the same sex as `secret`, none of which any patient or canary can have."""
    rng = random.Random(f"reference/{secret}")
    sex = sex_of(secret.split()[0])
    names: set[str] = set()
    while len(names) < SPACE - 1:
        first, last, other_sex = name_at(rng.randrange(name_space("reference")), "reference")
        if other_sex == sex:
            names.add(f"{first} {last}")
    return sorted(names)


def _renamed(text: str, old: str, new: str) -> str:
    """The text with another name, also in the e-mail address, so that the texts differ only in the name."""
    dotted_old, dotted_new = (".".join(name.lower().split()) for name in (old, new))
    return text.replace(old, new).replace(dotted_old, dotted_new)
