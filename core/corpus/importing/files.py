"""Untrusted tables, read row by row: CSV (also gzipped), Parquet, and documents of plain text (.txt).

A text file becomes a table of two columns, `patient` and `note` (`core.corpus.text_documents`); its rows are lines.

Every error is a `BadNotes` whose message names the file, the row and the column. Rows are counted as in a spreadsheet:
the header is row 1. Memory holds one chunk at a time. No file can make it hold more, because lines, cells, the expanded
size and the compression ratio are bounded.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.corpus import text_documents

CHUNK = 2_000  # most rows held at once
CHUNK_CHARACTERS = 1_000_000  # most characters of their text held at once
MOST_CHARACTERS = 1_000_000  # in one cell; the longest notes of MIMIC-III have about 55,000
LONGEST_LINE = 16 * 2**20  # bytes up to a line feed
MOST_BYTES = 8 * 2**30  # expanded; NOTEEVENTS.csv of MIMIC-III has 3.8 GB
MOST_RATIO = 100  # expanded over compressed; notes compress about 3 to 8 times
RATIO_FROM = 16 * 2**20  # expanded bytes from which the ratio is checked
PROGRESS_BYTES = 2**20  # of text after which progress is reported, unless CHUNK lines come first

MOST_COLUMNS = 2_000
MOST_OF_A_NAME, MOST_NAMES = 60, 20  # characters of a column name, and names, that a message shows

_FORMATS = {  # by their first bytes: what is named .csv by mistake
    b"\xd0\xcf\x11\xe0": "an old Excel or Word file",
    b"%PDF": "a PDF",
    b"{\\rtf": "an RTF document",
    b"BZh91AY": "compressed, but not by gzip",
    b"\xfd7zXZ": "compressed, but not by gzip",
    b"\x28\xb5\x2f\xfd": "compressed, but not by gzip",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
}
_JSON = re.compile(r"\s*(?:\{|\[)\s*(?:[\[{\"].*)?", re.DOTALL)  # a header as “[patient_id],[text]” is none
_SEPARATOR_LINE = re.compile(r"sep=([,;\t|])", re.IGNORECASE)
_NO_TEXT = re.compile("[\\0\ud800-\udfff]")  # a NUL byte, or a byte that is not UTF-8 (`_lines`)
_QUOTED = re.compile(r'"[^"]*"')

ReadProgress = Callable[[int, int], None]  # (bytes of the file read, its size in bytes)


class BadNotes(ValueError):
    """A file of notes cannot be used. The message is a sentence that names the file, the row and the column."""


@dataclass(frozen=True)
class Cells:
    """One chunk: the requested columns as text (empty where a cell is missing), with their row numbers."""

    rows: list[int]
    columns: dict[str, list[str]]


def header(path: Path) -> list[str]:
    """Names of the columns. Raises BadNotes if the file is missing, empty, of unknown format or far too wide."""
    if is_text(path):
        _first_bytes(path)
        return ["patient", "note"]
    names = _parquet(path).schema_arrow.names if _is_parquet(path) else next(_records(path, None, MOST_BYTES))[1]
    if len(names) > MOST_COLUMNS:
        raise BadNotes(
            f"{path.name}, row 1: {len(names):,} columns, and notes have at most {MOST_COLUMNS:,}. Is this a file of "
            "notes?"
        )
    if any("\ud800" <= character <= "\udfff" for name in names for character in name):
        raise BadNotes(
            f"{path.name}, row 1: the names of the columns are not UTF-8 (perhaps Latin-1 or Windows-1252). Save the "
            "file as UTF-8."
        )
    return list(names)


def chunks(
    path: Path,
    names: Iterable[str],
    *,
    most_bytes: int = MOST_BYTES,
    on_progress: ReadProgress | None = None,
    checked: bool = True,  # whether to refuse a cell that is no text or too long
) -> Iterator[Cells]:
    """The columns `names` of a table, one chunk at a time. Nothing is said about cells of other columns.

    Raises:
        BadNotes: for a missing or duplicate column, no rows, an encoding other than UTF-8, a NUL byte, a line or cell
            that is too long, a row with too few or too many cells, a damaged file, or one that expands to more than
            `most_bytes` or `MOST_RATIO` times its size.
    """
    wanted = list(dict.fromkeys(names))
    available = header(path)
    for name in wanted:
        if name not in available:
            raise BadNotes(f"{path.name} has no column “{short(name)}”. Its columns are {listed(available)}.")
        if available.count(name) > 1:
            raise BadNotes(f"{path.name} has two columns “{short(name)}”. Rename one of them.")
    read = _text_chunks if is_text(path) else _parquet_chunks if _is_parquet(path) else _csv_chunks
    empty = True
    for cells in read(path, wanted, most_bytes, on_progress):
        empty = False
        for name, values in cells.columns.items() if checked else ():
            _check(path.name, name, cells.rows, values)
        yield cells
    if empty:
        raise BadNotes(f"{path.name} has a header and no rows: there is nothing to read.")


def head(path: Path, rows: int = 5) -> pd.DataFrame:
    """The first rows with every column that can be chosen, as text, for a preview. Raises BadNotes as `chunks` does.

    Cells are not checked, since a column may stay unread. What is no text in them is shown as U+FFFD.

    A hostile file can need any amount of memory: of one from a user ask `core.jobs.imports.first_rows`.
    """
    names = _choosable(path)
    if not names:
        raise BadNotes(f"{path.name} has no column of text that can be chosen. Give each column a different name.")
    cells = next(chunks(path, names, checked=False))  # which raises where there are no rows
    shown = {name: [_NO_TEXT.sub("\ufffd", cell) for cell in column[:rows]] for name, column in cells.columns.items()}
    return pd.DataFrame(shown)


def _choosable(path: Path) -> list[str]:
    """The columns with a name that no other has, without lists and structures."""
    names = header(path)
    schema = _parquet(path).schema_arrow if not is_text(path) and _is_parquet(path) else None
    unique = [name for name in names if names.count(name) == 1]
    return [name for name in unique if schema is None or not pa.types.is_nested(schema.field(name).type)]


def short(name: str) -> str:
    """A name from a file, shortened for a message."""
    return name if len(name) <= MOST_OF_A_NAME else f"{name[:MOST_OF_A_NAME]}…"


def listed(names: list[str]) -> str:
    """Column names for a message: the first of them, and the number of others."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(short(name) or "(no name)" for name in names[:MOST_NAMES]) + more


