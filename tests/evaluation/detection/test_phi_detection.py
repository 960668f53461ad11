"""Recall and precision of find_shaped, counted."""

from __future__ import annotations

import math

from core.evaluation.detection.phi_detection import (
    COLUMNS,
    labelled_lines,
    measured,
    on_hospital,
    on_labelled_set,
    unmarked,
)
from core.spec import CORPUS_PRESETS


def test_marks_become_places():
    text, labels = unmarked("Pt [[full_name|Ada Byron]], DOB [[date_of_birth|1957-03-22]].")
    assert text == "Pt Ada Byron, DOB 1957-03-22."
    assert [(text[start:end], field) for start, end, field in labels] == [
        ("Ada Byron", "full_name"),
        ("1957-03-22", "date_of_birth"),
    ]


def test_recall_and_precision_by_hand():
    """Four labels: two found, one found in part, one missed. Three finds: two right (the part counts), one wrong."""
    lines = [
        ("Mr. Byron, SSN 514-22-9078", [(4, 9, "full_name"), (15, 26, "ssn")]),
        ("ada@example.org or b", [(0, 20, "email")]),
        ("nothing of Wuxqi", [(11, 16, "full_name")]),
        ("(415) 555-0142", []),
    ]
    table = measured(lines).set_index("field")
    assert table.loc["all", ["labelled", "recalled", "found", "right"]].tolist() == [4, 2, 4, 3]
    assert table.loc["all", "recall"] == 0.5 and table.loc["all", "precision"] == 0.75
    assert table.loc["full_name", "recall"] == 0.5
    assert table.loc["phone", "precision"] == 0.0 and math.isnan(table.loc["phone", "recall"])
    assert table.loc["all", "recall_low"] < 0.5 < table.loc["all", "recall_high"]


def test_the_labelled_set_holds_every_field_and_lines_without_any():
    lines = labelled_lines()
    fields = {field for _, labels in lines for *_, field in labels}
    assert fields >= {"full_name", "clinician", "date", "date_of_birth", "phone", "email", "ssn", "mrn", "number"}
    assert fields >= {"address", "hospital", "age", "url", "ip"}
    assert sum(not labels for _, labels in lines) >= 15


def test_what_the_docs_say_of_the_labelled_set():
    table = on_labelled_set().set_index("field")
    assert list(table.reset_index().columns) == list(COLUMNS)
    assert table.loc["all", ["labelled", "recalled", "found", "right"]].tolist() == [84, 80, 81, 81]
    assert table.loc["full_name", "recall"] == 0.75, "names on no list, without a cue, are missed"


def test_on_a_hospital_every_labelled_identifier_counts():
    table = on_hospital(CORPUS_PRESETS["smoke"]).set_index("field")
    assert table.loc["all", "labelled"] > 100
    assert table.loc["all", "recall"] > 0.98 and table.loc["all", "precision"] > 0.98
    assert "age" not in table.index
