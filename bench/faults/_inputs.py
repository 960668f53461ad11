"""Hostile inputs: words for links and boxes, and files that claim to be notes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

MARK = "philab_ran"  # what a script of ours would set on the page's window
SCRIPT = f"<script>window.top.{MARK}=1</script>"
IMAGE = f"<img src=x onerror=window.top.{MARK}=1>"
TAGS = ("<script>window", "<img src=x", "<svg onload", "<iframe src", "<a href=java")  # none may reach a page as markup

WORDS: dict[str, str] = {
    "script": SCRIPT,
    "image": IMAGE,
    "svg": f"<svg onload=window.top.{MARK}=1>",
    "frame": f'<iframe src="javascript:window.top.{MARK}=1"></iframe>',
    "link": f'<a href=javascript:window.top.{MARK}=1 style="position:fixed;inset:0">x</a>',
    "out of an attribute": f'"><img src=x onerror=window.top.{MARK}=1>',
    "out of a string": f"';window.top.{MARK}=1;//",
    "Markdown link": f"[click](javascript:window.top.{MARK}=1)",
    "Markdown picture": "![x](http://192.0.2.1/x.png)",
    "Markdown directives": ":red[x] :material/key: $x$ **b** `c` | a | b |",
    "unclosed Markdown": "``` ~~~ $$ [[[ **",
    "path": "../../../../etc/passwd",
    "absolute path": "/etc/passwd",
    "Windows path": "..\\..\\windows\\win.ini",
    "encoded path": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "file URL": "file:///etc/passwd",
    "SQL": "' OR 1=1; DROP TABLE notes; --",
    "SQL comment": "E11%' UNION SELECT * FROM read_csv('/etc/passwd') --",
    "wild cards": "%_*?[a-z]",
    "regular expression": "(a+)+$" + "a" * 40,
    "open bracket": "([{<",
    "template": "{{7*7}}${7*7}#{7*7}",
    "format": "%s%n{0.__class__}",
    "shell": "; $(touch /tmp/x) `id` | cat &",
    "JSON": '{"__proto__": {"x": 1}}',
    "nothing": "",
    "a space": " ",
    "NaN": "NaN",
    "infinity": "-inf",
    "too large": "1e400",
    "long integer": "9" * 400,
    "negative": "-1",
    "zero": "0",
    "a half": "0.5",
    "hexadecimal": "0x1F",
    "Arabic digits": "٣",
    "superscript": "²",
    "true": "true",
    "list": "[1,2",
    "commas": ",,,,",
    "zero byte": "a\x00b",
    "control characters": "\x01\x1b[2J\x7f",
    "line ends": "a\r\nSet-Cookie: x=1\n\u2028b",
    "right to left": "\u202eevil\u202c",
    "combining": "z" + "\u0301" * 300,
    "emoji": "🩺👩\u200d⚕️",
    "no character": "\ufffe\uffff",
    "CSV formula": '=HYPERLINK("http://192.0.2.1","x")',
    "very long": "ä" * 4_000,
    "many tags": "<b>" * 500,
}


def files() -> Iterator[tuple[str, bytes]]:
    """(name, content) of files of notes that are damaged, of another kind, or hold hostile words."""
    head = b"patient_id,text\n"
    row = b"P1,Seen today.\n"
    yield from _tables(head, row)
    for kind, word in WORDS.items():
        quoted = '"' + word.replace('"', '""') + '"'
        yield f"words {kind}.csv", f"patient_id,text\nP1,{quoted}\nP2,{quoted}\n".encode("utf-8", "replace")
        yield f"ids {kind}.csv", f"patient_id,text\n{quoted},Seen.\n{quoted},Well.\n".encode("utf-8", "replace")
        yield f"columns {kind}.csv", f"{quoted},text\nP1,Seen.\n".encode("utf-8", "replace")
    yield from _parquets()


def _tables(head: bytes, row: bytes) -> Iterator[tuple[str, bytes]]:
    yield "empty.csv", b""
    yield "head only.csv", head
    yield "no newline.csv", head.strip()
    yield "one row.csv", head + row
    yield "blank rows.csv", head + b"\n" * 50
    yield "ragged.csv", head + b"P1\nP2,a,b,c,d\n" + row
    yield "open quote.csv", head + b'P1,"never closed\n' + row * 20
    yield "zero bytes.csv", head + bytes(200)
    yield "zeros.csv", bytes(5_000)
    yield "Latin-1.csv", head + "P1,Müller über\n".encode("latin-1") * 20
    yield "UTF-16.csv", (head + row * 20).decode().encode("utf-16")
    yield "half a character.csv", head + row * 20 + b"P9,\xe2\x82"
    yield "one name twice.csv", b"text,text\na,b\n"
    yield "no names.csv", b",,,\n1,2,3,4\n"
    yield "many columns.csv", b",".join(b"c%d" % n for n in range(3_000)) + b"\n"
    yield "a long cell.csv", head + b"P1," + b"x" * 2_000_000 + b"\n"
    yield "a picture.csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    yield "a program.csv", b"\x7fELF" + bytes(range(256)) * 20
    yield "HTML.csv", f"<html>{SCRIPT}</html>".encode()
    yield "cut off.csv.gz", gzip.compress(head + row * 500)[:-20]
    yield "not packed.csv.gz", head + row
    yield "a bomb.csv.gz", gzip.compress(head + b"P1," + b"x" * 30_000_000 + b"\n")
    yield "another kind.xlsx", b"PK\x03\x04" + bytes(100)
    yield "a pickle.csv", b"cos\nsystem\n(S'touch /tmp/philab'\ntR."


def _parquets() -> Iterator[tuple[str, bytes]]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    def written(table: pa.Table) -> bytes:
        out = io.BytesIO()
        pq.write_table(table, out)
        return out.getvalue()

    whole = written(pa.table({"patient_id": ["P1", "P2"] * 20, "text": ["Seen today."] * 40}))
    yield "empty.parquet", b""
    yield "magic only.parquet", b"PAR1PAR1"
    yield "CSV.parquet", b"patient_id,text\nP1,Seen.\n"
    yield (
        "no rows.parquet",
        written(pa.table({"patient_id": pa.array([], pa.string()), "text": pa.array([], pa.string())})),
    )
    yield "numbers.parquet", written(pa.table({"patient_id": [1, 2], "text": [1.5, None]}))
    yield "lists.parquet", written(pa.table({"patient_id": [["a"], ["b"]], "text": [{"x": 1}, {"x": 2}]}))
    yield "bytes.parquet", written(pa.table({"patient_id": [b"\xff", b"\xfe"], "text": [b"\x00", b"\x80"]}))
    yield "nulls.parquet", written(pa.table({"patient_id": pa.nulls(4), "text": pa.nulls(4)}))
    rng = np.random.default_rng(0)
    for at in np.linspace(1, len(whole) - 1, 20).astype(int):
        yield f"cut at {at}.parquet", whole[:at]
        changed = bytearray(whole)
        changed[at] ^= int(rng.integers(1, 256))
        yield f"byte {at} changed.parquet", bytes(changed)
        yield f"zeros from {at}.parquet", whole[:at] + bytes(len(whole) - at)
