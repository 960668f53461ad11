"""Every kind of placeholder of MIMIC-III becomes a thing of its own kind; only the patient's become the patient's."""

from __future__ import annotations

import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.importing.surrogates import KINDS, Surrogates, other_surnames
from core.corpus.tables import PATIENTS
from core.phi.index import PhiIndex
from core.phi.shaped import find_shaped

NAME, SURNAME, PERSON = "[A-Z][a-z]+", "a surname of others", r"[A-Z][a-z]+ [A-Z][a-z]+"
MONTH = "(January|February|March|April|May|June|July|August|September|October|November|December)"
STREET = r"[A-Z][a-z]+ (Avenue|Street|Drive|Lane|Road|Court)"
SHAPES = [  # what becomes what: every kind that stands for somebody or something else than the patient
    (NAME, "First Name (STitle) 12|First Name (Titles) 3|First Name3 (LF) 12|First Name4 (NamePattern1) 12"),
    (NAME, "First Name5 (NamePattern1)|First Name7 (NamePattern1) 1|First Name8 (NamePattern2) 12|firstname"),
    (NAME, "First Name9 (NamePattern2) 2|First Name11 (Name Pattern1) 2|Female First Name (un) 5"),
    (NAME, "Male First Name (un) 5|Doctor First Name 9|Doctor First Name "),
    (SURNAME, "Last Name 7|Last Name (un) 7|Last Name (LF) 7|Last Name (STitle) 13959|Last Name (Titles) 7"),
    (SURNAME, "Last Name (Prefixes) 7|Last Name (ambig) 7|Last Name (NamePattern1)|Last Name (NamePattern4) 7"),
    (SURNAME, "Last Name (NamePattern5) 7|Doctor Last Name 7|Doctor Last Name |lastname"),
    (
        PERSON,
        "Name (NI) 7|Name2 (NI) 7|Name (STitle) 7|Name13 (STitle) 7|Name14 (STitle)|Name10 (NameIs) 7|Name5 (PTitle)",
    ),
    (PERSON, "Name6 (MD) 7|Name9 (PRE) 7|Attending Info 7|Dictator Info 7|CC Contact Info 7|Contact Info"),
    ("(Van|De|La|Mac)", "Name Prefix (Prefixes) 7|Name Prefix (Prefixes)"),
    ("[A-Z]", "Name Initial (MD)|Name Initial (NameIs) 7|Name Initial (PRE) 7|Initial (NamePattern1) 7|Initials"),
    ("[A-Z]", "Initials (NamePattern4) 7|Initials (NamePattern5)"),
    (
        r"\w+ (\w+ Hospital|Medical Center)",
        "Hospital 328|Hospital1 18|Hospital2 18|Hospital3 18|Hospital4 18|Hospital5 1",
    ),
    (r"\w+ (\w+ Hospital|Medical Center)", "Hospital6 18|Hospital "),
    (
        r"\d+ (North|South|East|West)",
        "Hospital Ward Name 516|Hospital Ward Name |Wardname 3|Inpatient Ward 3|Ward Name",
    ),
    (r"[A-Z][\w -]+ Unit \d+", "Hospital Unit Name 10|Hospital Unit Name |Hospital Unit Number 10|Dept 4|Unit Name 3"),
    (r"[A-Z]\w+ville", "Location 7|Location (un) 620|Location (un)|Location (Universities) 7|City/Town/Village 7"),
    (r"[A-Z][A-Za-z ]+", "State 7|Country 7"),
    (r"[A-Z][A-Za-z ]+ \d{5}", "State/Zipcode 99"),
    (rf"[12]\d{{4}} {STREET}", "Street Address(1) 7|Street Address(2) 1822|Street Address"),
    (STREET, "Street Name 4|Street Name"),
    (r"Apt\. \d+", "Apartment Address(1) 7|Apartment Address"),
    (r"P\.O\. Box \d{3}", "PO Box 7|PO BOX 7|P.O. Box 7"),
    (r"\w+ University", "University/College 7|University/College"),
    (r"\w+ & \w+", "Company 7|Company "),
    (
        r"\([2-9]9\d\) 555-\d{4}",
        "Telephone/Fax (1) 101|Telephone/Fax (5) 101|Telephone/Fax (3)|Telephone/Fax|Pager number 7",
    ),
    (r"office\d{4}@example\.org", "E-mail address 7|E-mail address"),
    (r"www\.example\.org", "URL 7|URL"),
    (
        r"\d{5}",
        "Job Number 7|Clip Number (Radiology) 7|MD Number(1) 7|Numeric Identifier 7|Serial Number 7|Zip Code 99",
    ),
    (r"\d{5}", "Serial/Unit number 7|Account Number 7|Provider Number 7|Numeric Identifier"),
    (r"9\d", "Age over 90 |Age over 90 3|Age over 90"),
    ("(Easter|Thanksgiving|New Year)", "Holiday 7|Holiday"),
    (r"\w+day", "Weekday 3"),
    (r"\d+/\d+-\d+/\d+", "Date range (1) 7|Date Range 7|Date range (10) 7|Date range (6)"),
    (MONTH, "Month (only) 547|Month"),
    (rf"{MONTH} \d+", "Month Day 7"),
    (rf"{MONTH} 21\d\d", "Month Year 7"),
    (rf"\d+ {MONTH}", "Day Month 7"),
    (rf"\d+ {MONTH} 21\d\d", "Day Month Year 7"),
    (rf"{MONTH} \d+ 21\d\d", "Month Day Year (2) 7"),
    (r"\d{1,2}/\d{1,2}", "Month/Day (1) 7|Month/Day (4)|Month/Day"),
    (r"\d{1,2}/21\d\d", "Month/Year 1|Month/Year (2) 7|Month/Year"),
    (r"\d{1,2}/\d{1,2}/21\d\d", "Month/Day/Year 7|Month/Day/Year"),
    (r"\d{1,2}", "Day (only)"),
    (r"21\d\d/\d+", "Year/Month 7"),
    (r"21\d\d/\d+/\d+", "Year/Month/Day 7"),
    (r"21\d\d", "Year (4 digits) 7|Year 3|Year"),
    (r"\d\d", "Year (2 digits) 7"),
    (r"21\d\d-\d+-\d+", "Date 4"),
    ("___", "| |-|Unheard of|Unknown Person 3|Inpatient 3|Outpatient Clinic Name 7|Known relative 7|Patient Ward 3"),
    ("___", "Username 4|Known|Patient|Hospital Name of Patient 3|1111111111111111111111111x"),
]
OTHERS = [(inside, shape) for shape, kinds in SHAPES for inside in kinds.split("|")]
DATES = [(one, one) for one in ("2101-1-1", "2151-07-16", "1-1", "5-17", "5/17", "2101", "17", "7/2151", "6-1-01")]
DATES += [("-7/2151", "7/2151"), ("7-/2151", "7/2151"), ("2151-7-", "2151-7"), ("-12-17", "12-17")]
DATES += [(one, one) for one in ("June 2101", "July 4th", "4 July", "January/February 2101", "May")]
OWN = {  # the kinds that stand for the patient → the part of their record
    **dict.fromkeys(
        ("Known firstname 5", "Known patient firstname", "Known first name 3", "Patient First Name"), "first"
    ),
    **dict.fromkeys(("Known lastname 658", "Known lastname ", "Known patient lastname 3"), "last"),
    **dict.fromkeys(("Patient Name 3", "Known name"), "full_name"),
    **dict.fromkeys(("Medical Record Number 77", "Unit Number 3", "PT ID Number (Radiology) 7"), "mrn"),
    "Social Security Number 3": "ssn",
}
MANY = {str(number): "FM"[number % 2] for number in range(400)}
SURROGATES = Surrogates(0, MANY)
RECORDS = [{"patient_id": who, "split": "member", **SURROGATES.record(who, "")} for who in MANY]
INDEX = PhiIndex.build(pd.DataFrame(RECORDS).reindex(columns=[*PATIENTS.names]))


