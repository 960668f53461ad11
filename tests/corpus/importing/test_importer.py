"""Notes that somebody brought become a cohort like any other."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.icd_codes import codes_in, dotted, revision_of
from core.corpus.importing.files import BadNotes
from core.corpus.importing.importer import Seen, fitting_canaries, import_notes, read_notes, split_patients
from core.corpus.importing.note_tables import guess_columns
from core.corpus.synthetic.hospital import build
from core.corpus.tables import NOTES, PATIENTS, Corpus
from core.phi.detector.engine import RULES, SHAPES, WITH_TAGGER
from core.phi.fields import DIRECT
from core.runs.patients.queries import PatientTables
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

HOSPITAL = build(CORPUS_PRESETS["smoke"])
OWN = HOSPITAL.notes[HOSPITAL.notes["split"] != "canary"]


@pytest.fixture
def notes_file(tmp_path) -> Path:
    path = tmp_path / "notes.csv"
    OWN[["note_id", "patient_id", "admission_id", "note_type", "date", "text"]].to_csv(path, index=False)
    return path


@pytest.fixture
def identifiers(tmp_path) -> Path:
    path = tmp_path / "patients.csv"
    codes = HOSPITAL.patients["icd_codes"].map(" ".join)
    HOSPITAL.patients.drop(columns="split").assign(icd_codes=codes).to_csv(path, index=False)
    return path


def seen_in(path: Path, **options) -> Seen:
    """What an import sees; the cohort that it writes is thrown away."""
    with TemporaryDirectory() as folder:
        return import_notes(path, Path(folder), **options)


def lines(path: Path, *rows: str) -> Path:
    path.write_text("patient_id,text\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_the_notes_are_those_of_the_file_split_by_patient(notes_file):
    corpus = read_notes(notes_file, canaries=0)
    assert corpus.notes["text"].tolist() == OWN["text"].tolist()
    assert corpus.notes["note_id"].tolist() == OWN["note_id"].tolist()
    assert list(corpus.notes.columns) == NOTES.names and list(corpus.patients.columns) == PATIENTS.names
    splits = corpus.notes.groupby("patient_id")["split"].nunique()
    assert (splits == 1).all()
    counts = Counter(corpus.patients["split"])
    assert counts == {"member": round(0.7 * 32), "heldout": 32 - round(0.7 * 32)}


def test_a_split_of_the_file_is_used_and_remembered(tmp_path):
    columns = ["note_id", "patient_id", "text"]
    every = ["member", "heldout", "population", "heldout"]
    splits = {who: every[place % 4] for place, who in enumerate(OWN["patient_id"].unique())}
    OWN[columns].assign(split=OWN["patient_id"].map(splits)).to_csv(tmp_path / "given.csv", index=False)
    OWN[columns].to_csv(tmp_path / "chance.csv", index=False)
    given, chance = (seen_in(tmp_path / f"{name}.csv", canaries=0) for name in ("given", "chance"))
    assert given.spec.split == "given" and chance.spec.split is None
    assert given.members == sum(split == "member" for split in splits.values())
    (told,) = [remark for remark in given.remarks if "who is a member" in remark]
    assert "chance" in told and told not in chance.remarks


def test_with_a_table_of_identifiers_the_places_are_the_hospitals_own(notes_file, identifiers):
    """The synthetic hospital knows exactly where it wrote whose identifiers: the import must find the same places."""
    corpus = read_notes(notes_file, identifiers=identifiers, canaries=0)
    for mine, theirs in zip(corpus.notes["phi_spans"], OWN["phi_spans"], strict=True):
        known = {(span["start"], span["end"]) for span in theirs if span["field"] in DIRECT}
        found = [(span["start"], span["end"]) for span in mine]
        assert all(any(a <= start and end <= b for a, b in found) for start, end in known)
    joined = corpus.patients.set_index("patient_id").join(HOSPITAL.patients.set_index("patient_id"), rsuffix="_true")
    assert (joined["full_name"] == joined["full_name_true"]).all()
    assert [list(codes) for codes in joined["icd_codes"]] == [list(codes) for codes in joined["icd_codes_true"]]
    assert (joined["age"] == joined["age_true"]).all()


def test_without_one_a_record_is_what_the_notes_of_one_patient_alone_say(tmp_path):
    path = lines(
        tmp_path / "n.csv",
        'A,"Patient: Maria Keller, SSN 514-22-9078, ward phone (415) 555-0142. Dr. Adaeze Okonkwo"',
        'A,"Mrs. Keller and Ms. Paula Stone"',
        'A,"Maria Keller again"',
        'B,"Name: John Fuller, ward phone (415) 555-0142. Dr. Adaeze Okonkwo"',
        'C,"nothing at all"',
        'D,"Mr. John Q. Public"',
    )
    people = read_notes(path, canaries=0).patients.set_index("patient_id")
    assert people.loc["A", "full_name"] == "Maria Keller" and people.loc["A", "ssn"] == "514-22-9078"
    assert people.loc["B", "full_name"] == "John Fuller"
    assert people["phone"].isna().all(), "the ward's number stands in two patients' notes"
    assert pd.isna(people.loc["C", "full_name"])


def test_the_spec_names_the_content_and_nothing_else_changed(notes_file, tmp_path):
    first, again = read_notes(notes_file), read_notes(notes_file)
    assert first.spec == again.spec and first.spec.imported == first.content_id()
    assert read_notes(notes_file, seed=1).spec.digest() != first.spec.digest()
    assert read_notes(notes_file, owner="me").spec.imported != first.spec.imported
    first.write(tmp_path)
    back = Corpus.read(tmp_path)
    assert back.spec == first.spec and back.content_id() == first.spec.imported


@pytest.fixture
def odd_file(tmp_path) -> Path:
    """Copies, near copies, blank notes, carriage returns, other names of columns, packed."""
    odd = OWN[["text", "patient_id"]].assign(text=OWN["text"].str.replace(". ", ".\r\n", n=1, regex=False))
    nearly = odd.head(40).assign(text=odd["text"].head(40).str.upper() + " again")
    odd = pd.concat([odd, nearly, odd.iloc[40:50], odd.head(3).assign(text=" \t\x1f ")])
    odd.rename(columns={"text": "Befund", "patient_id": "Fall"}).to_csv(tmp_path / "odd.csv.gz", index=False)
    return tmp_path / "odd.csv.gz"


@pytest.mark.parametrize(
    ("options", "imported", "digest"),
    [
        ({}, "705907ff46b947c0", "213757a7bb11"),
        ({"identifiers": True}, "6aa96efdbd3977a0", "e1c0a2b7c34e"),
        ({"owner": "me", "seed": 3, "population": 0.2, "canaries": 12}, "4cc5e1f2638a4cb4", "af85a9d83100"),
        ({"odd": True}, "20e303e4adf99909", "97cc657f36c1"),
        ({"odd": True, "deduplicate": "exact"}, "35ae5519c3ea423c", "cb38b5278040"),
        ({"odd": True, "deduplicate": "near"}, "051a53242ffe9952", "01c70c18a14b"),
    ],
)
def test_the_same_file_is_the_cohort_it_always_was(notes_file, identifiers, odd_file, options, imported, digest):
    """Recorded while notes were still imported in memory as a whole: runs and ledgers name cohorts by these.

    Those of the odd file with its near copies were recorded again when the forms of a value began to count together.
    """
    options = dict(options)
    path, columns = (odd_file, {"note": "Befund", "patient": "Fall"}) if options.pop("odd", False) else (notes_file, {})
    if options.get("identifiers"):
        options["identifiers"] = identifiers
    spec = seen_in(path, columns=columns, detector=SHAPES, **options).spec
    assert spec.detector is None, "older cohorts were searched for shapes, and their specs do not say so"
    assert spec.deduplicated == options.get("deduplicate"), "ε does not speak of copies that were left out"
    assert spec.identifiers == ("table" if "identifiers" in options else None), "scrubbing with DP needs a table"
    bare = spec.model_copy(update={"deduplicated": None, "identifiers": None})
    assert (spec.imported, bare.digest()) == (imported, digest)


def test_the_best_detector_is_the_default_and_the_spec_names_it(notes_file):
    seen = seen_in(notes_file)
    assert (seen.detector, seen.detector_lacks) == (WITH_TAGGER, "")
    assert seen.spec.detector == WITH_TAGGER
    assert seen_in(notes_file, detector=SHAPES).spec.detector is None


def test_without_memory_for_the_tagger_the_rules_search_and_say_so(notes_file, monkeypatch):
    monkeypatch.setattr("core.corpus.importing.memory.free_memory", lambda: 400_000_000)
    monkeypatch.setattr("core.phi.detector.tagger.loaded", lambda: False)  # another test may have loaded it
    seen = seen_in(notes_file)
    assert seen.detector == seen.spec.detector == RULES
    assert "needs 450 MB of memory" in seen.detector_lacks


def test_given_splits_too_are_the_cohort_they_always_were(tmp_path):
    path = tmp_path / "given.parquet"
    OWN[["note_id", "patient_id", "split", "text", "date"]].assign(date=pd.to_datetime(OWN["date"])).to_parquet(path)
    assert seen_in(path, detector=SHAPES).spec.imported == "e7e5982e3f349649"


def test_what_was_seen_is_what_was_written(notes_file, tmp_path):
    (tmp_path / "cohort").mkdir()
    seen = import_notes(notes_file, tmp_path / "cohort")
    corpus = Corpus.read(tmp_path / "cohort")
    own = corpus.notes[corpus.notes["split"] != "canary"]
    found = Counter(span["field"] for spans in own["phi_spans"] for span in spans)
    assert corpus.spec == seen.spec and corpus.content_id() == seen.spec.imported and dict(found) == seen.found
    assert seen.notes == len(own) and seen.notes_with_phi == own["phi_spans"].map(len).gt(0).sum()
    assert (seen.members, seen.heldout) == (22, 10) and seen.patients == len(corpus.patients)
    assert seen.canaries == len(corpus.canaries) and seen.planted == corpus.canaries["inserted"].sum()
    assert seen.training_notes == (own["split"] == "member").sum()
    assert sorted(path.name for path in (tmp_path / "cohort").iterdir()) == [
        "canaries.parquet",
        "notes.parquet",
        "patients.parquet",
        "spec.json",
    ]


def test_a_synthetic_spec_says_nothing_about_imports():
    assert "imported" not in CorpusSpec().model_dump() and "imported" not in RunSpec().model_dump_json()
    assert CorpusSpec(imported="0" * 16).digest() != CorpusSpec().digest()
    assert RunSpec().run_id == "gpt2-" + RunSpec().digest()
    shipped = Path(__file__).resolve().parents[3] / "assets/demo/corpora"
    names = ("classroom", "classroom-12k", "classroom-48k", "classroom-audit")
    hospitals = {CORPUS_PRESETS[name].digest() for name in names}
    assert {folder.name for folder in shipped.iterdir()} == hospitals


def test_canaries_are_planted_by_coin_into_imported_notes(notes_file):
    corpus = read_notes(notes_file, canaries=12)
    assert len(corpus.canaries) == 12 == corpus.spec.canaries
    planted = corpus.canaries[corpus.canaries["inserted"]]
    assert (corpus.notes["split"] == "canary").sum() == planted["insertions"].sum()
    assert set(corpus.training_notes()["split"]) == {"member", "canary"}


@given(st.integers(0, 100_000))
def test_fitting_canaries_are_at_most_a_twentieth_of_the_training_notes(notes):
    canaries = fitting_canaries(notes)
    assert canaries % 6 == 0 and 0 <= canaries <= 48
    assert canaries * (1 + 2 + 4 + 8) / 4 / 2 <= 0.05 * notes


@given(st.sets(st.text(min_size=1, max_size=4), min_size=4, max_size=60), st.floats(0, 0.5), st.integers(0, 9))
def test_the_split_is_70_30_of_who_is_not_kept_apart(patients, population, seed):
    splits = split_patients(sorted(patients), population=population, seed=seed)
    counts = Counter(splits.values())
    rest = len(patients) - counts["population"]
    assert counts["population"] == min(round(population * len(patients)), len(patients) - 4)
    assert counts["member"] == round(0.7 * rest) and counts["heldout"] >= 1
    assert splits == split_patients(sorted(patients, reverse=True), population=population, seed=seed)


def test_given_splits_are_kept(tmp_path):
    path = tmp_path / "n.csv"
    path.write_text(
        "patient_id,text,split\nA,x,member\nB,y,heldout\nC,z,Population\nD,w,member\nA,v,member\nE,u,heldout\n"
    )
    people = read_notes(path).patients.set_index("patient_id")["split"].to_dict()
    assert people == {"A": "member", "B": "heldout", "C": "population", "D": "member", "E": "heldout"}


def test_usual_column_names_are_guessed_in_any_case():
    assert guess_columns(["ROW_ID", "SUBJECT_ID", "TEXT", "Category", "other"]) == {
        "note": "TEXT",
        "patient": "SUBJECT_ID",
        "type": "Category",
        "note_id": "ROW_ID",
    }


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("patient,words\nA,x\n", "say which column holds the note"),
        ("text,words\nA,x\n", "say which column holds the patient"),
        ("patient_id,text\n,x\n", "row 2, column “patient_id”: the cell is empty"),
        ("patient_id,text,note_id\nA,x,1\nB,y,2\nC,z,1\n", "row 4, column “note_id”: note “1” is already in row 2"),
        (
            "patient_id,text,split\nA,x,member\nB,y,heldout\nA,z,heldout\n",
            "row 4, column “split”: patient “A” is “heldout”",
        ),
        ("patient_id,text,split\nA,x,train\n", "row 2, column “split”: “train” is not a split"),
        (
            "patient_id,text,split\nA,x,member\nB,y,member\nC,z,member\nD,w,member\n",
            "there must be members and held-out",
        ),
        ("patient_id,text\nA,x\nA,y\n", "notes of 1 patient. At least 4"),
        ("patient_id,text\nA, \n", "notes of 0 patients"),
        ("patient_id,text\nC0001,x\nB,y\nD,z\nE,w\n", "row 2: the patient id “C0001” looks like a canary's"),
    ],
)
def test_what_cannot_be_used_is_named_by_row_and_column(tmp_path, content, complaint):
    path = tmp_path / "notes.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadNotes, match=complaint):
        seen_in(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("full_name\nx\n", "has no column “patient_id”"),
        ("patient_id,age\nA,old\n", "row 2, column “age”: “old” is not an age"),
        ("patient_id,ssn\nA,1\nB,2\nA,3\n", "row 4, column “patient_id”: patient “A” is already in row 2"),
        ("patient_id,ssn\n,1\n", "row 2, column “patient_id”: there is no patient id"),
        (
            "patient_id,Admission ID,SSN\nA,1,5\nB,2,6\nA,3,\nA,4,7\n",
            "row 5, column “SSN”: row 2 has another value for patient “A”",
        ),
        (
            "patient_id,admission_id,ssn,age\nA,1,,\nA,2,5,70\nA,3,,71\n",
            "row 4, column “age”: row 3 has another value for patient “A”",
        ),
        (
            "patient_id,admission_id\nA,1\nB,1\n",
            "row 3, column “admission_id”: admission “1” is another patient's in row 2",
        ),
    ],
)
def test_a_bad_table_of_identifiers_is_named_too(notes_file, tmp_path, content, complaint):
    path = tmp_path / "ids.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadNotes, match=complaint):
        seen_in(notes_file, identifiers=path)


@pytest.fixture
def stays(tmp_path) -> Path:
    """Codes of admissions: two rows of one, an admission without a note, and codes of no admission."""
    path = tmp_path / "stays.csv"
    path.write_text(
        "patient_id,admission_id,full_name,age,icd_codes\n"
        "A,A1,Maria Keller,70,E119+ I10 E11.9\nA,A2,,,J449\nA,A2,Maria Keller,70,I10\nA,A9,,,C50\nA,,,,Z87\n"
        "B,B1,John Fuller,50,I10\nC,C1,,,\nD,,,,\n"
    )
    return path


def test_a_table_of_admissions_says_which_of_them_has_which_codes(tmp_path, stays):
    path = tmp_path / "n.csv"
    path.write_text(
        "patient_id,admission_id,text\nA,A1,Maria Keller is well\nA,A2,she left\nB,B1,he left\nC,C1,x\nD,,y\n"
    )
    corpus = read_notes(path, identifiers=stays, canaries=0)
    people = corpus.patients.set_index("patient_id")
    assert people.loc["A", "full_name"] == "Maria Keller" and people.loc["A", "age"] == 70
    assert {who: list(codes) for who, codes in people["icd_codes"].items()} == {
        "A": ["E11.9", "I10", "J44.9", "C50", "Z87"],
        "B": ["I10"],
        "C": [],
        "D": [],
    }
    assert list(corpus.diagnoses[["patient_id", "admission_id", "code"]].itertuples(index=False, name=None)) == [
        ("A", "A1", "E11.9"),
        ("A", "A1", "I10"),
        ("A", "A2", "J44.9"),
        ("A", "A2", "I10"),
        ("B", "B1", "I10"),
    ]
    assert corpus.content_id() == corpus.spec.imported
    (tmp_path / "cohort").mkdir()
    corpus.write(tmp_path / "cohort")
    tables = PatientTables(tmp_path / "cohort" / "patients.parquet", tmp_path / "cohort" / "notes.parquet")
    assert len(tables.profile("admission")["codes"]) == 3, "the admissions that have codes and a note"


def test_a_sex_is_understood_in_the_usual_ways_to_write_it(tmp_path):
    table, path = tmp_path / "ids.csv", tmp_path / "n.csv"
    table.write_text("patient_id,sex\nA,M\nB,male\nC, f \nD,Woman\nE,other\nF,\n")
    path.write_text("patient_id,text\n" + "".join(f"{who},seen {who}\n" for who in "ABCDEF"))
    people = read_notes(path, identifiers=table, canaries=0).patients.set_index("patient_id")["sex"]
    assert people.dropna().to_dict() == {"A": "M", "B": "M", "C": "F", "D": "F", "E": "other"}


def test_notes_and_table_must_agree_whose_an_admission_is(tmp_path, stays):
    path = tmp_path / "n.csv"
    path.write_text("patient_id,admission_id,text\nA,A1,x\nB,A2,y\nC,C1,z\nD,,w\n")
    with pytest.raises(BadNotes, match="row 3: admission “A2” belongs to patient “B” here and to “A” in the table"):
        seen_in(path, identifiers=stays)


def test_copies_and_blanks_are_counted_and_can_be_left_out(tmp_path):
    long = "she came with a cough and left with a prescription for a week of rest at home"
    rows = [f"A,{long}", f"A,{long.upper()}", f"B,{long} today", "B,short", "C,short", "D,  ", "D,own words", "E,other"]
    path = lines(tmp_path / "n.csv", *rows)
    seen = seen_in(path)
    assert (seen.rows, seen.blank, seen.copies, seen.near_copies, seen.removed) == (8, 1, 2, 3, 0)
    assert seen_in(path, deduplicate="exact").notes == 5
    near = seen_in(path, deduplicate="near")
    assert (near.removed, near.copies, near.near_copies) == (3, 2, 3)
    assert read_notes(path, deduplicate="near").notes["text"].tolist() == [long, "short", "own words", "other"]


@pytest.mark.parametrize("options", [{"population": 0.9}, {"canaries": -1}, {"deduplicate": "all"}])
def test_options_out_of_range_are_refused(notes_file, options):
    with pytest.raises(ValueError):
        seen_in(notes_file, **options)


@pytest.mark.parametrize(
    ("code", "revision", "expected"),
    [
        ("4019", "ICD-9", "401.9"),
        ("V5861", "ICD-9", "V58.61"),
        ("E8788", "ICD-9", "E878.8"),
        ("486", "ICD-9", "486"),
        ("E119", "ICD-10", "E11.9"),
        ("e11.9", "ICD-10", "E11.9"),
        ("I10", "ICD-10", "I10"),
    ],
)
def test_codes_get_their_dot(code, revision, expected):
    assert dotted(code, revision) == expected


def test_a_column_says_which_revision_it_is_of():
    assert revision_of(["4019", "V5861", "E8788", "25000"]) == "ICD-9"
    assert revision_of(["E119", "I10", "V1043", "Z8679"]) == "ICD-10"
    assert codes_in(" e11.9; I10,I10|J44 ") == ["E11.9", "I10", "J44"]
    assert codes_in("E11.9+ H36.0* e11.9 U80.00! -") == ["E11.9", "H36.0", "U80.00"], "marks of national editions"
