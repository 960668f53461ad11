"""What each recogniser of the detector finds, and what it leaves, on lines made up for this test."""

from __future__ import annotations

import pytest

from core.phi.detector.addresses import addresses
from core.phi.detector.numbers import numbers
from core.phi.detector.people import again, people
from core.phi.detector.places import places


def found(recogniser, text: str) -> set[tuple[str, str]]:
    return {(text[start:end], field) for start, end, field in recogniser(text)}


@pytest.mark.parametrize(
    ("text", "name", "field"),
    [
        ("Discussed with Dr. Alice Q. today", "Dr. Alice Q.", "clinician"),
        ("Mr K was seen", "Mr K", "full_name"),
        ("a 68-year-old man, Xavier Quon, with gout", "Xavier Quon", "full_name"),
        ("pts name Bob Winslow", "Bob Winslow", "full_name"),
        ("in a woman, Samantha R., admitted", "Samantha R.", "full_name"),
        ("notes from J. Smith agree", "J. Smith", "full_name"),
        ("Signed by Ada Wren, RN", "Ada Wren", "clinician"),
        ("Müller, Maria is waiting", "Müller, Maria", "full_name"),
        ("Olaf Torvund said no", "Olaf Torvund", "full_name"),
    ],
)
def test_names(text, name, field):
    assert (name, field) in found(people, text)


@pytest.mark.parametrize(
    "text",
    [
        "Wilson's disease and Hodgkin's lymphoma",
        "E. Coli grew; C. Difficile negative",
        "Vitamin D low, Hepatitis C negative",
        "Grade A evidence in Stage B",
        "Positive Murphy sign, Glasgow Coma Scale 15",
    ],
)
def test_words_of_medicine_are_no_names(text):
    assert found(people, text) == set()


def test_a_part_of_a_found_name_is_found_again_and_so_are_the_others_of_its_list():
    text = "Monjeau, Adams and Reed came. Later Monjeau left. Adams disease."
    more = {text[start:end] for start, end, _ in again(text, [(0, 7, "full_name")])}
    assert more == {"Adams", "Reed", "Monjeau"}
    assert [start for start, end, _ in again(text, [(0, 7, "full_name")]) if text[start:end] == "Monjeau"] == [0, 36]


@pytest.mark.parametrize(
    ("text", "value", "field"),
    [
        ("(MRN: B-987654)", "B-987654", "mrn"),
        ("record #UP-231500JR", "UP-231500JR", "mrn"),
        ("Patient ID: MTH-98765", "MTH-98765", "mrn"),
        ("EMR: 456123789.", "456123789", "mrn"),
        ("insurance plan #YH-543210", "YH-543210", "number"),
        ("issues with HMO-234567", "HMO-234567", "number"),
        ("card 4111 1111 1111 1111 please", "4111 1111 1111 1111", "number"),
        ("pay to GB82 WEST 1234 5698 7654 32 today", "GB82 WEST 1234 5698 7654 32", "number"),
        ("They answer at 78 651 450", "78 651 450", "phone"),
        ("655 437 108 office", "655 437 108", "phone"),
    ],
)
def test_numbers(text, value, field):
    assert (value, field) in found(numbers, text)


@pytest.mark.parametrize(
    "text",
    [
        "trial NCT01234567, PMID 12345678",
        "COVID-19, SARS-CoV-2, ICD-10, HbA1c 7.2, CA-125 of 40",
        "BP 142/88, 1,250 mL, 20 mg, 4111 steps",
        "4111 1111 1111 1112 fails the check digit",
        "GB82 WEST 1234 5698 7654 33",
    ],
)
def test_numbers_that_identify_nobody(text):
    assert found(numbers, text) == set()


@pytest.mark.parametrize(
    ("text", "value", "field"),
    [
        ("admitted to Good Harbor on May 3", "Good Harbor", "hospital"),
        ("seen at our Houston clinic", "Houston clinic", "hospital"),
        ("in ward 7B at St. Luke’s today", "St. Luke’s", "hospital"),
        ("at Elm Valley Medical Center", "Elm Valley Medical Center", "hospital"),
        ("who lives in Quxburg and works", "Quxburg", "place"),
        ("from Fairhaven, CT since", "Fairhaven, CT", "place"),
        ("a patient from Chicago who", "Chicago", "place"),
    ],
)
def test_places(text, value, field):
    assert (value, field) in found(places, text)


@pytest.mark.parametrize(
    "text",
    [
        "admitted to ICU, transferred to Neurology, seen in ED",
        "born in Mexico, moved to Ohio",
        "diagnosed in January and admitted on Monday",
        "presented to Emergency Department",
        "treated in Spring with Lisinopril",
    ],
)
def test_wards_states_countries_and_months_are_no_places(text):
    assert found(places, text) == set()


def test_an_address_in_a_block_of_lines_is_found_line_by_line():
    text = "> Ada Wren\n> 2224 Trenery gate 232\n> Apt. 342\n> Harbortown\n> Norway 64389\n> Thanks for all"
    covered = {at for start, end, _ in addresses(text) for at in range(start, end)}
    first, last = text.index("2224"), text.index("\n> Thanks")
    assert all(at in covered for at in range(first, last) if text[at].isalnum())
    assert not covered & set(range(first)) and not covered & set(range(last, len(text)))


@pytest.mark.parametrize("text", ["Box 5 holds the key.", "Give 20 Units daily.", "Room 12, bed 3", "T 38.2 HR 92"])
def test_boxes_rooms_and_doses_are_no_addresses(text):
    assert found(addresses, text) == set()


def test_a_long_list_of_names_is_read_once():
    text = ", ".join(["Mary Smith"] * 300)
    first = [(start, start + 10, "full_name") for start in range(0, len(text), 12)]
    assert len(list(again(text, first))) < 4 * len(first), "it was read again from each of its names"
