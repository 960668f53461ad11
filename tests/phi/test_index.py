from __future__ import annotations

import datetime
import random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.phi.index import PhiIndex, _collect
from core.phi.patterns import forms
from tests.phi.naive import naive_search


def found(text, index):
    return {
        (match.start, match.end, index.values[number].field, index.patient_ids[holder])
        for match in index.search_all(text)
        for number in match.values
        for holder in index.values[number].holders
    }


def written_forms(field: str, value: str) -> list[str]:
    """The same value in other writings, and near misses that must not count (the oracle decides which is which)."""
    digits = "".join(filter(str.isdigit, value))
    forms = [value, value.upper(), value.lower(), value.replace(" ", "  "), value.replace(" ", "\n"), value[:-1]]
    if field == "full_name":
        parts = value.split()
        first, last = parts[0], parts[-1]
        forms += [f"{last}, {' '.join(parts[:-1])}", f"{last},{first}", f"Mr. {value}", f"{first} {last}"]
        forms += [first, last, f"{first} {parts[1][0]}. {last}", f"{value}-Jones", f"{last} {first}"]
        forms += [value.replace("-", " "), value.replace("'", ""), f"{value}'s", f"Anna-{value}"]
    elif field == "date_of_birth":
        day = datetime.date.fromisoformat(value)
        usual = ("%m/%d/%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%y", "%Y")
        forms += [day.strftime(form) for form in usual]
        forms += [f"{day.month}/{day.day}/{day.year}"]
    elif field in ("ssn", "mrn", "phone"):
        forms += [digits, f"+1 {value}", f"1-{digits}", f"{digits}7", f"7{digits}", f"MRN: {digits}", f"mrn{digits}"]
        forms += [".".join(digits), " ".join(digits), f"{digits[:3]} {digits[3:6]} {digits[6:]}"]
        forms += [f"{digits[:3]}-{digits[3:]}", f"({digits[-10:-7]}) {digits[-7:-4]}-{digits[-4:]}"]
        forms += [f"{digits}x", f"{digits[:4]}/{digits[4:]}"]
    else:
        forms += [value.replace(" ", ", "), value.replace(",", ""), value.replace(".", "")]
        forms += [value.split()[0], f"({value})"]
    return forms


NOISE = [
    *("has", "Patient:", "MRN", "1991", "Israel", "Maria", "Keller", "12", "7", "x", "O", "😀", "</b>", "J."),
    *("1", "(", "@", "BP 142/88"),
]
BETWEEN = [" ", "  ", "\n", ", ", ". ", "-", "/", "", ": ", "'", "\t", " - "]


@st.composite
def texts(draw, patients):
    columns = [column for column in patients.columns if column not in ("patient_id", "split")]
    parts = []
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.booleans()):
            field = draw(st.sampled_from(columns))
            value = draw(st.sampled_from(patients[field].tolist()))
            parts.append(draw(st.sampled_from(written_forms(field, value))))
        else:
            parts.append(draw(st.sampled_from(NOISE)))
        parts.append(draw(st.sampled_from(BETWEEN)))
    return "".join(parts)


@pytest.mark.slow
@settings(max_examples=600)
@given(data=st.data())
def test_finds_what_the_naive_search_finds(data, patients, index):
    ascii_rows = patients[patients["patient_id"] != "P8"]
    text = data.draw(texts(ascii_rows))
    ours = {find for find in found(text, index) if find[3] != "P8"}
    assert ours == naive_search(text, ascii_rows)


NO_DIGITS = st.characters(codec="utf-8", exclude_categories=("Nd", "Nl", "No"))


@settings(max_examples=200)
@given(data=st.data(), before=st.text(NO_DIGITS, max_size=20), after=st.text(max_size=30))
def test_offsets_are_exact_among_any_characters(data, before, after, patients, index):
    """A value cut out by its offsets is the planted value, whatever characters stand around it."""
    field = data.draw(st.sampled_from(["full_name", "ssn", "email", "address", "phone", "diagnosis", "mrn"]))
    value = data.draw(st.sampled_from(patients[field].tolist()))
    text = f"{before} ; {value} ; {after}"
    places = {(match.start, match.end) for match in index.search_all(text)}
    assert (len(before) + 3, len(before) + 3 + len(value)) in places
    assert all(0 <= start < end <= len(text) for start, end in places)


@pytest.mark.parametrize("hidden", ["\u200b", "\u200d", "\x00", "\x1b", "\u00ad", "\ufeff", "\u202e"])
def test_invisible_characters_hide_nothing(hidden, index):
    text = f"see 😀 Ma{hidden}ria Kel{hidden}ler, 514-22{hidden}-9078."
    cuts = {text[match.start : match.end] for match in index.search(text)}
    assert cuts == {f"Ma{hidden}ria Kel{hidden}ler", f"514-22{hidden}-9078"}


