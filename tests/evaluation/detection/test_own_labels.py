"""A user's labels: what is sampled, what pasted words mark, and the figures by hand."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from core.evaluation.detection.own_labels import LabelledNote, as_lines, on_labels, sampled

TEXT = "Ada Wren saw Robert H. on 3 May. Robert H. lives in Quxburg."
FOUND = ((0, 8, "full_name"), (13, 19, "full_name"), (26, 31, "date"))


def test_pasted_words_mark_every_whole_occurrence_that_is_not_covered():
    note = LabelledNote(TEXT, FOUND)
    assert note.places_of("quxburg", "place") == [(52, 59, "place")]
    assert note.places_of("Robert  H", "full_name") == [(13, 21, "full_name"), (33, 41, "full_name")]
    assert (
        note.places_of("Wren", "full_name") == note.places_of("Rob", "full_name") == note.places_of(" ", "date") == []
    )
    assert LabelledNote(TEXT, FOUND, frozenset(FOUND)).places_of("3 May", "date") == [(26, 31, "date")]


def test_recall_and_precision_by_hand():
    """Of four identifiers one is found whole; of three finds one is wrong, and one that covers a part is right."""
    note = LabelledNote(
        TEXT + " Ada Wren.",
        FOUND,
        wrong=frozenset({FOUND[2]}),
        missed=((13, 21, "full_name"), (33, 41, "full_name"), (52, 59, "place")),
    )
    assert note.labels == [(0, 8, "full_name"), *note.missed], "found in part: labelled once"
    table = on_labels([note]).set_index("field")
    assert table.loc["all", ["labelled", "recalled", "found", "right"]].tolist() == [4, 1, 3, 2]
    assert table.loc["place", "recall"] == 0.0 and table.loc["date", "precision"] == 0.0
    assert table.loc["all", "recall_low"] < 0.25 < table.loc["all", "recall_high"]
    (line,) = map(json.loads, as_lines([note]).splitlines())
    assert line == {"text": note.text, "spans": [list(one) for one in note.labels]}


def test_the_sample_is_of_the_cohorts_own_notes_and_leaves_out_health_details():
    spans = [{"start": 0, "end": 2, "field": "ssn"}, {"start": 3, "end": 4, "field": "diagnosis"}]
    notes = pd.DataFrame(
        {
            "split": ["member"] * 30 + ["canary"] * 30,
            "text": [f"note {n}" for n in range(60)],
            "phi_spans": [spans] * 60,
        }
    )
    drawn = sampled(notes, "a")
    assert len(drawn) == 20 and len({note.text for note in drawn}) == 20
    assert all(int(note.text.split()[1]) < 30 and note.found == ((0, 2, "ssn"),) for note in drawn)
    assert drawn == sampled(notes, "a") != sampled(notes, "b")
    assert len(sampled(notes.head(7), "a")) == 7


def test_more_missed_words_than_the_box_takes_are_not_searched():
    note = LabelledNote("a " * 1_000, ())
    assert len(note.places_of("a " * 99 + "a", "place")) == 10
    with pytest.raises(ValueError, match="may have 200 characters at most, not 202"):
        note.places_of("a " * 100 + "ab", "place")
