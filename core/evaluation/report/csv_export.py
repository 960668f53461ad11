"""Tables as CSV files that a spreadsheet opens as text; every CSV file of this app is written here."""

from __future__ import annotations

import csv
import json

import pandas as pd

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def spreadsheet_csv(frame: pd.DataFrame) -> bytes:
    """Write `frame` as UTF-8 CSV without its index; lists become JSON, and no cell or column name starts a formula.

    Text that begins with = + - @ (or their full-width forms), tab, carriage return or line feed gets an apostrophe in
    front (OWASP, “CSV injection”). Numbers stay numbers, including negative ones. All text is quoted.
    """
    safe = frame.apply(lambda column: column if _is_number(column) else column.map(_safe_cell))
    safe.columns = [_safe_cell(str(name)) for name in frame.columns]
    return safe.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC).encode()


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column)


def _safe_cell(value: object) -> object:
    if isinstance(value, (int, float)) or value is None:
        return value
    if not isinstance(value, str):
        tolist = getattr(value, "tolist", None)
        return json.dumps(tolist() if tolist else value, ensure_ascii=False, default=str)
    return f"'{value}" if value.startswith(FORMULA_STARTS) else value
