"""Deletion codes: nobody can guess one, and what is stored of one does not tell it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.runs.uploads import deletion_codes
from core.runs.uploads.deletion_codes import Attempts, hashed, matches, new_code

LETTER = "[0-9A-HJKMNP-TV-Z]"
CODE = st.builds(new_code)


def test_a_code_has_a_hundred_bits_in_letters_that_nobody_mixes_up():
    codes = {new_code() for _ in range(500)}
    assert len(codes) == 500
    assert all(re.fullmatch(rf"{LETTER}{{4}}(-{LETTER}{{4}}){{4}}", code) for code in codes)
    assert {letter for code in codes for letter in code} - {"-"} == set(deletion_codes._LETTERS)
    assert len(deletion_codes._LETTERS) ** deletion_codes._LENGTH == 2**100


@given(CODE, st.sampled_from(["", " ", "-", " - "]), st.booleans())
def test_however_it_is_typed_it_is_the_same_code(code, between, lower):
    typed = between.join(code.replace("-", "")).replace("0", "o").replace("1", "l")
    assert matches(typed.lower() if lower else f"  {typed}\n", hashed(code))


@given(CODE, st.integers(0, 19), st.sampled_from(deletion_codes._LETTERS))
def test_another_letter_is_another_code(code, place, letter):
    plain = code.replace("-", "")
    other = plain[:place] + letter + plain[place + 1 :]
    assert matches(other, hashed(code)) == (other == plain)
    # four digits of the code are in the digest by chance once in 100,000 codes or so, eight practically never
    assert not any(plain[start : start + 8] in hashed(code).upper() for start in range(len(plain) - 7))


@given(st.one_of(st.text(max_size=40), CODE))
def test_nothing_matches_an_upload_without_a_code(text):
    assert not matches(text, "") and not matches(text, "-")


def test_wrong_codes_are_counted_for_a_while_and_for_each_by_themselves(monkeypatch):
    now = 1_000.0
    monkeypatch.setattr(deletion_codes.time, "monotonic", lambda: now)
    attempts = Attempts(3, 60.0)
    for second in range(3):
        assert attempts.wait("ada") == 0
        now = 1_000.0 + second
        attempts.failed("ada")
    assert attempts.wait("ada") == pytest.approx(58) and attempts.wait("bob") == 0
    now = 1_060.0
    assert attempts.wait("ada") == 0, "the first is forgotten"
    now = 2_000.0
    assert attempts.wait("bob") == 0 and not attempts._wrong, "nothing is kept of anybody"
