"""CSV files that a spreadsheet opens as text."""

from __future__ import annotations

import io

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from core.evaluation.report.csv_export import FORMULA_STARTS, spreadsheet_csv


def test_no_cell_starts_a_formula():
    evil = ["=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1+1"]
    frame = pd.DataFrame({"text": evil, "number": [-1.5, *range(7)], "spans": [[{"start": 0}]] * 8})
    back = pd.read_csv(io.BytesIO(spreadsheet_csv(frame)))
    assert back["text"].tolist() == ["'" + cell for cell in evil]
    assert back["number"].tolist() == frame["number"].tolist()
    assert set(back["spans"]) == {'[{"start": 0}]'}


def test_a_column_name_starts_no_formula_either():
    assert spreadsheet_csv(pd.DataFrame({"=HYPERLINK(1)": [1]})).startswith(b"\"'=HYPERLINK")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1), min_size=1))
def test_any_text_comes_back_as_it_was_or_disarmed(cells):
    written = spreadsheet_csv(pd.DataFrame({"text": cells}))
    back = pd.read_csv(io.BytesIO(written), keep_default_na=False, dtype=str)["text"].tolist()
    assert back == ["'" + cell if cell.startswith(FORMULA_STARTS) else cell for cell in cells]


def test_an_empty_table_keeps_its_header():
    assert spreadsheet_csv(pd.DataFrame(columns=["a", "b"])) == b'"a","b"\n'
