"""An import says that it will not fit before it is read to its end, and takes what it says."""

from __future__ import annotations

import pytest

from core.corpus.importing import memory
from core.corpus.importing.files import BadNotes
from core.corpus.importing.importer import import_notes
from core.corpus.importing.memory import (
    AT_LEAST,
    PER_CHARACTER,
    PER_NOTE,
    PER_PATIENT,
    MemoryWatch,
    free_memory,
    memory_needed,
)


def test_what_is_needed_grows_with_notes_characters_and_patients():
    assert memory_needed(10, 1_000, 3) == AT_LEAST + 10 * PER_NOTE + 1_000 * PER_CHARACTER + 3 * PER_PATIENT


def test_what_is_free_is_what_the_machine_or_its_container_has(tmp_path, monkeypatch):
    machine = free_memory()
    assert machine > 0
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    assert free_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert free_memory() > 600_000


def test_the_whole_is_foreseen_from_what_was_read(monkeypatch):
    whole = memory_needed(10_000, 1_000_000, 2)
    for free, fits in ((whole + 1, True), (whole - 1, False)):
        monkeypatch.setattr(memory, "free_memory", lambda free=free: free)
        watch = MemoryWatch("notes.csv")
        watch.read(10, 100)
        if fits:
            watch.add(["x" * 100] * 1_000, ["A", "B"] * 500)
        else:
            with pytest.raises(BadNotes, match="notes.csv: checking its approximately 10,000 notes needs 73 MB"):
                watch.add(["x" * 100] * 1_000, ["A", "B"] * 500)


@pytest.mark.parametrize("shape", ["file", "long notes", "folder"])
def test_an_import_that_would_not_fit_stops_at_its_first_chunk(tmp_path, monkeypatch, shape):
    monkeypatch.setattr(memory, "free_memory", lambda: 70_000_000)
    monkeypatch.setattr("core.corpus.importing.files.CHUNK", 100)
    told: list[str] = []
    if shape == "file":
        path = tmp_path / "notes.csv"
        path.write_text("patient_id,text\n" + f"P1,{'word ' * 40}\n" * 20_000)
    elif shape == "long notes":  # fewer lines than a chunk
        path = tmp_path / "notes.csv"
        path.write_text("patient_id,text\n" + f"P1,{'word ' * 80_000}\n" * 60)
    else:
        path = tmp_path
        (path / "PATIENTS.csv").write_text("SUBJECT_ID,GENDER,DOB\n1,F,2080-03-02\n")
        (path / "ADMISSIONS.csv").write_text("SUBJECT_ID,HADM_ID,ADMITTIME\n1,9,2150-02-01\n")
        (path / "DIAGNOSES_ICD.csv").write_text("SUBJECT_ID,HADM_ID,ICD9_CODE\n1,9,4019\n")
        rows = "".join(f"{n},1,9,2150-02-01,Nursing,{'word ' * 40}\n" for n in range(20_000))
        (path / "NOTEEVENTS.csv").write_text("ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n" + rows)
    with pytest.raises(BadNotes, match="of memory, and 70 MB are free here"):
        import_notes(path, tmp_path, on_progress=lambda what, done, total: told.append(what))
    assert 0 < len(told) < 10
