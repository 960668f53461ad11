"""One column of an imported table: which cells are wrong, and which only deserve a warning."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import TypeVar

from core.corpus.importing.cells import Day, is_placeholder, quoted, read_date
from core.corpus.importing.files import BadNotes, short

Value = TypeVar("Value")
LONGEST_PLACEHOLDER = 40  # characters, with brackets and blanks; longer notes are not compared


class Remarks:
    """Warnings of an import: what it accepts but reports. Each kind appears once, with its count and first row."""

    def __init__(self) -> None:
        self._found: dict[str, list] = {}

    def add(self, what: str, where: str) -> None:
        """Record one row for which `what`, a clause, is true."""
        self._found.setdefault(what, [0, where])[0] += 1

    def sentences(self) -> tuple[str, ...]:
        """One sentence for each kind, in the order of first occurrence."""
        return tuple(
            f"{count:,} row{'s' * (count != 1)}: {what} (first: {where})."
            for what, (count, where) in self._found.items()
        )


class Column:
    """Reads the cells of one column; its errors name the file, row and column."""

    def __init__(self, file: str, name: str, remarks: Remarks | None = None) -> None:
        self.remarks = Remarks() if remarks is None else remarks
        self._file, self._name = file, name
        self._orders: dict[str, tuple[int, str]] = {}  # order of day and month → where it was first seen

    def where(self, row: int) -> str:
        """The place of a cell, with which every message begins."""
        return f"{self._file}, row {row}, column “{short(self._name)}”"

    def read(self, row: int, cell: str, by: Callable[[str], Value]) -> Value:
        """The cell parsed by `by`. Raises BadNotes."""
        try:
            return by(cell)
        except ValueError as error:
            raise BadNotes(f"{self.where(row)}: {error}") from error

    def says_missing(self, row: int, text: str) -> bool:
        """Whether a note only says in a word that there is none, as exports write it (“nan”). Gives a warning."""
        if len(text) > LONGEST_PLACEHOLDER or not any(map(str.isalpha, text)) or not is_placeholder(text):
            return False
        self.remarks.add(f"{quoted(text.strip())} says that there is no text, so the row is left out", self.where(row))
        return True

    def date(self, row: int, cell: str, *, shifted: bool = False) -> Day:
        """The date in a cell.

        Future dates give a warning, unless all dates are known to be `shifted`.

        Raises:
            BadNotes: if the cell is not a date, or if the column has the day first in one row and the month first in
                another.
        """
        day = self.read(row, cell, read_date)
        if day.order and day.order not in self._orders:
            self._orders[day.order] = row, cell
            if len(self._orders) == 2:
                other = next(at for order, at in self._orders.items() if order != day.order)
                raise BadNotes(
                    f"{self.where(row)}: {quoted(cell)} has the {day.order}, but row {other[0]} ({quoted(other[1])}) "
                    "does not. Write dates as 2020-12-31."
                )
        if not shifted and day.first > datetime.date.today():
            self.remarks.add("the date is in the future, as in data sets that shift dates", self.where(row))
        return day
