"""Further mentions of names, against a search for each name by itself."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from core.phi.mentions import mentions, words_again

PARTS = st.sampled_from(["Ann", "Mary", "Mary'Ann", "Mary-Ann", "Éva", "🦠", " ", "'", "’s", ".", "@", "-", "x", "\n"])
TEXT = st.lists(PARTS, max_size=14).map("".join)
WORDS = st.sets(st.sampled_from(["Ann", "Mary", "Mary'Ann", "Mary-Ann", "Éva", "Mary-Ann'Ann"]), max_size=4)
NAMES = st.sets(st.sampled_from(["Mary Ann", "Ann Mary", "Ann", "Mary Ann Mary", "Éva x"]), max_size=4)
ALONE = r"(?<![\w'’.@-])(?:{})(?![\w@-])"


@given(TEXT, WORDS)
def test_words_are_found_as_a_pattern_of_all_of_them_finds_them(text, words):
    pattern = ALONE.format("|".join(map(re.escape, sorted(words))))
    assert list(words_again(text, words)) == [match.span() for match in re.finditer(pattern, text) if words]


@given(TEXT, NAMES)
def test_every_mention_is_found(text, names):
    there = {
        (at, at + len(name))
        for name in names
        for at in range(len(text))
        if re.compile(ALONE.format(re.escape(name))).match(text, at)
    }
    found = list(mentions(text, names))
    assert set(found) == there and len(found) == len(there)