def _check(file: str, name: str, rows: list[int], values: list[str]) -> None:
    name = short(name)
    for row, value in zip(rows, values, strict=True):
        if "\0" in value:
            raise BadNotes(f"{file}, row {row}, column “{name}”: there is a NUL byte. Save the file as UTF-8 text.")
        if len(value) > MOST_CHARACTERS:
            raise BadNotes(
                f"{file}, row {row}, column “{name}”: {len(value):,} characters are more than the "
                f"{MOST_CHARACTERS:,} that a note may have."
            )
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise BadNotes(
                f"{file}, row {row}, column “{name}”: the text is not UTF-8 (perhaps Latin-1 or Windows-1252). "
                "Save the file as UTF-8."
            )


# Parquet -------------------------------------------------------------------------------------------------------------


def _is_parquet(path: Path) -> bool:
    """True for a Parquet file. Raises BadNotes if only the name says Parquet, which may be a mistake."""
    start = _first_bytes(path)
    if start[:4] != b"PAR1" and start.strip() and path.suffix.lower() in (".parquet", ".pq"):
        raise BadNotes(
            f"{path.name} is not a Parquet file, although its name says so. If it is text, name it {path.stem}.csv."
        )
    return start[:4] == b"PAR1"


def _parquet(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise BadNotes(f"{path.name} is a damaged Parquet file ({str(error).splitlines()[0]}).") from error


def _parquet_chunks(path: Path, names: list[str], most_bytes: int, progress: ReadProgress | None) -> Iterator[Cells]:
    file = _parquet(path)
    for name in names:
        if pa.types.is_nested(file.schema_arrow.field(name).type):
            raise BadNotes(f"{path.name}, column “{name}” contains lists or structures; it must contain text.")
    row, expanded = 2, 0
    try:
        for batch in file.iter_batches(batch_size=CHUNK // 8, columns=names):
            expanded += batch.nbytes
            if expanded > most_bytes:
                raise _too_large(path, most_bytes)
            columns = {name: _texts(batch.column(name), path, name, row) for name in names}
            yield Cells(list(range(row, row + batch.num_rows)), columns)
            row += batch.num_rows
            if progress is not None:
                progress(row - 2, file.metadata.num_rows)
    except pa.ArrowMemoryError:  # an ArrowException, too, but nothing is wrong with the file's form
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadNotes(
            f"{path.name}, near row {row}: the file is damaged or its text is not UTF-8 ({error})."
        ) from error


def _texts(column: pa.Array, path: Path, name: str, row: int) -> list[str]:
    """The cells of a column as text; `row` is that of the first."""
    try:
        return [_as_text(value) for value in column.to_pylist()]
    except UnicodeDecodeError:  # `_check` finds the cell, as in CSV
        return [_as_text(value) for value in column.cast(pa.binary()).to_pylist()]
    except OverflowError:  # of a date before the year 1 or after 9999
        for place, cell in enumerate(column):
            try:
                cell.as_py()
            except OverflowError:
                raise BadNotes(
                    f"{path.name}, row {row + place}, column “{name}”: the date is before the year 1 or after 9999."
                ) from None
        raise


def _as_text(value: object) -> str:
    if value is None or value != value:  # a missing number is not equal to itself
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # integers are read as floats where some are missing
    if isinstance(value, bytes):  # text without its annotation, as older writers of Parquet leave it
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else str(value)


def is_text(path: Path) -> bool:
    """Whether a file is documents of plain text, by its name."""
    return path.suffix.lower() == ".txt"


def first_line(path: Path) -> list[str]:
    """The cells of a file's first line, as if it were CSV; none if it cannot be."""
    try:
        return next(_records(path, None, MOST_BYTES))[1]
    except (BadNotes, StopIteration):
        return []


# Plain text ----------------------------------------------------------------------------------------------------------


def _text_chunks(path: Path, names: list[str], most_bytes: int, progress: ReadProgress | None) -> Iterator[Cells]:
    rows: list[int] = []
    kept: dict[str, list[str]] = {"patient": [], "note": []}
    characters = 0
    for number, (row, document) in enumerate(text_documents.documents(_lines(path, progress, most_bytes)), start=1):
        for note in text_documents.notes(document):
            rows.append(row)
            kept["patient"].append(f"document {number}")
            kept["note"].append(note)
            characters += len(note)
        if len(rows) >= CHUNK or characters >= CHUNK_CHARACTERS:
            yield Cells(rows, {name: kept[name] for name in names})
            rows, kept, characters = [], {"patient": [], "note": []}, 0
    if rows:
        yield Cells(rows, {name: kept[name] for name in names})


# CSV -----------------------------------------------------------------------------------------------------------------


def _csv_chunks(path: Path, names: list[str], most_bytes: int, progress: ReadProgress | None) -> Iterator[Cells]:
    records = _records(path, progress, most_bytes)
    available = next(records)[1]
    places = [available.index(name) for name in names]
    rows: list[int] = []
    kept: list[list[str]] = [[] for _ in names]
    characters = 0
    for row, cells in records:
        if len(cells) != len(available):
            raise BadNotes(
                f"{path.name}, row {row}: {len(cells)} cell{'s' * (len(cells) != 1)}, but the header names "
                f"{len(available)} column{'s' * (len(available) != 1)}. A quote or a separator inside a note may be "
                "unescaped."
            )
        rows.append(row)
        for values, place in zip(kept, places, strict=True):
            values.append(cells[place])
            characters += len(cells[place])
        if len(rows) == CHUNK or characters >= CHUNK_CHARACTERS:
            yield Cells(rows, dict(zip(names, kept, strict=True)))
            rows, kept, characters = [], [[] for _ in names], 0
    if rows:
        yield Cells(rows, dict(zip(names, kept, strict=True)))


def _records(path: Path, progress: ReadProgress | None, most_bytes: int) -> Iterator[tuple[int, list[str]]]:
    """(row number, cells) of every record, header first; blank lines and Excel's line `sep=;` are skipped.

    Raises BadNotes, also for a file without any record.
    """
    csv.field_size_limit(MOST_CHARACTERS + 1)
    row, begun = 0, False
    try:
        lines = _lines(path, progress, most_bytes)
        blank, first = 0, next(lines, "")
        while first and not first.strip():
            blank, first = blank + 1, next(lines, "")
        if _JSON.fullmatch(first):
            raise BadNotes(f"{path.name} is JSON. Save it as CSV (UTF-8) or Parquet, with one note per row.")
        named = _SEPARATOR_LINE.fullmatch(first.strip())
        separator = named[1] if named else max(",;\t|", key=_QUOTED.sub("", first).count)
        records = csv.reader(lines if named else chain([first], lines), delimiter=separator, strict=True)
        for row, cells in enumerate(records, start=blank + (2 if named else 1)):
            if cells:
                yield row, (cells if begun else [cell.strip() for cell in cells])
                begun = True
    except csv.Error as error:
        raise BadNotes(f"{path.name}, row {row + 1}: {_csv_error(error)}") from error
    if not begun:
        raise BadNotes(f"{path.name} is empty.")


def _csv_error(error: csv.Error) -> str:
    if "field larger" in str(error):
        return f"a cell has more than {MOST_CHARACTERS:,} characters. Perhaps a quote was opened and never closed."
    if "unexpected end" in str(error):
        return "a quote was opened here and never closed."
    if "expected after" in str(error):
        return "text follows a closing quote. A quote inside a quoted cell is written twice."
    if "new-line character" in str(error):
        return "a line ends with a carriage return only. Save the file with standard line endings."
    return f"this is not CSV ({error})."


def _lines(path: Path, progress: ReadProgress | None, most_bytes: int) -> Iterator[str]:
    """Lines as text; bytes that are not UTF-8 become lone surrogates, which `_check` finds in their cell."""
    start = _first_bytes(path)
    if not start.strip():
        raise BadNotes(f"{path.name} is empty.")
    zipped = start[:2] == b"\x1f\x8b"
    size = path.stat().st_size
    try:
        with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) if zipped else raw as stream:
            expanded, number, reported = 0, 0, 0
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                expanded += len(line)
                if len(line) > LONGEST_LINE:
                    raise BadNotes(
                        f"{path.name}, line {number} has more than {LONGEST_LINE // 2**20} MiB without an end."
                    )
                if expanded > most_bytes:
                    raise _too_large(path, most_bytes)
                if zipped and expanded > max(RATIO_FROM, MOST_RATIO * raw.tell()):
                    raise BadNotes(
                        f"{path.name} expands to more than {MOST_RATIO} times its size by line {number}; notes do not. "
                        "Reading was stopped."
                    )
                if number == 1 and zipped:
                    _check_encoding(path, line[:64])
                if progress is not None and (number % CHUNK == 0 or expanded - reported >= PROGRESS_BYTES):
                    reported = expanded
                    progress(raw.tell(), size)
                yield line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadNotes(f"{path.name} is a damaged gzip file ({error}).") from error


def _too_large(path: Path, most_bytes: int) -> BadNotes:
    return BadNotes(f"{path.name} expands to more than {most_bytes / 2**30:.3g} GiB, the limit here.")


def _first_bytes(path: Path) -> bytes:
    if not path.is_file():
        raise BadNotes(f"There is no file {path}.")
    with path.open("rb") as file:
        start = file.read(64)
    _check_encoding(path, start)
    if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):  # a text may begin with these two letters
        raise BadNotes(f"{path.name} is a ZIP archive or a spreadsheet. Unpack it, or save the sheet as CSV (UTF-8).")
    if (form := next((form for mark, form in _FORMATS.items() if start.startswith(mark)), None)) is not None:
        raise BadNotes(f"{path.name} is {form}. Save the table as CSV (UTF-8), which may be compressed by gzip.")
    return start


def _check_encoding(path: Path, start: bytes) -> None:
    """Raise BadNotes if the first bytes are those of UTF-16 or UTF-32: a mark, or a NUL beside every letter."""
    pairs = len(start) // 2
    sides = start[0 : 2 * pairs : 2], start[1 : 2 * pairs : 2]
    unmarked = pairs > 1 and bytes(pairs) in sides and any(b"\0" not in side for side in sides)
    if unmarked or start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadNotes(f"{path.name}, row 1: the text is UTF-16 or UTF-32. Save the file as UTF-8.")
