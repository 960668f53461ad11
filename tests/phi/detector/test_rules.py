"""What each recogniser of the detector finds, and what it leaves, on lines made up for this test."""

from __future__ import annotations

import re
import time

import pytest

from core.phi.detector.addresses import addresses
from core.phi.detector.contacts import contacts
from core.phi.detector.moments import moments
from core.phi.detector.numbers import numbers
from core.phi.detector.people import again, people
from core.phi.detector.places import places

_WORDS = [f"{one}{two}ab" for one in "aeiouybcdf" for two in "abcdefghij"]


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
    last = text.index("\n> Thanks")
    assert all(at in covered for at in range(last) if text[at].isalnum()) and not covered & set(range(last, len(text)))
    assert {("Ada Wren", "full_name"), ("2224 Trenery gate 232", "address")} <= found(addresses, text)


@pytest.mark.parametrize("text", ["Box 5 holds the key.", "Give 20 Units daily.", "Room 12, bed 3", "T 38.2 HR 92"])
def test_boxes_rooms_and_doses_are_no_addresses(text):
    assert found(addresses, text) == set()


def test_a_long_list_of_names_is_read_once():
    text = ", ".join(["Mary Smith"] * 300)
    first = [(start, start + 10, "full_name") for start in range(0, len(text), 12)]
    assert len(list(again(text, first))) < 4 * len(first), "it was read again from each of its names"


@pytest.mark.parametrize(
    "text",
    [
        "020 7946 0958",
        "07700 900123",
        "(0131) 496 0018",
        "030/1234567",
        "06 12 34 56 78",
        "06.12.34.56.78",
        "0612345678",
        "0043 1 234567",
        "(21) 98765-4321",
        "579 888 3058",
        "5798883058",
        "001-579-888-3058x12",
        "1800 123 456",
    ],
)
def test_telephone_numbers_of_several_countries_need_no_word_before_them(text):
    assert (text, "phone") in found(contacts, f"Ask at {text} for it")


@pytest.mark.parametrize(
    ("text", "number"), [("They answer at 78 651 450", "78 651 450"), ("655 437 108 office", "655 437 108")]
)
def test_a_word_beside_it_makes_a_number_a_telephone_number(text, number):
    assert (number, "phone") in found(contacts, text)


@pytest.mark.parametrize(
    "text",
    [
        "BP 120 80, HR 72, weights 120 130 140",
        "0.123 456 and 04-05-2020",
        "Na 140, K 4.2, glucose 105",
        "B12 5MG twice, the 1ST 2ND 3RD",
        "1234567890123456789",
        "150-1500 mg in 12345 patients",
    ],
)
def test_readings_and_doses_are_no_contacts(text):
    assert found(contacts, text) == set()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("zip code: 60601", "60601"),
        ("mail to 60601-1234 please", "60601-1234"),
        ("in SW1A 1AA near", "SW1A 1AA"),
        ("in M5V 3L9 near", "M5V 3L9"),
        ("he lives in 60601 now", "60601"),
        ("Chicago 60601", "Chicago 60601"),
        ("10115 Berlin", "10115 Berlin"),
    ],
)
def test_postal_codes(text, value):
    assert (value, "address") in found(contacts, text)


@pytest.mark.parametrize(
    "date",
    [
        "Friday, March 22",
        "Thursday 14 March 2019",
        "Tue, 3 Dec 2019 10:00",
        "1957-03-22T10:15",
        "22 Mar 57",
        "Mar-57",
        "January the 3rd",
        "2019-14-03",
    ],
)
def test_dates_with_weekdays_times_and_short_years_are_whole(date):
    assert (date, "date") in found(moments, f"Seen {date} again")


@pytest.mark.parametrize(
    ("text", "months"),
    [
        ("seen in March and last October", {"March", "October"}),
        ("it may march on", set()),
        ("May I ask; March of Dimes", set()),
    ],
)
def test_a_month_alone_needs_a_word_before_it(text, months):
    assert {value for value, _ in found(moments, text)} == months


def test_last_names_in_a_row_are_one_place():
    assert ("Monjeau, Graves and Reed", "full_name") in found(people, "It was Monjeau, Graves and Reed who came")
    assert ("White, Willis & Hoffman", "full_name") in found(people, "sued by White, Willis & Hoffman")
    for text in ("Kling, Kerlix and Coban", "Brown and White spots", "Paris and London", "Graves and Crohn disease"):
        assert found(people, text) == set(), text


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("her daughter Xylia came", "Xylia"),
        ("my name is maria keller and", "maria keller"),
        ("everyone calls me Petra", "Petra"),
    ],
)
def test_names_after_a_relation_or_an_introduction(text, name):
    assert (name, "full_name") in found(people, text)


def test_instruments_that_are_called_after_people_are_no_names():
    for text in ("a Robinson catheter", "Joseph scissors", "the Ahmed valve", "two Kocher clamps", "a Johnson holder"):
        assert found(people, text) == set(), text


