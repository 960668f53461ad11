"""The output filter: what it blacks out, what it leaves, and that nothing typed is ever changed."""

from __future__ import annotations

import unicodedata
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.phi.detector.engine import SHAPES, best, rules, shapes
from core.phi.leaks import find
from core.phi.output_filter import BLACKED, MOST_PROMPT, BlockList, OutputFilter
from core.phi.shaped import find_shaped


@pytest.fixture(scope="module")
def known(patients) -> BlockList:
    return BlockList.of(patients)


def test_shapes_are_blacked_out_with_the_prompt_read_along():
    one = OutputFilter()
    assert one.apply(" Zorvan Quillt, and SSN 514-22-9078.", "Patient:") == f" {BLACKED}, and SSN {BLACKED}."
    assert one.apply("n Quillt here", "Patient: Zorva") == f"{BLACKED} here"
    assert OutputFilter(reads_prompt=False).apply(" Zorvan Quillt left", "Patient:") == " Zorvan Quillt left"


@pytest.mark.parametrize("engine", [rules(), *([best()] if best().tags else [])], ids=lambda engine: engine.name)
def test_another_detector_strikes_what_it_finds_beside_known_values(known, engine):
    text = " Seen with Dr. Quist. MRN: B-98765, then Maria Keller."
    one = OutputFilter(engine, known)
    places = [(start, end) for start, end, _ in engine.find(text)]
    assert all(any(left <= start and end <= right for left, right in one.places(text)) for start, end in places)
    assert "B-98765" not in one.apply(text) and "Maria Keller" not in one.apply(text)
    assert "B-" in OutputFilter(shapes(), known).apply(text), "the shapes leave the letter of the number"


def test_a_prompt_of_any_length_bounds_what_is_searched():
    class Counting(type(shapes())):
        read: ClassVar[list[str]] = []

        def find(self, text):
            self.read.append(text)
            return super().find(text)

    one = OutputFilter(Counting(SHAPES))
    assert one.apply(" Zorvan Quillt left", "x " * MOST_PROMPT + "Patient:") == f" {BLACKED} left"
    assert [len(text) for text in Counting.read] == [MOST_PROMPT + len(" Zorvan Quillt left")]


def test_what_was_typed_is_never_changed_nor_reason_to_strike():
    assert OutputFilter().places(" is fine", "SSN 514-22-9078") == []


def test_known_values_word_for_word_in_any_case(known):
    one = OutputFilter(detector=None, known=known)
    assert one.apply("seen: MARIA KELLER, 4410937, 1957-03-22") == f"seen: {BLACKED}, {BLACKED}, {BLACKED}"
    assert one.apply("maria.keller57@example.org") == BLACKED
    assert one.apply(" Keller was seen", "Then Maria") == f"{BLACKED} was seen"


@pytest.mark.parametrize(
    "text",
    ["Keller, Maria", "Maria  Keller", "22 March 1957", "514 22 9078", "44109371", "Anna-Maria Kellers", "M a r i a K"],
)
def test_other_spellings_pass_the_block_list(known, text):
    assert OutputFilter(detector=None, known=known).apply(text) == text


def test_some_of_these_spellings_are_leaks_all_the_same(index):
    for text in ("Keller, Maria", "Maria  Keller", "22 March 1957", "514 22 9078"):
        assert [span.kind for span in find(text, index)] == ["leak"]


def test_both_together_strike_overlaps_once(known):
    text = "Patient: Maria Keller, MRN 4410937"
    assert OutputFilter(known=known).apply(text) == f"Patient: {BLACKED}, MRN {BLACKED}"


@given(st.text("Patient: Mr Ada Byron 514-22-907819 @.\nß😀", max_size=60), st.text("Pt: Ada 51-", max_size=12))
def test_places_are_in_order_within_the_answer_and_what_is_left_is_the_rest(text, prompt):
    one = OutputFilter()
    places = one.places(text, prompt)
    assert all(0 <= start < end <= len(text) for start, end in places)
    assert all(left[1] < right[0] for left, right in zip(places, places[1:], strict=False))
    rest, at = "", 0
    for start, end in places:
        rest, at = rest + text[at:start], end
    assert one.apply(text, prompt).replace(BLACKED, "") == (rest + text[at:]).replace(BLACKED, "")
    assert bool(OutputFilter(reads_prompt=False).places(text)) == bool(find_shaped(text))


def test_an_empty_list_strikes_nothing():
    assert OutputFilter(detector=None, known=BlockList([])).apply("Maria Keller") == "Maria Keller"


def test_an_accent_that_stands_after_its_letter_goes_with_it():
    text = unicodedata.normalize("NFD", "Maria René was here, María Renée not")
    assert OutputFilter(detector=None, known=BlockList(["Maria René"])).apply(text).startswith(f"{BLACKED} was here")
    ends = OutputFilter(detector=None, known=BlockList(["René"])).apply(unicodedata.normalize("NFD", "René"))
    assert ends == BLACKED


def test_places_that_touch_are_blacked_out_once():
    class Two:
        name = "two"

        def find(self, text):
            return [(0, 5, "full_name"), (5, 9, "mrn")]

    assert OutputFilter(detector=Two()).apply("Maria1234 seen") == f"{BLACKED} seen"
