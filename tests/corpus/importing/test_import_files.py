"""Files that cannot be trusted: every fault is a sentence with its row and column."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.corpus.importing import files
from core.corpus.importing.columns import Remarks
from core.corpus.importing.files import BadNotes, chunks, head, header
from core.corpus.importing.note_tables import read_file
from core.corpus.importing.spool import RawNotes

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=30)


def written(folder: Path, content: bytes, name: str = "notes.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def read(path: Path, *names: str, **options) -> list[list[str]]:
    return [list(row) for cells in chunks(path, names, **options) for row in zip(*cells.columns.values(), strict=True)]


@settings(max_examples=60)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_what_csv_writes_is_what_is_read(tmp_path_factory, rows, separator):
    text = io.StringIO()
    csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL).writerows([("a", "b"), *rows])
    path = written(tmp_path_factory.mktemp("csv"), text.getvalue().encode())
    assert read(path, "a", "b") == [list(row) for row in rows]
    packed = written(path.parent, gzip.compress(text.getvalue().encode()), "notes.csv.gz")
    assert read(packed, "b") == [[row[1]] for row in rows]


def test_parquet_gives_the_same_text(tmp_path):
    frame = pd.DataFrame({"id": [1.0, None], "day": pd.to_datetime(["2020-01-02", None]), "text": ["é\n", None]})
    frame.to_parquet(tmp_path / "notes.parquet")
    assert read(tmp_path / "notes.parquet", "id", "text") == [["1", "é\n"], ["", ""]]
    assert read(tmp_path / "notes.parquet", "day")[0][0].startswith("2020-01-02")


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_a_parquet_date_that_no_calendar_has_is_named(tmp_path, kind):
    far = 2**31 - 1 if kind == pa.date32() else 2**62
    days = pa.array([0, far], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    pq.write_table(pa.table({"day": days}), tmp_path / "notes.parquet")
    with pytest.raises(BadNotes, match="row 3, column “day”: the date is before the year 1 or after 9999"):
        read(tmp_path / "notes.parquet", "day")


def test_parquet_text_without_its_annotation_is_text(tmp_path):
    path = tmp_path / "old.parquet"
    pq.write_table(pa.table({"text": pa.array(["Naïve".encode(), None], pa.binary())}), path)
    assert read(path, "text") == [["Naïve"], [""]]
    pq.write_table(pa.table({"text": pa.array(["Naïve".encode("latin-1")], pa.binary())}), path)
    with pytest.raises(BadNotes, match="row 2, column “text”: the text is not UTF-8"):
        read(path, "text")


@pytest.mark.parametrize(
    ("content", "row"),
    [
        (b"sep=;\r\nid;text\r\n1;a, b, c\r\n", 3),
        (b"SEP=|\nid|text\n1|a, b, c\n", 3),
        (b'id;"text, all, of, it"\n1;"a, b, c"\n', 2),
        (b"\n \nid;text\n1;a, b, c\n", 4),
        (b"\xef\xbb\xbf\nid\ttext\n1\ta, b, c\n", 3),
    ],
)
def test_the_separator_is_what_the_header_has_outside_quotes(tmp_path, content, row):
    path = written(tmp_path, content)
    names = header(path)
    assert names[0] == "id" and names[1].startswith("text")
    assert read(path, *names) == [["1", "a, b, c"]]
    assert [number for cells in chunks(path, ["id"]) for number in cells.rows] == [row]


@pytest.mark.parametrize(
    "content",
    [gzip.compress(b"", mtime=0), gzip.compress(b"\n\n", mtime=0), b"\xef\xbb\xbf", b"\n \n", b"sep=;\n"],
    # A name for each: a packed file holds the second in which it was made, and two processes would not collect the same
    ids=["packed empty", "packed lines", "byte order mark", "blank lines", "separator line"],
)
def test_a_file_without_a_record_is_empty(tmp_path, content):
    with pytest.raises(BadNotes, match=r"notes\.csv is empty\."):
        header(written(tmp_path, content))


def test_a_header_in_brackets_is_no_json(tmp_path):
    assert header(written(tmp_path, b"[patient_id],[text]\n1,a\n")) == ["[patient_id]", "[text]"]
    assert header(written(tmp_path, b"{note},id\n1,a\n")) == ["{note}", "id"]


def test_a_text_may_begin_like_a_zip_archive(tmp_path):
    assert header(written(tmp_path, b"PK_ID,text\n1,a\n")) == ["PK_ID", "text"]
    assert read(written(tmp_path, b"PKU screening.\n", "reports.txt"), "note") == [["PKU screening."]]


def test_a_preview_leaves_out_what_cannot_be_chosen(tmp_path):
    path = tmp_path / "notes.parquet"
    pq.write_table(pa.table({"id": ["1"], "labels": [["a", "b"]], "text": ["note"]}), path)
    assert head(path).to_dict("list") == {"id": ["1"], "text": ["note"]}
    assert list(head(written(tmp_path, b"id,x,x,text\n1,2,3,note\n"))) == ["id", "text"]
    with pytest.raises(BadNotes, match="no column of text that can be chosen"):
        head(written(tmp_path, b"x,x\n1,2\n"))


def test_documents_of_a_text_file_are_patients_and_their_pieces_notes(tmp_path):
    path = written(tmp_path, b"One.\nTwo.\n\n" + b"word " * 150, "reports.txt")
    assert header(path) == ["patient", "note"]
    rows = read(path, "note", "patient")
    assert [row[1] for row in rows] == ["document 1", "document 2", "document 2"]
    assert rows[0][0] == "One.\nTwo." and [len(row[0].split()) for row in rows[1:]] == [100, 50]
    assert [row for cells in chunks(path, ["note"]) for row in cells.rows] == [1, 4, 4]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"", "empty"), (b"  \n" * 40, "empty"), (b"a \xff b", "row 1.*not UTF-8"), (b"a\n\nb\0c", "row 3.*NUL byte")],
)
def test_a_bad_text_file_is_refused(tmp_path, content, sentence):
    with pytest.raises(BadNotes, match=sentence):
        read(written(tmp_path, content, "reports.txt"), "note")


def test_a_table_that_is_named_like_a_text_is_not_read_as_documents(tmp_path):
    table = b"patient_id,text\nP1,A cough.\nP2,A fall.\n"
    with pytest.raises(BadNotes, match=r"notes\.txt, row 1: this is the header of a table.*notes\.csv"):
        read_file_of(written(tmp_path, table, "notes.txt"))
    prose = "A “patient said.\n\nNo text.\n\nA fall.\n".encode()
    assert read_file_of(written(tmp_path, prose, "prose.txt"))["patient_id"].nunique() == 3


def read_file_of(path: Path) -> pd.DataFrame:
    """The notes of a file as an import reads them, without their texts."""
    return read_file(path, RawNotes(path.parent), {}, files.MOST_BYTES, lambda *_: None, Remarks())


def test_only_columns_that_are_read_must_be_utf8(tmp_path):
    """The preview refused a file for a cell of a column that an import leaves unread."""
    content = "patient,note,ward\n1,Caf\xe9,B\xe4r\n2,tea,\0\n".encode("latin-1")
    table = {"patient": ["1", "2"], "note": [b"Caf\xe9", b"tea"], "ward": [b"B\xe4r", b"\0"]}
    pq.write_table(pa.table(table), tmp_path / "binary.parquet")
    kinds = {"note": pa.string(), "ward": pa.string()}
    texts = {name: pa.array(cells).view(kinds[name]) if name in kinds else cells for name, cells in table.items()}
    pq.write_table(pa.table(texts), tmp_path / "text.parquet")
    for path in (written(tmp_path, content), tmp_path / "binary.parquet", tmp_path / "text.parquet"):
        shown = head(path).to_dict("list")
        assert shown == {"patient": ["1", "2"], "note": ["Caf\ufffd", "tea"], "ward": ["B\ufffdr", "\ufffd"]}
        assert read(path, "patient") == [["1"], ["2"]]
        with pytest.raises(BadNotes, match="row 2, column “note”: the text is not UTF-8"):
            read(path, "note")


def test_columns_and_head(tmp_path):
    path = written(tmp_path, "\ufeffa , b\n1,2\n\n3,4\n".encode())
    assert header(path) == ["a", "b"]
    assert head(path, 1).to_dict("records") == [{"a": "1", "b": "2"}]
    assert read(path, "b", "b") == [["2"], ["4"]]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "notes.csv is empty"),
        (b"  \n", "notes.csv is empty"),
        (b"a,b\n", "has a header and no rows"),
        (b"a,c\n1,2\n", "has no column “b”. Its columns are a, c"),
        (b"a,b,b\n1,2,3\n", "has two columns “b”"),
        (b"a,b\n1,2\n1,x\0y\n", "row 3, column “b”: there is a NUL byte"),
        ("a,b\n1,é\n".encode("latin-1"), "row 2, column “b”: the text is not UTF-8"),
        ("a,b\n1,é\n".encode("utf-16"), "row 1: the text is UTF-16"),
        ("a,b\n1,é\n".encode("utf-16-le"), "row 1: the text is UTF-16"),
        ("a,b\n1,é\n".encode("utf-16-be"), "row 1: the text is UTF-16"),
        (gzip.compress("a,b\n1,é\n".encode("utf-16"), mtime=0), "row 1: the text is UTF-16"),
        (b"PK\x03\x04 and so on", "is a ZIP archive or a spreadsheet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "is an old Excel or Word file. Save the table as CSV"),
        (b"%PDF-1.4\n%\xe2\xe3", "is a PDF. Save the table as CSV"),
        (bz2.compress(b"a,b\n1,2\n"), "is compressed, but not by gzip"),
        (b'{"patient_id": "P1", "text": "A cough, at night."}\n', "is JSON. Save it as CSV"),
        (b'[{"patient_id":"P1","text":"A cough."}]', "is JSON. Save it as CSV"),
        (b'\xef\xbb\xbf\n[\n  {"a": "b"}\n]\n', "is JSON. Save it as CSV"),
        (gzip.compress(b'{\n"a": 1}\n', mtime=0), "is JSON. Save it as CSV"),
        (b"a,b\n1,2\n1,2,3\n", "row 3: 3 cells, but the header names 2"),
        (b'a,b\n1,"' + b"x" * 4_000, "row 2: a cell has more than 3,000 characters. Perhaps a quote was opened"),
        (b'a,b\n1,"x\n2,y\n', "row 2: a quote was opened here and never closed"),
        (b'a,b\n1,2\n1,"x"y\n', "row 3: text follows a closing quote"),
        (b"a,b\r1,2\r", "row 1: a line ends with a carriage return only"),
        (b"a,b\n1," + b"x" * 9_000, "line 2 has more than"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "is a damaged gzip file"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 40_000, mtime=0), "expands to more than 100 times its size"),
        (b"PAR1 but no more", "is a damaged Parquet file"),
    ],
)
def test_faults_are_named(tmp_path, monkeypatch, content, complaint):
    monkeypatch.setattr(files, "MOST_CHARACTERS", 3_000)
    monkeypatch.setattr(files, "LONGEST_LINE", 8_000)
    monkeypatch.setattr(files, "RATIO_FROM", 50_000)
    with pytest.raises(BadNotes, match=complaint):
        read(written(tmp_path, content), "a", "b")


def test_a_file_that_expands_too_far_is_left_alone(tmp_path):
    path = written(tmp_path, b"a,b\n" + b"1,2\n" * 1_000)
    with pytest.raises(BadNotes, match="expands to more than"):
        read(path, "a", most_bytes=1_000)
    pd.DataFrame({"a": ["x" * 100] * 100}).to_parquet(tmp_path / "notes.parquet")
    with pytest.raises(BadNotes, match="expands to more than"):
        read(tmp_path / "notes.parquet", "a", most_bytes=1_000)


def test_a_missing_file_and_lists_are_named(tmp_path):
    with pytest.raises(BadNotes, match="There is no file"):
        header(tmp_path / "nowhere.csv")
    pd.DataFrame({"a": [[1, 2]]}).to_parquet(tmp_path / "notes.parquet")
    with pytest.raises(BadNotes, match="column “a” contains lists"):
        read(tmp_path / "notes.parquet", "a")


def test_memory_holds_one_chunk_and_progress_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CHUNK", 10)
    path = written(tmp_path, b"a,b\n" + b"1,2\n" * 95)
    told: list[tuple[int, int]] = []
    sizes = [
        len(cells.rows) for cells in chunks(path, ["a"], on_progress=lambda done, total: told.append((done, total)))
    ]
    assert sizes == [10] * 9 + [5]
    assert told and all(0 < done <= total == path.stat().st_size for done, total in told)


@pytest.mark.parametrize("packed", [False, True])
def test_few_long_notes_report_progress_too(tmp_path, packed):
    """Progress was reported by lines alone, and without it no import foresees how much memory the file needs."""
    note = "".join(f"word {n} " for n in range(10_000))
    content = b"a,b\n" + f'1,"{note}"\n'.encode() * 100
    path = written(tmp_path, gzip.compress(content, compresslevel=1) if packed else content)
    told: list[int] = []
    list(chunks(path, ["b"], on_progress=lambda done, total: told.append(done)))
    assert len(told) >= len(content) // files.PROGRESS_BYTES - 1
    assert told == sorted(told) and told[-1] <= path.stat().st_size
