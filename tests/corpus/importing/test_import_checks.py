"""What an import refuses, with its row and column, and what it accepts and tells."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from core.corpus.importing.files import BadNotes, head
from core.corpus.importing.identifiers import identifiable
from core.corpus.importing.importer import Seen, import_notes, read_notes
from core.corpus.importing.reading import _own_admissions
from core.corpus.tables import Corpus
from core.phi.index import PhiIndex

NOTES = "patient_id,text\nA,she is well\nB,he is well\nC,they left\nD,seen at home\n"


@pytest.fixture
def imported(tmp_path):
    """Imports notes, and identifiers if there are any, given as the text of CSV files."""

    def run(notes: str = NOTES, identifiers: str | None = None) -> Seen:
        folder, path, table = tmp_path / "cohort", tmp_path / "notes.csv", tmp_path / "ids.csv"
        folder.mkdir(exist_ok=True)
        path.write_text(notes, encoding="utf-8")
        if identifiers is not None:
            table.write_text(identifiers, encoding="utf-8")
        return import_notes(path, folder, canaries=0, identifiers=None if identifiers is None else table)

    return run


def dated(*dates: str) -> str:
    return "patient_id,text,date\n" + "".join(
        f'{who},is well,"{date}"\n' for who, date in zip("ABCD", dates, strict=True)
    )


@pytest.mark.parametrize(
    ("date", "complaint"),
    [
        ("31/31/2020", "row 4, column “date”: “31/31/2020” is not a day in the calendar"),
        ("yesterday", "row 4, column “date”: “yesterday” is not a date"),
        ("1/5/20", "row 4, column “date”: “1/5/20” has a two-digit year"),
        ("43831", "row 4, column “date”: “43831” looks like a spreadsheet's serial number"),
        ("12/31/2020", "row 4, column “date”: “12/31/2020” has the month first, but row 2 .“31/12/2020”. does not"),
    ],
)
def test_bad_dates_of_notes(imported, date, complaint):
    with pytest.raises(BadNotes, match=f"notes.csv, {complaint}"):
        imported(dated("31/12/2020", "", date, "03/04/2020"))


def test_dates_to_come_are_told_with_their_row(imported):
    seen = imported(dated("2020-01-01", "2150-02-03 10:00", "2150-02-03", ""))
    assert seen.remarks == (
        "2 rows: the date is in the future, as in data sets that shift dates (first: notes.csv, row 3, column “date”).",
    )


def test_dates_are_kept_as_they_are_written_without_their_time(imported, tmp_path):
    imported(dated("3/4/2020 9:30 AM", "January 25, 2020", "2020-01-05T10:00:00Z", ""))
    dates = pd.read_parquet(tmp_path / "cohort" / "notes.parquet")["date"].tolist()
    assert dates == ["3/4/2020", "January 25, 2020", "2020-01-05", ""]


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("patient_id,icd_codes\nA,E119\nB,I10 <script>\n", "row 3, column “icd_codes”: “<SCRIPT>” is not an ICD"),
        ("patient_id,admission_id,ICD Codes\nA,1,E119\nA,2,soon\n", "row 3, column “ICD Codes”: “SOON” is not an ICD"),
        ("patient_id,sex\nA,F\nB,purple\n", "row 3, column “sex”: “purple” is not a sex. Write M, F, X"),
        ("patient_id,age\nA,inf\n", "row 2, column “age”: “inf” is not an age"),
        ("patient_id,age\nA,70\nB,-1\n", "row 3, column “age”: “-1” is not an age"),
        ("patient_id,age\nA,NaN\n", "row 2, column “age”: “NaN” is not an age"),
        ("patient_id,age\nA," + "9" * 400 + "\n", "row 2, column “age”: “9{20}…” is not an age"),
        ("patient_id,date_of_birth\nA,31/31/1950\n", "row 2, column “date_of_birth”: “31/31/1950” is not a day"),
        ("patient_id,date_of_birth\nA,22/3/57\n", "row 2, column “date_of_birth”: .* two-digit year"),
        (
            "patient_id,ssn\nX1,1\nX2,2\n",
            "row 2, column “patient_id”: none of its 2 patients has a note. .* “X1”, notes.csv with “A”",
        ),
        ("patient_id,colour\nA,red\n", "has no column of identifiers besides “patient_id”. Known columns: full_name"),
        ("patient_id,ssn,SSN\nA,1,2\n", "has 2 columns for ssn: ssn, SSN. Keep one"),
        ("patient_id,ssn,ssn\nA,1,2\n", "has 2 columns for ssn: ssn, ssn. Keep one"),
    ],
)
def test_bad_tables_of_identifiers(imported, table, complaint):
    with pytest.raises(BadNotes, match=f"ids.csv,? {complaint}"):
        imported(identifiers=table)


def test_numbers_are_no_notes(imported):
    with pytest.raises(BadNotes, match="row 2, column “text”: “120” contains no letter, nor do 3 of the 4 notes"):
        imported("patient_id,text\nA,120\nB,121\nC,well\nD,\n122.5,122.5\n".replace("122.5,", "E,"))


def test_a_few_wordless_notes_are_told(imported):
    seen = imported(NOTES + "A,120/80\nB,---\n")
    assert seen.remarks == ("2 rows: the note contains no letter (first: notes.csv, row 6, column “text”).",)


def test_letters_of_any_script_make_a_note(imported):
    assert not imported("patient_id,text\nA,咳嗽\nB,кашель\nC,سعال\nD,खांसी\n").remarks


def test_patients_of_the_table_without_notes_are_told(imported):
    seen = imported(identifiers="patient_id,ssn\nA,514-22-9078\nX,514-22-9079\nY,514-22-9070\n")
    assert seen.remarks == ("2 rows: the patient has no note (first: ids.csv, row 3, column “patient_id”).",)


@pytest.mark.parametrize("again", ["A\u200b", "\ufeffA", "A\u00a0", "\u00a0A"])
def test_one_patient_whose_id_holds_what_is_invisible_is_one_patient(imported, again):
    """They were two: trained on by one half of their notes, and held out by the other."""
    assert imported(f"{NOTES}{again},seen again\n").patients == 4


def test_an_id_has_one_form_in_notes_and_table_and_admissions(imported, tmp_path):
    notes = "patient_id,admission_id,text\nZoe\u0301 1,S\u00a01,is well\nZo\u00e9\u00a01,S  1,again\nB,,b\nC,,c\nD,,d\n"
    table = "patient_id,admission_id,ssn,icd_codes\nZoe\u0301  1,S\u200b 1,514-22-9078,E11.9\nB,,,\nC,,,\nD,,,\n"
    assert imported(notes, table).patients == 4
    cohort = Corpus.read(tmp_path / "cohort")
    assert set(cohort.notes["admission_id"]) == {"S 1", "B", "C", "D"}
    assert cohort.diagnoses["admission_id"].tolist() == ["S 1"]
    assert cohort.patients.set_index("patient_id").loc["Zo\u00e9 1", "ssn"] == "514-22-9078"


@pytest.mark.parametrize("again", ["p7", "P007", "P 7", "P7.0", "Ｐ７"])
def test_a_patient_who_may_be_another_one_is_told(imported, again):
    seen = imported(f"{NOTES}P7,is well\n{again},again\n{again},once more\n")
    assert seen.patients == 6
    (remark,) = seen.remarks
    assert remark.startswith("2 rows: the patient id differs from an earlier one only in case")
    assert remark.endswith("(first: notes.csv, row 7, column “patient_id”).")


def test_ids_that_only_look_alike_are_no_warning(imported):
    assert imported(f"{NOTES}P7,a\nP70,b\nP17,c\nP7.1,d\nQ7,e\n7,f\n").remarks == ()


@pytest.mark.parametrize(
    ("field", "number", "noted"), [("mrn", "4410937", "MRN 4410937"), ("phone", "4155550142", "(415) 555-0142")]
)
def test_a_number_that_a_program_has_made_a_fraction_is_found(imported, tmp_path, field, number, noted):
    """Its digits were searched with the 0 of “.0”, found nowhere, and the patient still counted as identifiable."""
    imported(f"patient_id,text\nA,seen; {noted}.\nB,b\nC,c\nD,d\n", f"patient_id,{field}\nA,{number}.0\nB,\n")
    cohort = Corpus.read(tmp_path / "cohort")
    assert cohort.patients.set_index("patient_id").loc["A", field] == number
    index = PhiIndex.build(cohort.patients)
    assert [index.values[value].stored for match in index.search(noted) for value in match.values] == [number]


@pytest.mark.parametrize("field", ["ssn", "mrn", "phone"])
def test_a_number_that_a_spreadsheet_has_shortened_is_no_identifier(imported, field):
    with pytest.raises(BadNotes, match=f"ids.csv, row 2, column “{field}”: “4.15556E\\+09” is a number that"):
        imported(identifiers=f"patient_id,{field}\nA,4.15556E+09\n")


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("patient_id,full_name\n1.23E+11,Maria Keller\n", "patient_id"),
        ("patient_id,admission_id,icd_codes\nA,1.23E+11,E119\n", "admission_id"),
    ],
)
def test_shortened_ids_of_the_table_are_refused(imported, table, column):
    with pytest.raises(BadNotes, match=f"ids.csv, row 2, column “{column}”: “1.23E.11” is a number that a spreadsheet"):
        imported(identifiers=table)


@pytest.mark.parametrize(
    ("field", "cell"),
    [
        ("full_name", "Not Available"),
        ("full_name", "[UNKNOWN  UNKNOWN]"),
        ("address", "No fixed address"),
        ("mrn", "N/A"),
        ("mrn", "N.A."),
        ("phone", "--"),
        ("date_of_birth", "unknown"),
    ],
)
def test_a_cell_that_says_not_known_is_no_identifier(imported, field, cell):
    seen = imported(identifiers=f"patient_id,{field}\nA,{cell}\nB,\nC,{cell}\n")
    (said,) = [remark for remark in seen.remarks if "counts as empty" in remark]
    assert said.startswith("2 rows: ") and f"(first: ids.csv, row 2, column “{field}”)" in said
    assert seen.without_identifier == seen.patients


def test_placeholders_are_no_ids(imported):
    """Rows of several people whose id is “n/a” became one patient, and their admissions one admission."""
    with pytest.raises(BadNotes, match="ids.csv, row 3, column “patient_id”: there is no patient id"):
        imported(identifiers="patient_id,admission_id,full_name\nA,1,Maria Keller\nn/a,2,Ann Lee\n")
    seen = imported(identifiers="patient_id,admission_id,icd_codes\nA,n/a,E119\nB,N/A,I10\n")
    assert seen.patients == 4


def test_a_table_of_identifiers_may_expand_no_further_than_the_notes(tmp_path):
    """It had the limit of commands, 8 GiB, where a page gives its own."""
    notes, table, folder = tmp_path / "notes.csv", tmp_path / "ids.csv", tmp_path / "cohort"
    notes.write_text(NOTES, encoding="utf-8")
    table.write_text(f"patient_id,full_name\nA,{'Maria ' * 100}Keller\n", encoding="utf-8")
    with pytest.raises(BadNotes, match="ids.csv expands to more than"):
        import_notes(notes, folder, identifiers=table, canaries=0, most_bytes=500)


def test_patients_without_any_usable_identifier_are_counted_not_rows(imported):
    """A row with empty cells, one word of a name or a year of birth is nothing that a text can be searched for."""
    seen = imported(identifiers="patient_id,full_name,date_of_birth,age\nA,Maria Keller,,70\nB,,,50\nC,Keller,1950,\n")
    assert (seen.without_record, seen.without_identifier, seen.patients) == (1, 3, 4)


def test_without_a_table_too(imported):
    seen = imported("patient_id,text\nA,Patient: Maria Keller\nB,he is well\nC,they left\nD,at home\n")
    assert (seen.without_record, seen.without_identifier) == (0, 3)


def test_identifiable_is_what_the_index_of_identifiers_would_find():
    """The oracle writes every value into a text and searches it."""
    from core.corpus.tables import PATIENTS
    from core.phi.index import PhiIndex

    rows = [
        {"full_name": "Maria Keller"},
        {"full_name": "Keller"},
        {"full_name": "Dr. Keller"},
        {"ssn": "514-22-9078"},
        {"ssn": "none"},
        {"mrn": "12"},
        {"mrn": "MRN"},
        {"phone": "(415) 555-0142"},
        {"phone": "-"},
        {"email": "a@b.org"},
        {"email": "a at b"},
        {"address": "12 Elm Street"},
        {"address": "Elm"},
        {"date_of_birth": "1950-01-02"},
        {"date_of_birth": "1950"},
        {"diagnosis": "asthma"},
        {},
    ]
    people = pd.DataFrame([{"patient_id": str(n), "split": "member", **row} for n, row in enumerate(rows)])
    people = people.reindex(columns=PATIENTS.names).astype(object).where(lambda frame: frame.notna(), None)
    direct = people.assign(diagnosis=None)
    found = 0
    for row in range(len(people)):
        index = PhiIndex.build(direct.iloc[[row]])
        text = " . ".join(f"MRN {value}" if name == "mrn" else value for name, value in rows[row].items())
        found += bool(list(index.search_all(text)))
    assert identifiable(people) == found == 7


@pytest.mark.parametrize("name", ["notes.parquet", "notes.PQ"])
def test_text_that_is_called_parquet_is_refused(tmp_path, name):
    path = tmp_path / name
    path.write_text(NOTES)
    for read in (lambda: head(path), lambda: import_notes(path, tmp_path)):
        with pytest.raises(BadNotes, match=f"{name} is not a Parquet file, although its name says so.*notes.csv"):
            read()


def test_births_are_kept_where_texts_are_searched_for_them_and_else_made_so(imported, tmp_path):
    table = "patient_id,date_of_birth\nA,22/03/1957\nB,19570322\nC,1957\nD,March 22nd 1957\n"
    seen = imported(identifiers=table)
    born = pd.read_parquet(tmp_path / "cohort" / "patients.parquet")["date_of_birth"].tolist()
    assert born == ["22/03/1957", "1957-03-22", "1957", "March 22nd 1957"]
    assert seen.without_identifier == 1, "a year is no day"
    assert "has the day first" in seen.remarks[0] and "ids.csv, row 2" in seen.remarks[0]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("pati\xebnt,text\nA,x\n".encode("latin-1"), "row 1: the names of the columns are not UTF-8"),
        (b"patient_id,text,TEXT\nA,x,y\n", "several columns for the note: text, TEXT. Say which"),
        (
            b"patient_id,text\n1.23457E+11,x\n",
            "row 2, column “patient_id”: “1.23457E.11” is a number that a spreadsheet",
        ),
        (b"patient_id,text\nA,\nB, \nC,\t\nD,\n", "notes of 0 patients"),
    ],
)
def test_odd_files(tmp_path, content, complaint):
    path = Path(tmp_path / "notes.csv")
    path.write_bytes(content)
    (tmp_path / "cohort").mkdir()
    with pytest.raises(BadNotes, match=complaint) as refused:
        import_notes(path, tmp_path / "cohort")
    assert str(refused.value).encode("utf-8"), "a page can show it"


def test_a_byte_order_mark_is_no_part_of_a_name(imported):
    assert imported("\ufeff" + NOTES, "\ufeffpatient_id,ssn\nA,514-22-9078\n").without_identifier == 3


def test_visits_that_are_numbered_for_each_patient_are_not_one_admission(imported, tmp_path):
    imported("patient_id,admission,text\nA,1,she is well\nA,2,still well\nB,1,he is well\nC,,they left\nD,7,seen\n")
    notes = pd.read_parquet(tmp_path / "cohort" / "notes.parquet").query("patient_id in ['A', 'B', 'C', 'D']")
    assert sorted(notes["admission_id"]) == ["2", "7", "A/1", "B/1", "C"]


def test_admission_ids_do_not_meet_again_after_the_patient_ids_are_put_before_them():
    """Visit 3 of P1/2 and visit 2/3 of P1 were both admission P1/2/3, and so judged as one."""
    pairs = [("P1/2", "3"), ("P1", "2/3"), ("P9", "3"), ("P9", "2/3"), ("P8", "P9/3"), ("P9", "3")]
    notes = _own_admissions(pd.DataFrame(pairs, columns=["patient_id", "admission_id"]))
    assert notes.groupby("admission_id")["patient_id"].nunique().eq(1).all()
    assert notes["admission_id"].nunique() == len(set(pairs))


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("ssn", "123-45-6789", "123 45 6789"),
        ("full_name", "Maria Keller", "Keller, Maria"),
        ("email", "m.keller@example.com", "M.Keller@example.com"),
    ],
)
def test_a_value_of_two_patients_is_a_warning_that_does_not_show_it(imported, field, one, other):
    said = imported(identifiers=f'patient_id,{field}\nA,"{one}"\nB,\nC,"{other}"\n').remarks
    (shared,) = [remark for remark in said if "an earlier patient's, too" in remark]
    assert "row 4" in shared
    assert one not in shared and other not in shared


def test_no_message_holds_a_whole_note(imported):
    """As where the column of texts is chosen as that of ids."""
    text = "Maria Keller was seen for chest pain and " + "x" * 200
    for notes in (
        f"patient_id,text,note_id\nA,a,{text}\nB,b,{text}\n",
        f"patient_id,text,split\nA,a,member\nB,b,{text}\n",
        f"patient_id,text,split\n{text},a,member\n{text},b,heldout\n",
    ):
        with pytest.raises(BadNotes) as refused:
            imported(notes)
        assert "chest pain" not in str(refused.value)


def test_admissions_that_a_spreadsheet_has_shortened_are_refused(imported):
    with pytest.raises(BadNotes, match="column “admission_id”: “1.23E.11” is a number .* several admissions may have"):
        imported("patient_id,text,admission_id\nA,is well,1.23E+11\nB,is well,1.23E+11\n")


@pytest.mark.parametrize("who", ["nan", "NaT", "None", "NULL", "NA", "n/a", "<NA>", "#N/A", "-", "?", "unknown"])
def test_notes_of_patients_who_are_not_known_are_not_taken_for_one_patients(imported, who):
    """Programs that export tables write such words for a missing id, in as many rows as have none."""
    with pytest.raises(BadNotes, match=f"row 6, column “patient_id”: “{re.escape(who)}” is not a patient's id"):
        imported(f"{NOTES}{who},he is ill\n{who},she is ill\n")


def test_a_column_with_a_usual_name_can_be_left_out(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("patient_id,text,split,id\nA,w,train,1\nB,x,test,1\nC,y,train,1\nD,z,test,1\n", encoding="utf-8")
    with pytest.raises(BadNotes, match=r"“train” is not a split\. Write .*, or choose no column for it"):
        read_notes(path, note_id="", canaries=0)
    with pytest.raises(BadNotes, match=r"Every note needs a unique id, or choose no column for it"):
        read_notes(path, split="", canaries=0)
    assert read_notes(path, split="", note_id="", canaries=0).spec.split is None


def test_rows_without_text_need_no_id(imported):
    """As a spreadsheet leaves them at the end of a table."""
    seen = imported(f"{NOTES},\n,\nNA,\n")
    assert (seen.rows, seen.notes, seen.blank, seen.patients) == (7, 4, 3, 4) and not seen.remarks


def test_a_row_of_identifiers_under_another_spelling_of_a_patients_id_is_told(imported):
    """Spreadsheets take zeros away: the patient's name is in the table, and none of its leaks could be counted."""
    notes = NOTES.replace("A,", "7,").replace("B,", "12,")
    seen = imported(notes, "patient_id,full_name\n007,Ann Ames\n12,Bo Berg\nZ,Zoe Zell\n")
    assert (seen.without_record, seen.without_identifier) == (3, 3)
    assert [remark.partition(" (first")[0] for remark in seen.remarks] == [
        "1 row: the patient has no note. A patient under an id that differs only in case, accents, blanks, dashes, "
        "leading zeros or a final “.0” has notes and no row. If both are one person, write the id in one way",
        "1 row: the patient has no note",
    ]


def test_a_patient_whose_rows_are_all_blank_has_no_note(imported):
    seen = imported(f"{NOTES}E, \n", "patient_id,full_name\nA,Ann Ames\nE,Eve Ernst\n")
    assert seen.remarks == ("1 row: the patient has no note (first: ids.csv, row 3, column “patient_id”).",)


def test_a_note_that_only_says_there_is_none_is_left_out_and_told(imported):
    seen = imported(f"{NOTES}A,nan\nB,NULL\nC,nan\nD,none reported today\nE,N/A\n")
    assert (seen.rows, seen.notes, seen.blank, seen.copies, seen.patients) == (9, 5, 4, 0, 4)
    assert seen.remarks == (
        "2 rows: “nan” says that there is no text, so the row is left out (first: notes.csv, row 6, column “text”).",
        "1 row: “NULL” says that there is no text, so the row is left out (first: notes.csv, row 7, column “text”).",
        "1 row: “N/A” says that there is no text, so the row is left out (first: notes.csv, row 10, column “text”).",
    )
