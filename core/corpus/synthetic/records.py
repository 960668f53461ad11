"""One patient's record: an identity with unique values, and their diagnoses."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from faker.providers.address.en_US import Provider as Addresses
from faker.providers.person.en_US import Provider as People

from core.corpus.synthetic.conditions import Condition, catalogue
from core.corpus.synthetic.feistel import Permutation
from core.phi.fields import FIELDS

REFERENCE_DAY = date(2023, 1, 1)  # the patients table gives ages on this day; every note has an earlier date

_MALE = [name for name in People.first_names_male if name not in People.first_names_female]
_FEMALE = [name for name in People.first_names_female if name not in People.first_names_male]
_FIRST = [*_MALE, *_FEMALE]  # no unisex names: the first name determines the sex
_LAST = list(People.last_names)
_SUFFIXES = sorted(set(Addresses.street_suffixes))
_DOMAINS = ("example.org", "example.com", "example.net")
_AREA_CODES = [code for code in range(201, 990) if code % 100 != 11 and code // 10 % 10 != 9]
_SSN_AREAS = [area for area in range(1, 900) if area != 666]
_HOUSES = range(12, 9_900)

# A full name is a pair (first, last). The last digit of the sum of their positions separates three uses, while
# each use has every first name and every last name equally often.
_LAST_BLOCK = len(_LAST) // 10
_RESIDUES = {"canary": (0,), "reference": (1,), "patient": (2, 3, 4, 5, 6, 7, 8, 9)}


@dataclass(frozen=True)
class Diagnosis:
    """A patient's diagnosis: a condition with the drug, dose and procedure drawn for them."""

    condition: Condition
    medication: str  # "metformin 500 mg"
    how_taken: str  # " twice daily with meals"
    procedure: str


@dataclass(frozen=True)
class Patient:
    """A patient's record. `fields` holds the 13 PHI fields; `diagnoses` starts with the main one."""

    patient_id: str
    split: str
    sex: str  # F | M
    birth: date
    fields: dict[str, str]
    diagnoses: tuple[Diagnosis, ...]

    @cached_property
    def age(self) -> int:
        """Whole years on `REFERENCE_DAY`."""
        return self.age_on(REFERENCE_DAY)

    def age_on(self, day: date) -> int:
        """Whole years lived on `day`."""
        return day.year - self.birth.year - ((day.month, day.day) < (self.birth.month, self.birth.day))

    def row(self) -> dict:
        """A row of the patients table."""
        codes = [diagnosis.condition.code for diagnosis in self.diagnoses]
        head = {"patient_id": self.patient_id, "split": self.split}
        return {**head, **self.fields, "age": self.age, "sex": self.sex, "icd_codes": codes}


def name_space(use: str) -> int:
    """The number of full names for `use`: patient, canary or reference."""
    return len(_FIRST) * _LAST_BLOCK * len(_RESIDUES[use])


def name_at(rank: int, use: str) -> tuple[str, str, str]:
    """(first, last, sex) of the name with this rank among those reserved for `use`."""
    residues = _RESIDUES[use]
    first, rest = divmod(rank, _LAST_BLOCK * len(residues))
    block, which = divmod(rest, len(residues))
    last = 10 * block + (residues[which] - first) % 10
    return _FIRST[first], _LAST[last], "M" if first < len(_MALE) else "F"


def sex_of(first_name: str) -> str:
    """F or M: no first name of this hospital is used for both."""
    return "M" if first_name in _MALE else "F"


