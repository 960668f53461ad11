"""The cohort: shares, uniqueness, naming, spans, variants; and that streaming it changes nothing."""

from __future__ import annotations

import hashlib
import multiprocessing
import re
import subprocess
import sys
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from core.corpus.synthetic import hospital
from core.corpus.synthetic.hospital import build, splits, write_large
from core.corpus.synthetic.records import name_space
from core.corpus.tables import Corpus
from core.phi.fields import DIRECT, FIELDS
from core.runs.store import DEMO
from core.spec import CORPUS_PRESETS, CorpusSpec

SMOKE = CORPUS_PRESETS["smoke"]
UNIQUE = ("full_name", "ssn", "mrn", "phone", "email", "address")


@cache
def cohort(**settings) -> Corpus:
    defaults = {"patients": 160, "population": 40, "canaries": 12, "canary_patients": 4}
    return build(CorpusSpec(**defaults | settings))


def fields_of(row) -> set[str]:
    return {span["field"] for span in row.phi_spans}


def normalised(field: str, text: str) -> str:
    """What a span's text and a record's value have in common."""
    if field == "date_of_birth":
        for form in ("%Y-%m-%d", "%d %B %Y", "%m/%d/%Y"):
            try:
                return datetime.strptime(text, form).date().isoformat()
            except ValueError:
                continue
    if field in ("mrn", "ssn", "phone"):
        return re.sub(r"\D", "", text)
    return text.casefold()


def test_splits_are_exact():
    corpus = cohort()
    counts = corpus.patients["split"].value_counts()
    assert counts.to_dict() == {"member": 112, "heldout": 48, "population": 40, "canary": 4}
    assert splits(CorpusSpec(patients=25, population=0)).count("member") == round(0.7 * 25)
    notes = corpus.notes.merge(corpus.patients[["patient_id", "split"]], on="patient_id", suffixes=("", "_patient"))
    assert (notes["split"] == notes["split_patient"]).all()
    members = corpus.patients.loc[corpus.patients["split"] == "member", "patient_id"]
    assert members.iloc[0] < "P0050" and members.iloc[-1] > "P0110"  # the split does not follow the numbering


def test_identifiers_are_unique_and_formatted_like_the_examples():
    patients = build(CorpusSpec(patients=3_000, population=500, notes_per_patient=1, canary_patients=60)).patients
    for field in UNIQUE:
        assert patients[field].is_unique, field
    patterns = {
        "full_name": r"[A-Z]\w+ [A-Z]\w+",
        "date_of_birth": r"\d{4}-\d\d-\d\d",
        "ssn": r"\d{3}-\d\d-\d{4}",
        "mrn": r"MRN-\d{7}",
        "phone": r"\(\d{3}\) 555-\d{4}",
        "email": r"[a-z]+\.[a-z]+\d\d@example\.(org|com|net)",
        "address": r"\d+ [A-Z]\w+ [A-Z]\w+",
        "blood_pressure": r"\d{2,3}/\d{2,3}",
        "height": r"\d{3} cm",
        "weight": r"\d{2,3} kg",
    }
    for field in FIELDS:
        pattern = re.compile(patterns.get(field.name, r"\S.*"))
        assert pattern.fullmatch(field.example)
        assert patients[field.name].map(lambda value, p=pattern: bool(p.fullmatch(value))).all(), field.name
    assert patients["age"].between(18, 97).all()
    assert patients["sex"].value_counts(normalize=True).between(0.4, 0.6).all()


def test_names_suffice_for_the_largest_cohort():
    largest = CorpusSpec(patients=200_000, population=200_000, canary_patients=1_000)
    assert name_space("patient") >= largest.patients + largest.population
    assert name_space("canary") >= largest.canary_patients
    assert name_space("reference") >= 10_000


def test_patients_hold_about_four_codes_with_a_long_tail():
    codes = cohort(patients=430, population=150).patients["icd_codes"]
    assert 3.7 < codes.map(len).mean() < 4.2
    held = codes.explode().value_counts()
    assert held.iloc[0] > 60
    assert (held < 5).mean() > 0.7


@pytest.mark.parametrize("naming_rate", [0.1, 0.7])
def test_naming_rate(naming_rate):
    notes = cohort(patients=300, naming_rate=naming_rate).notes_of("member", "heldout", "population")
    named = notes.apply(lambda row: "full_name" in fields_of(row), axis=1).mean()
    assert abs(named - naming_rate) < 4 * (naming_rate * (1 - naming_rate) / len(notes)) ** 0.5


