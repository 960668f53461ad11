"""Where a written value stands in notes, and the shared words around it."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.passages import passages


def notes(*texts: str) -> pd.DataFrame:
    rows = [(f"N{number}", f"P{number}", text) for number, text in enumerate(texts)]
    return pd.DataFrame(rows, columns=["note_id", "patient_id", "text"])


def found(text: str, value: str, *texts: str):
    start = text.index(value)
    return passages(text, start, start + len(value), notes(*texts))


def test_notes_with_the_value_come_with_the_words_around_it_that_the_text_shares():
    text = "Patient: Ann Lee, MRN 123. Seen today."
    first, second = found(text, "Ann Lee", "Ann Lee came.", "Call of patient: ann lee, MRN 99. Ann Lee again.", "Lee")
    assert (first.note_id, first.times, first.words) == ("N1", 2, 4)
    assert "Call of patient: ann lee, MRN 99. Ann Lee again."[first.start : first.end] == "patient: ann lee, MRN"
    assert (second.note_id, second.times, second.words, second.start, second.end) == ("N0", 1, 2, 0, 7)


def test_a_value_within_a_longer_word_is_no_place():
    assert found("MRN 123", "123", "MRN 1234", "A123", "0123", "12-3") == []
    assert [one.times for one in found("MRN 123", "123", "MRN 123; 123.")] == [2]


def test_line_ends_are_spaces_and_signs_are_no_patterns():
    (one,) = found("Dr. A. (Lee)", "A. (Lee)", "seen by Dr. A.\n(Lee)")
    assert one.words == 3
    assert found("x .* y", ".*", "anything") == []


def test_a_blank_value_is_nowhere():
    assert found("a  b", "  ", "a  b") == []


words = st.lists(st.sampled_from(["ann", "lee", "mrn", "1", "saw"]), min_size=1, max_size=8).map(" ".join)


@given(words, words, st.data())
def test_counts_and_runs_are_those_of_a_search_word_by_word(text, note, data):
    mine, its = text.split(), note.split()
    place = data.draw(st.integers(0, len(mine) - 1))
    start = len(" ".join(mine[:place])) + (place > 0)
    result = passages(text, start, start + len(mine[place]), notes(note))
    places = [number for number, word in enumerate(its) if word == mine[place]]
    if not places:
        assert result == []
        return
    runs = []
    for number in places:
        left = right = 0
        while left < min(place, number) and mine[place - left - 1] == its[number - left - 1]:
            left += 1
        while (
            right < min(len(mine) - place, len(its) - number) - 1 and mine[place + right + 1] == its[number + right + 1]
        ):
            right += 1
        runs.append(left + right + 1)
    assert (result[0].times, result[0].words) == (len(places), max(runs))
    assert len(note[result[0].start : result[0].end].split()) == max(runs)
