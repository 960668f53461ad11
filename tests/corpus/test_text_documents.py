"""Documents of a text file, and the notes they are cut into."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from core.corpus.text_documents import documents, mended, notes

WORD = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)


def test_a_document_ends_at_a_blank_line_and_knows_its_first():
    lines = ["\n", "One.\r\n", "Two.\n", "  \n", "\n", "Three."]
    assert list(documents(lines)) == [(2, "One.\nTwo."), (6, "Three.")]
    assert list(documents(["", " \n"])) == []


def test_line_breaks_that_became_commas_come_back():
    assert mended("PLAN:,1. Rest.,2. Fluids, as needed.") == "PLAN:\n1. Rest.\n2. Fluids, as needed."


def test_notes_are_filled_with_lines_then_sentences_then_words():
    document = "A one two.\nB three.\nC four five. D six seven eight nine.\nE"
    assert notes(document, 5) == ["A one two.\nB three.", "C four five.", "D six seven eight nine.", "E"]
    assert notes("a b c d e", 2) == ["a b", "c d", "e"]
    assert notes("C four five. D six.\nE", 4) == ["C four five.", "D six.\nE"]


@settings(max_examples=100)
@given(st.lists(st.lists(WORD, min_size=1, max_size=12).map(" ".join), min_size=1, max_size=8), st.integers(1, 9))
def test_no_word_is_lost_and_no_note_is_too_long(lines, most):
    found = notes("\n".join(lines), most)
    assert " ".join(found).split() == " ".join(lines).split()
    assert all(1 <= len(note.split()) <= most for note in found)
    if all(len(line.split()) <= most for line in lines):  # none was cut: a note has no room for the next one's first
        first = [len(note.splitlines()[0].split()) for note in found[1:]]
        assert all(len(note.split()) + words > most for note, words in zip(found, first, strict=False))