@pytest.mark.parametrize(
    "text",
    [
        "Jose de la Cruz",
        "JOSÉ DE LA CRUZ",
        "Jose\u0301 de la Cruz",
        "de la Cruz, José",
        "Ｊｏｓé de la Cruz",
        "José\u00a0de\u2003la Cruz",
    ],
)
def test_accents_width_and_spaces_are_folded(text, index):
    (match,) = index.search(text)
    assert (text[match.start : match.end], index.values[match.values[0]].field) == (text, "full_name")


def test_records_in_other_writings_are_understood():
    patients = pd.DataFrame(
        {
            "patient_id": ["A", "B"],
            "split": ["member", "member"],
            "full_name": ["Keller, Maria Jane", "Dr. Omar van der Berg Jr."],
            "date_of_birth": ["03/22/1957", "7 May 1960"],
            "address": ["1870 Harmon Isle, Springfield, IL 62704", "12 Main Street\nOgden, UT"],
            "mrn": ["4821", "0012345678"],
        }
    )
    patients.loc[2] = {"patient_id": "C", "split": "member", "full_name": "Dr. Israel"}  # one word names nobody
    index = PhiIndex.build(patients)
    for text, fields in {
        "Maria Jane Keller": {"full_name"},
        "Maria J. Keller": {"full_name"},
        "Maria Keller": {"full_name"},
        "Keller, Maria": {"full_name"},
        "Omar van der Berg": {"full_name"},
        "van der Berg, Omar": {"full_name"},
        "Omar Berg": set(),
        "Dr. Israel": set(),
        "1957-03-22": {"date_of_birth"},
        "05/07/1960": {"date_of_birth"},
        "07/05/1960": set(),
        "1870 harmon isle": {"address"},
        "12 MAIN STREET": {"address"},
        "4821": set(),  # four digits alone are nobody's record number
        "MRN: 4821": {"mrn"},
        "mrn 0012345678": {"mrn"},
        "012345678": set(),
    }.items():
        assert {index.values[number].field for match in index.search(text) for number in match.values} == fields, text


@pytest.mark.parametrize(
    ("field", "value", "also"),
    [
        ("full_name", "J.R. Smith", ["J. R. Smith", "Smith, J.R.", "SMITH, J. R."]),
        ("full_name", "J.-P. Dupont", ["J.-P.  Dupont", "Dupont, J.-P."]),
        ("full_name", "Anna St. Clair", ["Anna St Clair", "St. Clair, Anna"]),
        ("full_name", "Wm. Penn", ["Wm Penn", "Penn, Wm."]),
        ("full_name", "Maria (Mia) Keller", ["Maria Keller", "Keller, Maria", "Maria Mia Keller"]),
        ("full_name", "Maria Keller (née Schmidt)", ["Maria Keller", "Keller, Maria"]),
        ("full_name", "Maria “Mia” Keller", ["Maria Keller"]),
        ("full_name", "García Márquez, Gabriel", ["Gabriel García Márquez"]),
        ("mrn", "M884213", ["m884213", "MRN M884213", "884213"]),
        ("mrn", "MRN1234", ["MRN 1234", "mrn: 1234"]),
        ("mrn", "12A4567", ["MRN 12A4567"]),
        ("mrn", "A1234567B", []),
        ("ssn", "RSSMRA85T10A562S", []),
        ("phone", "Fax: 617-555-0142", ["(617) 555-0142"]),
        ("phone", "617-555-0142 fax 617-555-0143", []),
        ("phone", "01 23 45 67 89", ["01.23.45.67.89"]),
        ("phone", "+44 (0)20 7946 0958", []),
        ("email", "Maria Keller <m.keller@example.org>", ["m.keller@example.org"]),
        ("address", "Apt 4B, 12 Main Street", ["12 Main Street"]),
        ("address", "2nd floor\n12 Main Street", ["12 Main Street"]),
    ],
)
def test_a_value_is_found_as_its_record_writes_it(field, value, also):
    index = PhiIndex.build(pd.DataFrame({"patient_id": ["A"], "split": ["member"], field: [value]}))
    for form in (value, *also):
        assert len(index.search(f"Seen today: {form}, who was well.")) == 1, form
    if field == "full_name":
        (match,) = index.search(f"Seen today: {value}, who was well.")
        assert match.end - match.start >= len(value.rstrip(").")), "nothing of the name is left outside"