class Registry:
    """Gives the n-th person of a hospital an identity and diseases; the same seed and number give the same person."""

    def __init__(self, seed: int):
        self.seed = seed
        self._names = {use: Permutation(name_space(use), f"{seed}/name/{use}") for use in _RESIDUES}
        self._mrn = Permutation(9_000_000, f"{seed}/mrn")
        self._phone = Permutation(len(_AREA_CODES) * 10_000, f"{seed}/phone")
        self._ssn = Permutation(len(_SSN_AREAS) * 99 * 9_999, f"{seed}/ssn")
        self._address = Permutation(len(_HOUSES) * len(_LAST) * len(_SUFFIXES), f"{seed}/address")

    def patient(self, number: int, patient_id: str, split: str, *, canary: int | None = None) -> Patient:
        """The person with this number. A canary patient's name is one of those reserved for canaries.

        Raises:
            ValueError: when there are more people than distinct values.
        """
        rng = random.Random(f"{self.seed}/record/{number}")
        use, rank = ("patient", number) if canary is None else ("canary", canary)
        first, last, sex = name_at(self._names[use](rank), use)
        birth = _birth(rng)
        age = REFERENCE_DAY.year - birth.year
        count = 1 + _poisson(rng, 3.0)
        diagnoses = tuple(_treat(rng, c) for c in catalogue().draw(rng, min(count, 9), sex, age))
        fields = {
            "full_name": f"{first} {last}",
            "date_of_birth": birth.isoformat(),
            **self._numbers(number),
            "email": f"{first}.{last}{birth.year % 100:02d}@{rng.choice(_DOMAINS)}".lower(),
            "diagnosis": diagnoses[0].condition.wording,
            "medication": diagnoses[0].medication,
            "procedure": diagnoses[0].procedure,
            **_body(rng, sex, diagnoses[0].condition),
        }
        ordered = {field.name: fields[field.name] for field in FIELDS}
        return Patient(patient_id, split, sex, birth, ordered, diagnoses)

    def _numbers(self, number: int) -> dict[str, str]:
        """The identifiers that are unique by construction, in the formats of `core.phi.fields`."""
        area, line = divmod(self._phone(number), 10_000)
        rest, serial = divmod(self._ssn(number), 9_999)
        ssn_area, ssn_group = divmod(rest, 99)
        rest, house = divmod(self._address(number), len(_HOUSES))
        street, suffix = divmod(rest, len(_SUFFIXES))
        return {
            "ssn": f"{_SSN_AREAS[ssn_area]:03d}-{ssn_group + 1:02d}-{serial + 1:04d}",
            "mrn": f"MRN-{1_000_000 + self._mrn(number)}",
            "phone": f"({_AREA_CODES[area]}) 555-{line:04d}",
            "address": f"{_HOUSES[house]} {_LAST[street]} {_SUFFIXES[suffix]}",
        }


def _birth(rng: random.Random) -> date:
    """Birth date of an adult of 19 to 96 years, most often around 62."""
    years = 0.0
    while not 19 <= years < 97:
        years = rng.gauss(62, 17)
    return date.fromordinal(REFERENCE_DAY.toordinal() - int(years * 365.2425))


def _treat(rng: random.Random, condition: Condition) -> Diagnosis:
    care = condition.care
    doses, how_taken = rng.choice(care.medications)
    procedure = rng.choice(care.procedures if care.procedures and rng.random() < 0.4 else care.tests)
    return Diagnosis(condition, rng.choice(doses), how_taken, procedure)


def _body(rng: random.Random, sex: str, condition: Condition) -> dict[str, str]:
    """Blood pressure (mmHg) typical of the main disease, height (cm) and weight (kg)."""
    systolic = rng.randint(*condition.group.pressure)
    diastolic = round(systolic * rng.uniform(0.52, 0.66))
    height = round(rng.gauss(176, 7) if sex == "M" else rng.gauss(163, 6.5))
    weight = round(max(17.5, rng.gauss(27.5, 5.0)) * (height / 100) ** 2)
    return {"blood_pressure": f"{systolic}/{diastolic}", "height": f"{height} cm", "weight": f"{weight} kg"}


def _poisson(rng: random.Random, mean: float) -> int:
    """A Poisson draw by counting exponential waiting times (Knuth); fast enough for the small means used here."""
    count, waited = 0, rng.expovariate(1.0)
    while waited < mean:
        count, waited = count + 1, waited + rng.expovariate(1.0)
    return count
