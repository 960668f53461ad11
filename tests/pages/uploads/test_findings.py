"""What the page says of a check's findings."""

from __future__ import annotations

from pathlib import Path

from core.corpus.importing.importer import Seen, import_notes
from pages.parts.uploads.findings import warnings

ROWS = "patient_id,text\n" + "".join(f"P{n % 6},seen on day {n} for a cough\n" for n in range(24))


def seen_in(folder: Path, notes: str, **options) -> Seen:
    path, made = folder / "notes.csv", folder / "made"
    made.mkdir()
    path.write_text(notes, encoding="utf-8")
    return import_notes(path, made, **options)


def test_exposure_is_not_called_unmeasured_where_canaries_were_asked_for(tmp_path):
    """The cohort is too small for canaries by default; the user asked for twelve, and they were drawn."""
    seen = seen_in(tmp_path, ROWS, canaries=12)
    said = "\n".join(warnings(seen))
    assert seen.canaries == 12 and "Exposure will not be measured" not in said
    assert "You asked for 12 canary sentences, and none would fit" in said


def test_a_small_cohort_without_canaries_is_told_so(tmp_path):
    said = "\n".join(warnings(seen_in(tmp_path, ROWS)))
    assert "too small to plant canaries" in said and "You asked for" not in said


def test_one_is_not_said_as_several(tmp_path):
    said = "\n".join(warnings(seen_in(tmp_path, f"{ROWS}P1,\nP1,seen on day 1 for a cough\n")))
    assert "1 row without text was left out." in said
    assert "1 of 25 notes repeats an earlier note, 1 of them word for word." in said


def test_removed_copies_and_rows_without_text_are_counted(tmp_path):
    notes = f"{ROWS}P1,\nP2,\nP1,seen on day 1 for a cough\n"
    said = "\n".join(warnings(seen_in(tmp_path, notes, deduplicate="exact")))
    assert "2 rows without text were left out." in said and "repeats an earlier note" not in said
    assert "1 note repeating an earlier note was removed." in said