@pytest.mark.parametrize(
    ("text", "value", "field"),
    [
        ("We moved here from ESPOO last", "ESPOO", "place"),
        ("I'm in ΠΑΦΟΣ, at work", "ΠΑΦΟΣ", "place"),
        ("She works for Quillworth as a cook", "Quillworth", "organisation"),
        ("a job of Loveland Technologies there", "Loveland Technologies", "organisation"),
    ],
)
def test_towns_and_employers(text, value, field):
    assert (value, field) in found(places, text)


def test_an_address_grows_from_its_flat_and_its_headings_belong_to_it():
    text = "> Maria Keller\n> Irecycle\n>\n> Serenade Op 420 Rapids\n> Apt. 576\n> Voormezele\n> Belgium 92060\nand so"
    covered = {at for start, end, _ in addresses(text) for at in range(start, end)}
    assert all((at in covered) == (at < text.index("and so")) for at in range(len(text)) if text[at].isalnum())
    assert {("Maria Keller", "full_name"), ("Irecycle", "organisation")} <= found(addresses, text)
    assert found(addresses, "Form: Box 3. Telephone 0040 448 2866. Box 8, known") == set()


def test_a_whole_name_is_found_again_with_its_initial():
    text = "Mijail C Adomo wrote. Yours, Mijail C Adomo"
    more = {(text[start:end], field) for start, end, field in again(text, [(0, 14, "full_name")])}
    assert ("Mijail C Adomo", "full_name") in more


@pytest.mark.parametrize(
    ("line", "covered"),
    [
        ("12 AB", "12 AB"),  # two words that touch
        ("12 A", None),
        ("12 A.B.C,", "12 A.B.C"),
        ("12 A1 Ab " + "a" * 40, None),  # no word is that long
        ("12 " + "A" * 186, "12 " + "A" * 186),  # six words of 31 letters at most
        ("see 12 Quillworth Lane, ", "12 Quillworth Lane"),
    ],
)
def test_a_street_line_has_two_to_six_words(line, covered):
    text = f"{line}\nTown 12345"
    assert [text[start:end] for start, end, _ in addresses(text) if end <= len(line)][:1] == [covered] * bool(covered)


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        ("PSC 1 APO AE 12345", "PSC 1 APO AE 12345"),
        ("USS  Quill, \nAPO AE 12345", "USS  Quill, \nAPO AE 12345"),
        ("USS Quill APO AE 12345 DPO AA 54321", "USS Quill APO AE 12345 DPO AA 54321"),
        ("USSAPO AE 12345", None),
    ],
)
def test_a_military_address_reaches_to_its_code(text, covered):
    assert [text[start:end] for start, end, _ in addresses(text)][:1] == [covered] * bool(covered)


def test_a_city_before_its_code_is_no_part_of_a_longer_word():
    text = "in A.Paris 75001, A.Paris, or Paris 75001"
    assert [text[start:end] for start, end, field in contacts(text) if field == "address"] == ["Paris 75001"]


@pytest.mark.parametrize(
    ("before", "part", "after", "counts"),
    [
        ("", "A.", "", (1_000, 4_000)),
        ("12 ", "A", "!", (12, 48)),  # one word in capitals took 10 seconds
        ("PSC 1 ", " ", "", (1_000, 4_000)),
    ],
)
def test_the_time_of_the_rules_grows_with_the_length(before, part, after, counts):
    def seconds(count: int) -> float:
        text, taken = f"{before}{part * count}{after}", []
        for _ in range(3):
            started = time.process_time()
            list(addresses(text)) + list(contacts(text))
            taken.append(time.process_time() - started)
        return min(taken) + 1e-3  # below that the clock decides

    assert seconds(counts[1]) < 10 * seconds(counts[0])


def test_names_are_found_again_in_one_pass_however_many_there_are() -> None:
    def seconds(count: int) -> float:
        names = [f"{first}{last}" for first in map(chr, range(65, 91)) for last in _WORDS][:count]
        text = "".join(f"Mr. {name} Quill. " for name in names)
        places = [(match.start(), match.end(), "full_name") for match in re.finditer(r"\w+ Quill", text)]
        taken = []
        for _ in range(3):
            started = time.process_time()
            list(again(text, places))
            taken.append(time.process_time() - started)
        return min(taken)

    assert seconds(2_000) < 8 * seconds(500)


@pytest.mark.parametrize("blank", [" ", "\t", "> ", "\n "])
@pytest.mark.parametrize("line", ["12 Main Street", "Apt 4"])
def test_blanks_after_a_street_take_time_in_proportion_to_their_number(line: str, blank: str) -> None:
    """Four times as many take about four times as long; with a quadratic pattern they took sixteen times as long."""

    def seconds(count: int) -> float:
        taken = []
        for _ in range(3):
            started = time.process_time()
            list(addresses(f"{line}\n{blank * count}"))
            taken.append(time.process_time() - started)
        return min(taken) + 1e-3  # below that the clock decides

    assert seconds(16_000) < 10 * seconds(4_000)