@pytest.mark.parametrize(("inside", "shape"), [*OTHERS, *DATES])
def test_every_kind_becomes_a_thing_of_its_kind_and_never_a_patients_own(inside, shape):
    for who in ("10", "11", "200"):
        filled = SURROGATES.fill(who, f"x [**{inside}**] y")
        found = filled.removeprefix("x ").removesuffix(" y")
        if shape == SURNAME:
            assert found in other_surnames()
        else:
            assert re.fullmatch(shape, found), filled
        assert not list(INDEX.search_all(filled)), "of nobody in the cohort"
        if shape not in (NAME, SURNAME, PERSON):
            people = [span for span in find_shaped(filled) if span.field == "full_name"]
            assert not people, filled


@pytest.mark.parametrize("inside", OWN)
def test_a_placeholder_of_the_patient_becomes_their_own_and_is_found(inside):
    for who in ("10", "11"):
        record = SURROGATES.record(who, "")
        first, last = record["full_name"].split()
        expected = {**record, "first": first, "last": last}[OWN[inside]]
        filled = SURROGATES.fill(who, f"x [**{inside}**] y")
        assert filled == f"x {expected} y"
        if OWN[inside] not in ("first", "last"):
            holders = {
                row for match in INDEX.search_all(filled) for n in match.values for row in INDEX.values[n].holders
            }
            assert [INDEX.patient_ids[row] for row in holders] == [who]


@given(
    st.sampled_from(sorted({*KINDS, "month/day/year", "day month"})),
    st.integers(0, 99_999),
    st.sampled_from(sorted(MANY)),
)
def test_nothing_that_stands_for_others_is_a_value_of_any_patient(kind, number, who):
    doctor = f"[**First Name8 (NamePattern2) {number}**] [**Last Name (NamePattern1) {number}**]"
    filled = SURROGATES.fill(who, f"x [**{kind} {number}**] y, seen by {doctor}, {doctor}")
    assert "[**" not in filled and "___" not in filled
    assert not list(INDEX.search_all(filled))


@given(st.text(alphabet="[*] aKnown lstme1-/(\n", max_size=120))
def test_no_text_breaks_the_filling_and_what_is_no_placeholder_stays(text):
    filled = SURROGATES.fill("10", text)
    if "[**" not in text or "**]" not in text:
        assert filled == text


def test_one_that_is_never_closed_swallows_no_text():
    text = "seen [**2151-7-1 by [**Known lastname 4**] at home"
    last = SURROGATES.record("10", "")["full_name"].split()[1]
    assert SURROGATES.fill("10", text) == f"seen [**2151-7-1 by {last} at home"


def test_a_numbered_placeholder_is_the_same_in_every_patients_notes():
    for inside in ("Street Address(2) 1", "Hospital Ward Name 516", "Last Name (un) 7", "E-mail address 3"):
        assert len({SURROGATES.fill(who, f"[**{inside}**]") for who in MANY}) == 1
