"""The engine: which recognisers each detector has, and that places are whole, apart and in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.phi.detector import engine, tagger
from core.phi.shaped import find_shaped

PIECES = st.sampled_from(
    [
        "Dr. Ada Wren",
        "MRN: B-987654",
        " seen at ",
        "St. Luke's",
        "Chicago",
        ", IL 60601",
        "\n",
        " ",
        "Éva",
        "1/2/2020",
        "🦠",
        "A.",
    ]
)
TEXT = st.lists(PIECES, max_size=8).map("".join)


def test_the_shapes_alone_are_what_they_were():
    text = "Pt Maria Keller, DOB 1957-03-22, seen by Dr. Alice S. at UCSF"
    assert engine.shapes().find(text) == [(span.start, span.end, span.field) for span in find_shaped(text)]


@given(TEXT)
def test_places_are_in_order_apart_and_cover_all_shapes(text):
    places = engine.rules().find(text)
    assert places == sorted(places)
    assert all(0 <= start < end <= len(text) for start, end, _ in places)
    assert all(one[1] <= other[0] for one, other in zip(places, places[1:], strict=False))
    covered = {at for start, end, _ in places for at in range(start, end)}
    for start, end, _ in engine.shapes().find(text):
        assert all(at in covered for at in range(start, end) if text[at].isalnum())


def test_the_longest_place_keeps_its_field_and_the_rest_of_the_other_stays():
    text = "Ada Wren Chicago"
    assert engine._apart(text, [(0, 8, "full_name"), (4, 16, "place")]) == [(0, 4, "full_name"), (4, 16, "place")]
    assert engine._apart(text, [(0, 16, "place"), (4, 8, "full_name")]) == [(0, 16, "place")]


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        ("Ada ", True),
        ("7 ", True),
        ("b4 ", True),
        ("and the ", False),
        ("keller ", False),
        ("A. ", False),
        (", ", False),
    ],
)
def test_a_rest_stays_if_it_looks_like_a_part_of_a_name_or_number(rest, kept):
    """As docs/methods/detector.md says; a whole place stays whatever it looks like."""
    text = f"{rest}Chicago Heights"
    long = (len(rest), len(text), "place")
    found = engine._apart(text, [(0, len(rest) + 3, "full_name"), long])
    assert found == ([(0, len(rest), "full_name")] if kept else []) + [long]
    assert engine._apart(text, [(0, len(rest), "full_name")]) == [(0, len(rest), "full_name")]


def test_a_hospital_has_its_town():
    text = "seen at Elm Valley Hospital in Chicago today"
    assert [text[start:end] for start, end, _ in engine.rules().find(text)] == ["Elm Valley Hospital in Chicago"]


def test_a_long_text_is_searched_in_pieces_and_nothing_between_them_is_lost(monkeypatch):
    text = "\n".join(f"Line {n}: seen by Dr. Quist at Elm Valley Hospital." for n in range(60))
    whole = engine.rules().find(text)
    monkeypatch.setattr(engine, "_PIECE", 400)
    assert engine.rules().find(text) == whole
    assert "".join(piece for _, piece in engine._pieces("x" * 5_000)) == "x" * 5_000


def test_no_recogniser_reads_more_than_a_piece_at_once(monkeypatch):
    """Some patterns take time that grows with the square of what they read, so that must be bounded."""
    read: list[int] = []
    monkeypatch.setattr(engine, "people", lambda text: (read.append(len(text)), iter(()))[1])
    engine.rules().find("Ab " * 20_000)
    assert sum(read) == 60_000 and max(read) <= engine._PIECE


def test_a_detector_is_called_by_its_name():
    assert engine.named(engine.RULES) == engine.rules() and engine.named(engine.SHAPES) == engine.shapes()
    assert engine.named(engine.WITH_TAGGER) == engine.best()
    with pytest.raises(ValueError, match="no detector “x”. The detectors are: rules 2"):
        engine.named("x")


def test_without_the_tagger_the_rules_say_why(monkeypatch):
    monkeypatch.setattr(tagger, "PACKAGE", "no_such_package")
    detector = engine.best()
    assert detector.name == engine.RULES and not detector.tags
    assert "not installed: run pip install -r requirements.txt" in detector.lacks
    with pytest.raises(tagger.NoTagger):
        engine.named(engine.WITH_TAGGER)