def test_unnamed_notes_hold_no_direct_identifier():
    corpus = cohort(naming_rate=0.3)
    values = corpus.patients.set_index("patient_id")
    checked = 0
    for row in corpus.notes_of("member", "heldout", "population").itertuples():
        found = fields_of(row) & set(DIRECT)
        if "full_name" in found:
            continue
        checked += 1
        record = values.loc[row.patient_id]
        assert not found
        assert record["full_name"] not in row.text and record["full_name"].split()[1] not in row.text
        assert not re.search(r"@|\d{3}-\d{2}-\d{4}|555-|\d{7}|\d{4}-\d\d-\d\d|/\d{4}", row.text), row.text
    assert checked > 300


def test_every_direct_field_occurs_regularly_in_named_notes():
    notes = cohort().notes_of("member", "heldout", "population")
    found = [fields for row in notes.itertuples() if "full_name" in (fields := fields_of(row))]
    for field in DIRECT:
        share = sum(field in fields for fields in found) / len(found)
        assert share > 0.1, (field, share)
    for field in FIELDS:
        assert any(field.name in fields for fields in found), field.name


def test_spans_are_exact():
    corpus = cohort()
    values = corpus.patients.set_index("patient_id")
    seen = set()
    for row in corpus.notes.itertuples():
        for span in row.phi_spans:
            text = row.text[span["start"] : span["end"]]
            assert normalised(span["field"], text) == normalised(
                span["field"], values.loc[row.patient_id, span["field"]]
            )
            seen.add(span["field"])
        for span in row.entity_spans:
            assert row.text[span["start"] : span["end"]].strip() != ""
            assert span["field"] in ("problem", "test", "treatment")
    assert seen == {field.name for field in FIELDS}


def test_no_value_of_the_record_is_left_without_its_span():
    corpus = cohort()
    values = corpus.patients.set_index("patient_id")
    for row in corpus.notes_of("member", "heldout", "population").itertuples():
        record = values.loc[row.patient_id]
        written = {field: record[field] for field in (*UNIQUE, "medication", "blood_pressure", "height")}
        written["mrn"] = written["mrn"].removeprefix("MRN-")
        for field, value in written.items():
            starts = {m.start() for m in re.finditer(rf"(?<![\w.]){re.escape(value)}(?!\w)", row.text, re.IGNORECASE)}
            assert starts == {s["start"] for s in row.phi_spans if s["field"] == field}, (row.note_id, field)


def test_notes_are_short_and_of_four_kinds():
    notes = cohort().notes_of("member", "heldout", "population")
    words = notes["text"].str.split().str.len().groupby(notes["note_type"]).mean()
    assert words["nursing"] == pytest.approx(38, abs=6)
    assert words["physician"] == pytest.approx(65, abs=6)
    assert words["letter"] == pytest.approx(60, abs=6)
    assert words["discharge"] == pytest.approx(84, abs=6)
    assert notes["text"].is_unique
    assert (notes.groupby("admission_id").size() <= 6).all()
    in_order = notes.groupby("patient_id")["date"].apply(lambda dates: list(dates) == sorted(dates))
    assert in_order.all()
    assert notes["date"].between("2019-01-01", "2022-12-31").all()


def test_notes_a_patient_have_the_mean_asked_for_and_a_tail():
    counts = cohort(patients=600, population=0, notes_per_patient=12, canaries=0).notes_of("member", "heldout")
    counts = counts.groupby("patient_id").size()
    assert counts.mean() == pytest.approx(12, abs=4 * counts.std() / len(counts) ** 0.5)
    assert counts.max() > 24 and counts.min() >= 1
    one = cohort(notes_per_patient=1).notes_of("member", "heldout", "population")
    assert (one.groupby("patient_id").size() == 1).all()


def test_generic_notes_say_nothing_about_anybody():
    notes = cohort(generic_rate=1.0).notes_of("member", "heldout", "population")
    assert notes["phi_spans"].map(len).sum() == 0 and notes["entity_spans"].map(len).sum() == 0


def test_copy_forward_repeats_a_paragraph_of_the_note_before():
    def repeated(notes: pd.DataFrame) -> float:
        repeats = total = 0
        for _, texts in notes.groupby("patient_id")["text"]:
            lines = [set(text.split("\n")) for text in texts]
            pairs = list(zip(lines, lines[1:], strict=False))
            total += len(pairs)
            repeats += sum(any(len(line) > 60 for line in now & before) for before, now in pairs)
        return repeats / total

    settings = {"generic_rate": 0.0, "naming_rate": 0.1}
    assert repeated(cohort(copy_forward=0.0, **settings).notes) < 0.01
    assert 0.5 < repeated(cohort(copy_forward=0.8, **settings).notes) < 0.85


