from __future__ import annotations

import time
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.phi.leaks import find_shaped

FORMS = ("%Y-%m-%d", "%m/%d/%Y", "%m/%d/%y", "%m-%d-%y", "%B %d, %Y", "%d %b %Y", "%d %B", "%b %d", "%B %Y", "%d-%b-%y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Patient: Ada Byron  MRN: 4410937  DOB: 1957-03-22",
            [("full_name", "Ada Byron"), ("mrn", "4410937"), ("date_of_birth", "1957-03-22")],
        ),
        (
            "Re: Ada B. Byron-King, date of birth March 2nd, 1960.",
            [("full_name", "Ada B. Byron-King"), ("date_of_birth", "March 2nd, 1960")],
        ),
        ("Mrs. Byron was seen with Mr O'Hara", [("full_name", "Byron"), ("full_name", "O'Hara")]),
        ("(415) 555-0142 or +1 415-555-0142", [("phone", "(415) 555-0142"), ("phone", "+1 415-555-0142")]),
        ("SSN 514-22-9078, ada@example.org. The next", [("ssn", "514-22-9078"), ("email", "ada@example.org")]),
        ("lives at 1870 Harmon Isle.", [("address", "1870 Harmon Isle")]),
        ("😀\u200b born 22 March 1957", [("date_of_birth", "22 March 1957")]),
        ("Israel, 1991, 142/88, 30 mg, version 1.2.3, page 12 of 30, the Keller sign, 2020-13-45, 4410937", []),
        ("", []),
    ],
)
def test_shapes(text, expected):
    spans = find_shaped(text)
    assert [(span.field, span.value) for span in spans] == expected
    assert all(text[span.start : span.end] == span.value and span.kind == "invented" for span in spans)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("seen 03/22/19, again March 3 and on 5/6", [("date", "03/22/19"), ("date", "March 3"), ("date", "5/6")]),
        ("born 4-7-52, since June 2018", [("date_of_birth", "4-7-52"), ("date", "June 2018")]),
        ("pager 88123, +44 20 7946 0958", [("phone", "88123"), ("phone", "+44 20 7946 0958")]),
        ("a 94-year-old, age: 101", [("age", "94"), ("age", "101")]),
        ("policy no. XJH4411922", [("number", "XJH4411922")]),
        ("from St. Brigid's Hospital to the Pain Clinic", [("hospital", "St. Brigid's Hospital")]),
        ("P.O. Box 1187, Bozeman, MT 59715", [("address", "P.O. Box 1187"), ("address", "Bozeman, MT 59715")]),
        ("https://example.org/a?b=7, 10.4.77.12", [("url", "https://example.org/a?b=7"), ("ip", "10.4.77.12")]),
        ("KELLER, MARIA; Dr. Adaeze Okonkwo", [("full_name", "KELLER, MARIA"), ("clinician", "Adaeze Okonkwo")]),
        ("Maria B. Keller came. Maria left.", [("full_name", "Maria B. Keller"), ("full_name", "Maria")]),
        ("Mr. José Ibáñez", [("full_name", "José Ibáñez")]),
        ("strength 5/5, pain 4/10, 67-year-old, 999.4.77.12, 31/31/99, version 1.2.3.4, May Follow up", []),
    ],
)
def test_more_shapes(text, expected):
    assert [(span.field, span.value) for span in find_shaped(text)] == expected


def test_without_lists_a_name_needs_a_cue():
    text = "Maria Keller and Mrs. Okonkwo"
    assert [span.value for span in find_shaped(text, listed_names=False)] == ["Okonkwo"]
    assert [span.value for span in find_shaped(text)] == ["Maria Keller", "Okonkwo"]


@given(st.text(st.sampled_from("Maria Keller 0123456789/-.:,@\n[]()xDOBMRN'é"), max_size=120))
def test_any_text_gives_ordered_spans_of_its_own_characters(text):
    spans = find_shaped(text)
    assert all(text[span.start : span.end] == span.value and span.value for span in spans)
    assert all(left.end <= right.start for left, right in zip(spans, spans[1:], strict=False))


@given(st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31)), st.sampled_from(FORMS))
def test_a_date_is_found_in_every_usual_form(day, form):
    written = day.strftime(form)
    spans = find_shaped(f"The visit took place on {written} in the morning.")
    assert [(span.field, span.value) for span in spans] == [("date", written)]


def test_text_without_spaces_takes_time_in_proportion_to_its_length():
    """Every “A1-” may begin the name of a hospital: no search may run on to the end of the text from each of them."""

    def seconds(text: str) -> float:
        took = []
        for _ in range(3):
            begun = time.process_time()
            assert find_shaped(text) == []
            took.append(time.process_time() - begun)
        return min(took)

    assert seconds("A1-" * 8_000) < 12 * seconds("A1-" * 2_000), "four times the length; it took 16 times as long"


@pytest.mark.parametrize("part", ["Ab-", "Ab'", "Ab "])
def test_the_time_of_a_search_grows_with_the_length_and_not_with_its_square(part):
    """Four times the text takes about four times as long; a quadratic pattern takes sixteen times as long."""

    def seconds(length: int) -> float:
        text, taken = part * (length // len(part)), []
        for _ in range(5):
            started = time.process_time()
            find_shaped(text)
            taken.append(time.process_time() - started)
        return min(taken)

    assert seconds(20_000) < 8 * seconds(5_000)


def test_blanks_after_a_word_for_a_number_take_time_in_proportion_to_their_number():
    """Three parts of a pattern may be blanks: with 300 of them a search took seconds."""

    def seconds(count: int) -> float:
        taken = []
        for _ in range(3):  # a collection of garbage may come in between
            started = time.process_time()
            assert find_shaped("called" + " " * count) == []
            taken.append(time.process_time() - started)
        return min(taken) + 1e-3

    assert seconds(240) < 8 * seconds(60)


@pytest.mark.parametrize("gap", [" ", "\t no. ", " No :  is  ", " : ", " ID\t# is "])
def test_a_number_is_found_whatever_is_between_it_and_its_word(gap):
    found = find_shaped(f"Telephone{gap}555-0142 in the morning")
    assert [(span.field, span.value) for span in found] == [("phone", "555-0142")]


def test_a_name_of_several_parts_is_found_whole():
    name = "Anna-Maria-Luise Keller-Wren"
    assert name in {span.value for span in find_shaped(f"Patient: {name}, MRN 123456")}


def test_an_age_identifies_only_above_89():
    assert find_shaped("an 88-year-old and an 80 yo, 89 years old") == []
    assert [span.value for span in find_shaped("a 90-year-old, 91 yo")] == ["90", "91"]
