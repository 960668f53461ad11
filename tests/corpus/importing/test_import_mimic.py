"""A folder shaped like MIMIC-III, made here: read, re-identified with surrogates, and trained on like any cohort."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from core.corpus.icd_codes import condition_words
from core.corpus.importing import mimic
from core.corpus.importing.files import BadNotes
from core.corpus.importing.importer import import_notes, read_notes
from core.corpus.synthetic.records import sex_of
from core.corpus.tables import Corpus
from core.phi.detector.engine import SHAPES
from core.phi.fields import DIRECT
from core.runs.patients.queries import PatientTables

PEOPLE = (("10", "F", "2080-03-02"), ("11", "M", "2101-01-05"), ("12", "F", "1851-07-09"), ("13", "M", "2077-07-07"))
NOTES = (
    (
        "1",
        "10",
        "100",
        "2150-02-03",
        "Discharge summary",
        "",
        "Name: [**Known firstname 5**] [**Known lastname 658**]\n"
        "Admission Date: [**2150-2-1**]. Seen by Dr. [**Last Name (NamePattern1) 42**] at [**Hospital1 18**].",
    ),
    (
        "2",
        "10",
        "",
        "2150-02-04",
        "Nursing",
        "",
        "Ms. [**Known lastname 658**] rests. Call Dr. [**Last Name (NamePattern1) 42**].",
    ),
    (
        "3",
        "11",
        "101",
        "2151-05-06",
        "Nursing",
        "",
        "[**Known lastname 9**] is well. "
        "MRN [**Medical Record Number 77**], see Dr. "
        "[**Last Name (NamePattern1) 42**], tel [**Telephone/Fax (1) 1**]. [**Something odd**]",
    ),
    (
        "4",
        "12",
        "102",
        "2151-05-06",
        "Radiology",
        "",
        'A [**Age over 90 **] year old [**Female First Name (un) 3**], "quoted", and a comma.',
    ),
    ("5", "13", "103", "2151-05-06", "Nursing", "1", "Entered in error."),
    ("6", "13", "103", "2151-05-06", "Nursing", "", "No placeholder here."),
)


WARD, UNIT = r"\d+ (North|South|East|West)", r"[A-Z][\w -]+ Unit \d+"
STREET = r"[A-Z][a-z]+ (Avenue|Street|Drive|Lane|Road|Court)"
COHORT = "383b03e2992f"  # recorded when every kind of placeholder got a surrogate of its own kind


def quoted(*cells: str) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


@pytest.fixture
def folder(tmp_path) -> Path:
    tables = {
        "NOTEEVENTS": [
            quoted("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "ISERROR", "TEXT"),
            *(quoted(*note) for note in NOTES),
        ],
        "PATIENTS": ["row_id,subject_id,gender,dob", *(f"0,{who},{sex},{born} 00:00:00" for who, sex, born in PEOPLE)],
        "ADMISSIONS": ["SUBJECT_ID,HADM_ID,ADMITTIME", "10,100,2150-02-01 10:00:00", "12,102,2151-05-01 00:00:00"],
        "DIAGNOSES_ICD": [
            *("SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE", "10,100,1,4019", "10,100,2,E8788", "11,101,1,V5861", "11,101,2,")
        ],
    }
    for name, rows in tables.items():
        content = ("\n".join(rows) + "\n").encode()
        packed = name == "NOTEEVENTS"
        (tmp_path / f"{name}.csv{'.gz' * packed}").write_bytes(gzip.compress(content) if packed else content)
    return tmp_path


def test_every_note_but_errors_with_codes_ages_and_dates(folder):
    (folder / "cohort").mkdir()
    seen = import_notes(folder, folder / "cohort", canaries=0, detector=SHAPES)
    corpus = Corpus.read(folder / "cohort")
    notes, people = corpus.notes, corpus.patients.set_index("patient_id")
    assert seen.spec.digest() == corpus.spec.digest() == COHORT
    assert seen.records == "surrogates" and seen.marked_wrong == 1 and seen.unknown_placeholders == 1
    assert notes["note_id"].tolist() == ["1", "2", "3", "4", "6"]
    assert notes["admission_id"].tolist() == ["100", "10", "101", "102", "103"]
    assert [list(people.loc[who, "icd_codes"]) for who in ("10", "11")] == [["401.9", "E878.8"], ["V58.61"]]
    assert people.loc["10", "age"] == 69 and people.loc["12", "age"] == 90, "an age over 89"
    assert people.loc["10", "date_of_birth"] == "2080-03-02"
    assert "2150-2-1" in notes["text"].iloc[0], "dates are surrogates already"


@pytest.mark.parametrize(
    ("born", "admitted", "age"),
    [
        ("2080-03-02", "2150-03-01", 69),
        ("2080-03-02", "2150-03-02", 70),
        ("2080-02-29", "2081-02-28", 0),
        ("2080-03-02 00:00:00", "2081-03-02 14:05:00", 1),
        ("1851-07-09", "2151-05-06", 90),
        ("2080-03-02", "", None),
        ("2080-03-02", "2080-03-01", None),
    ],
)
def test_the_age_is_that_of_the_latest_birthday(born, admitted, age):
    assert mimic._age(born, admitted) == age


def test_admissions_have_the_codes_that_the_folder_gives_them(folder, tmp_path_factory):
    (folder / "D_ICD_DIAGNOSES.csv").write_text(
        'ROW_ID,ICD9_CODE,SHORT_TITLE,LONG_TITLE\n1,4019,Hypertension NOS,"Unspecified essential hypertension"\n'
    )
    corpus = read_notes(folder, canaries=0)
    rows = list(corpus.diagnoses.fillna("").itertuples(index=False, name=None))
    assert rows == [
        ("10", "100", "401.9", "Unspecified essential hypertension"),
        ("10", "100", "E878.8", ""),
        ("11", "101", "V58.61", ""),
    ]
    assert condition_words(corpus)["401.9"] == "essential hypertension"
    kept = tmp_path_factory.mktemp("cohort")
    corpus.write(kept)
    again = Corpus.read(kept)
    assert again.content_id() == corpus.spec.imported and len(again.diagnoses) == 3
    tables = PatientTables(kept / "patients.parquet", kept / "notes.parquet")
    assert len(tables.profile("admission")["codes"]) == 2, "the admissions that have codes"
    assert tables.described() == {"401.9": "Unspecified essential hypertension"}
    assert tables.codes() == ["401.9", "E878.8", "V58.61"]


def test_placeholders_become_the_patients_own_surrogates_and_are_marked(folder):
    corpus = read_notes(folder, canaries=0)
    assert not corpus.notes["text"].str.contains(r"\[\*\*").any()
    name = corpus.patients.set_index("patient_id")["full_name"]
    assert name.nunique() == 4
    assert [sex_of(name[who].split()[0]) for who, *_ in PEOPLE] == [sex for _, sex, _ in PEOPLE]
    first = corpus.notes.iloc[0]
    assert f"Name: {name['10']}\n" in first["text"]
    marked = {(first["text"][span["start"] : span["end"]], span["field"]) for span in first["phi_spans"]}
    assert (name["10"], "full_name") in marked
    assert f"Ms. {name['10'].split()[1]} rests" in corpus.notes["text"].iloc[1]


def test_one_number_is_one_doctor_everywhere_and_the_seed_decides(folder):
    texts = read_notes(folder, canaries=0).notes["text"]
    doctors = {name for text in texts for name in re.findall(r"Dr\. (\w+)", text)}
    assert len(doctors) == 1
    again, other = read_notes(folder, canaries=0).notes["text"], read_notes(folder, canaries=0, seed=1).notes["text"]
    assert texts.tolist() == again.tolist() != other.tolist()
    assert read_notes(folder, canaries=6, seed=2, detector=SHAPES).spec.digest() == "946f677e166d", (
        "recorded with COHORT"
    )


@pytest.mark.parametrize(
    ("table", "content", "complaint"),
    [
        ("NOTEEVENTS", "ROW_ID,SUBJECT_ID,TEXT\n1,10,x\n", "NOTEEVENTS.csv has no column “HADM_ID”"),
        (
            "NOTEEVENTS",
            "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n1,10,,,,x\n2,10,,,,y\n1,11,,,,z\n",
            "row 4, column “ROW_ID”: note “1” appears twice",
        ),
        (
            "NOTEEVENTS",
            "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n1,,,,,x\n",
            "row 2, column “SUBJECT_ID”: patient .none. is not in PATIENTS.csv",
        ),
        ("NOTEEVENTS", "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n", "has a header and no rows"),
        ("PATIENTS", "SUBJECT_ID,GENDER,DOB\n10,F,2080-03-02\n10,M,2080-03-02\n", "row 3, column “SUBJECT_ID”"),
        ("DIAGNOSES_ICD", "SUBJECT_ID,HADM_ID\n10,100\n", "has no column “ICD_CODE”"),
        (
            "DIAGNOSES_ICD",
            "SUBJECT_ID,ICD9_CODE\n10,<script>\n",
            "row 2, column “ICD9_CODE”: “<SCRIPT>” is not an ICD-9",
        ),
        ("PATIENTS", "SUBJECT_ID,GENDER,DOB\n10,purple,2080-03-02\n", "row 2, column “GENDER”: “purple” is not a sex"),
        (
            "PATIENTS",
            "SUBJECT_ID,GENDER,DOB\n10,other,2080-03-02\n",
            "row 2, column “GENDER”: “other” is neither M nor F",
        ),
        ("PATIENTS", "SUBJECT_ID,GENDER,DOB\n10,F,2080-13-02\n", "row 2, column “DOB”: “2080-13-02” is not a day"),
        (
            "ADMISSIONS",
            "SUBJECT_ID,HADM_ID,ADMITTIME\n10,100,soon\n",
            "row 2, column “ADMITTIME”: “soon” is not a date",
        ),
        (
            "NOTEEVENTS",
            "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n1,10,,yesterday,,x\n",
            "row 2, column “CHARTDATE”: “yesterday” is not a date",
        ),
    ],
)
def test_bad_tables_of_a_folder_are_named(folder, table, content, complaint):
    for path in folder.glob(f"{table}.csv*"):
        path.unlink()
    (folder / f"{table}.csv").write_text(content)
    with pytest.raises(BadNotes, match=complaint):
        read_notes(folder)


def test_what_a_folder_lacks_is_named(folder):
    (folder / "PATIENTS.csv").rename(folder / "people.csv")
    with pytest.raises(BadNotes, match="no file PATIENTS.csv or PATIENTS.csv.gz next to NOTEEVENTS"):
        read_notes(folder)
    (folder / "people.csv").rename(folder / "PATIENTS.csv")
    (folder / "PATIENTS.csv").write_text("SUBJECT_ID,GENDER,DOB\n10,F,2080-03-02\n")
    with pytest.raises(BadNotes, match="row 4, column “SUBJECT_ID”: patient “11” is not in PATIENTS.csv"):
        read_notes(folder)
    with pytest.raises(BadNotes, match="give the folder"):
        read_notes(folder / "NOTEEVENTS.csv.gz")


def test_a_table_that_is_there_twice_is_refused(folder):
    (folder / "noteevents.CSV").write_text("SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n")
    with pytest.raises(BadNotes, match="has NOTEEVENTS.csv.gz and noteevents.CSV. Remove one"):
        read_notes(folder)


def test_a_table_of_identifiers_beside_made_up_ones_is_refused(folder, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("patient_id,ssn\n10,123-45-6789\n11,123-45-6788\n")
    with pytest.raises(BadNotes, match="would name others. Leave the table out"):
        import_notes(folder, tmp_path / "cohort", identifiers=table)


def test_a_ward_a_unit_and_a_street_are_in_no_patients_record(folder):
    """What the import wrote and marked, from end to end: nobody but a patient is marked by name."""
    text = (
        "Moved from [**Hospital Ward Name 516**] to [**Hospital Unit Name 3**], lives in [**Street Name 4**]; "
        "[**Inpatient Ward 3**]."
    )
    rows = [quoted("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "TEXT")]
    rows += [quoted(str(n), who, "", "2150-02-03", "Nursing", text) for n, (who, *_) in enumerate(PEOPLE)]
    (folder / "NOTEEVENTS.csv.gz").write_bytes(gzip.compress(("\n".join(rows) + "\n").encode()))
    corpus = read_notes(folder, canaries=0)
    assert all(not {span["field"] for span in spans} & set(DIRECT) for spans in corpus.notes["phi_spans"])
    people = corpus.patients
    for text, who in zip(corpus.notes["text"], corpus.notes["patient_id"], strict=True):
        assert re.fullmatch(rf"Moved from {WARD} to {UNIT}, lives in {STREET}; {WARD}\.", text)
        names = people.loc[people["patient_id"] == who, "full_name"].item().split()
        assert not set(names) & set(text.split())
    assert people[["phone", "email", "address"]].isna().all(axis=None), "nothing in the notes says whose these are"