def test_each_telephone_of_a_cell_is_found():
    index = PhiIndex.build(
        pd.DataFrame({"patient_id": ["A"], "split": ["member"], "phone": ["617-555-0142 / 1-617-555-0143"]})
    )
    assert len(index.search("617-555-0142 / 617-555-0143")) == 2
    assert len(index.search("(617) 555-0143")) == 1


@pytest.mark.parametrize("cell", ["617-555-0142 617-555-0143", "(617) 555-0142  +1 617 5550143"])
def test_telephones_with_only_blanks_between_are_several(cell):
    index = PhiIndex.build(pd.DataFrame({"patient_id": ["A"], "split": ["member"], "phone": [cell]}))
    assert len(index.search("617-555-0142")) == len(index.search("617-555-0143")) == 1
    assert len(index.search("617-555-0142 or 617-555-0143")) == 2


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("phone", "0123456789", "01 23 45 67 89"),
        ("address", "Apt 4B, 12 Main Street", "Lives in apt 4b."),
        ("address", "Unit 5", "Admitted to unit 5."),
        ("full_name", "Anna Clair", "Spoke to Anna. Clair was away."),
        ("full_name", "Anna St. Clair", "Spoke to Anna. St. Clair was away."),
        ("mrn", "M884213", "X884213 was ordered"),
        ("mrn", "12A4567", "12 a 4567"),
        ("mrn", "B12", "vitamin B12"),
    ],
)
def test_what_is_no_more_than_a_part_of_a_record_is_not_found(field, value, text):
    index = PhiIndex.build(pd.DataFrame({"patient_id": ["A"], "split": ["member"], field: [value]}))
    assert index.search(text) == []


def test_empty_values_and_empty_tables():
    row = {"patient_id": ["A"], "split": ["member"], "full_name": [None], "ssn": [float("nan")], "diagnosis": ["  "]}
    assert PhiIndex.build(pd.DataFrame(row)).search("None nan   Maria") == []
    empty = PhiIndex.build(pd.DataFrame({"patient_id": [], "split": []}))
    assert empty.search("Maria Keller") == []


def test_bad_tables_are_refused(patients):
    with pytest.raises(ValueError, match="lacks the column split"):
        PhiIndex.build(patients.drop(columns="split"))
    with pytest.raises(ValueError, match="has the patient P1 twice"):
        PhiIndex.build(pd.concat([patients, patients.head(1)]))


def test_who_was_trained_on(patients, index):
    assert [index.is_member(patient) for patient in patients["patient_id"]] == [1, 1, 0, 0, 0, 1, 1, 0]
    assert PhiIndex.build(patients).is_member("P8")
    assert index.split_of("P7") == "canary"


def test_a_large_hospital_is_searched_in_one_pass():
    """20,000 patients: every planted value is found whole, and nobody else's."""
    draw = random.Random(7)
    count = 20_000
    patients = pd.DataFrame(
        {
            "patient_id": [f"P{number}" for number in range(count)],
            "split": ["member" if number % 2 else "heldout" for number in range(count)],
            "full_name": [f"Given{number} Family{number % 977}" for number in range(count)],
            "ssn": [f"{number + 10**8:09d}" for number in range(count)],
            "email": [f"g{number}@example.org" for number in range(count)],
        }
    )
    index = PhiIndex.build(patients)
    chosen = draw.sample(range(count), 200)
    text = " . ".join(f"{patients['full_name'][n]} {patients['ssn'][n]} {patients['email'][n]}" for n in chosen)
    holders = [index.values[number].holders for match in index.search(text) for number in match.values]
    assert sorted(holders) == sorted((n,) for n in chosen for _ in range(3))


@pytest.mark.parametrize("seed", range(5))
def test_every_value_with_a_pattern_is_among_its_candidates_in_order(seed):
    """As a comparison of each value with each pattern finds; names differ in their middle names alone."""
    draw = random.Random(seed)
    names = list({f"{draw.choice('AB')}nna {chr(97 + n % 26)}{n} {draw.choice(('Berg', 'Dorn'))}" for n in range(200)})
    numbers = [f"{draw.randrange(10**6, 10**7)}" for _ in names]
    given = {"patient_id": [f"P{n}" for n in range(len(names))], "split": "member", "full_name": names, "mrn": numbers}
    values, patterns = _collect(pd.DataFrame(given), apart=False)
    found = [forms(value.field, value.stored)[1] for value in values]
    wanted = dict.fromkeys(form.pattern for one in found for form in one)
    assert list(patterns) == list(wanted)
    for pattern, candidates in patterns.items():
        matching = [(n, form.comma_before) for n, one in enumerate(found) for form in one if form.pattern == pattern]
        assert candidates == tuple(matching)
    assert max(map(len, patterns.values())) > 30, "many share one pattern"