def test_name_insertion_begins_every_note_with_the_name():
    corpus = cohort(variant="name-insertion", naming_rate=0.1)
    names = corpus.patients.set_index("patient_id")["full_name"]
    for row in corpus.notes_of("member", "heldout", "population").itertuples():
        assert row.text.startswith(names[row.patient_id] + "\n")
        assert row.phi_spans[0]["field"] == "full_name" and row.phi_spans[0]["start"] == 0


def test_template_only_writes_one_sentence_a_code():
    corpus = cohort(variant="template-only")
    patients = corpus.patients.set_index("patient_id")
    notes = corpus.notes_of("member", "heldout", "population")
    codes = patients.loc[patients["split"] != "canary", "icd_codes"].map(len)
    assert (notes.groupby("patient_id").size() == codes).all()
    for row in notes.itertuples():
        record = patients.loc[row.patient_id]
        title = "Mr." if record["sex"] == "M" else "Mrs."
        head = re.escape(f"{title} {record['full_name']} is a {record['age']} yo patient with ")
        assert re.fullmatch(head + r"\S.*\.", row.text)
    first = notes.groupby("patient_id").first()
    assert all("diagnosis" in fields_of(row) for row in first.itertuples())


def test_settings_of_the_notes_leave_the_patients_as_they_are():
    assert cohort(naming_rate=0.1).patients.astype(str).equals(cohort(variant="template-only").patients.astype(str))
    assert not cohort(seed=1).patients["full_name"].equals(cohort().patients["full_name"])


DIGEST = """
import hashlib, sys, pathlib
from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS
build(CORPUS_PRESETS["smoke"]).write(pathlib.Path(sys.argv[1]))
"""


def test_the_same_spec_gives_the_same_bytes_in_any_process(tmp_path):
    digests = set()
    for hash_seed in ("1", "2"):
        folder = tmp_path / hash_seed
        folder.mkdir()
        command = [sys.executable, "-c", DIGEST, str(folder)]
        path = str(Path(__file__).parents[3])
        subprocess.run(command, check=True, env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": path})  # noqa: S603
        files = sorted(folder.iterdir())
        assert len(files) == 4
        digests.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
    assert len(digests) == 1


def test_the_shipped_cohort_is_still_what_its_spec_makes():
    """Else a run trained today and a shipped one would speak of other patients under the same digest."""
    folders = sorted((DEMO / "corpora").iterdir())
    assert folders
    for folder in folders:
        shipped = Corpus.read(folder)
        made = build(shipped.spec)
        assert folder.name == shipped.spec.digest()
        for name in ("patients", "notes", "canaries"):
            pd.testing.assert_frame_equal(getattr(made, name), getattr(shipped, name))


def test_streaming_gives_what_building_gives(tmp_path, monkeypatch):
    monkeypatch.setattr(hospital, "CHUNK", 7)
    calls = []
    write_large(SMOKE, tmp_path, lambda done, total: calls.append((done, total)))
    streamed, built = Corpus.read(tmp_path), build(SMOKE)
    assert streamed.spec == SMOKE
    for name in ("patients", "notes", "canaries"):
        left, right = getattr(streamed, name), getattr(built, name)
        pd.testing.assert_frame_equal(left, right)
    assert calls[-1] == (34, 34) and len(calls) == 6
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_cohort(tmp_path):
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:  # other tests left threads in this one
        small, large = alone.submit(_peaks, tmp_path).result()
    assert large < 1.5 * small


def _peaks(folder: Path) -> tuple[int, int]:
    """The most bytes that writing 100 and 800 patients needs, once all caches are filled."""
    hospital.CHUNK = 20

    def write(patients: int) -> None:
        write_large(CorpusSpec(patients=patients, population=0, notes_per_patient=4, canaries=0), folder)

    def peak(patients: int) -> int:
        tracemalloc.start()
        write(patients)
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    for _ in range(3):  # fills the caches of wording and of the interpreter; untraced, which is twice as fast
        write(800)
    return peak(100), peak(800)


def test_a_stopped_write_leaves_nothing_behind(tmp_path):
    def stop(done: int, total: int) -> None:
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        write_large(SMOKE, tmp_path, stop)
    assert list(tmp_path.iterdir()) == []
