"""What a printed PDF has on its pages, read by PDFium and not by the browser that printed it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium
from playwright.sync_api import Page

A4_POINTS = (595.3, 841.9)
MARGIN = (39.0, 45.0)  # style.css: 14 mm and 16 mm, less a point
HYPHENS = "-\u00ad\u2010\ufffe\x02"  # PDFium says U+FFFE or U+0002 for one at the end of a line
# The cells' texts of every table row that is drawn, one list per row.
ROWS = """() => [...document.querySelectorAll("tbody tr")].filter(row => row.getBoundingClientRect().height).map(
  row => [...row.cells].map(cell => cell.textContent))"""


def bare(text: str) -> str:
    """The text without what a printer sets as it likes: spaces, line breaks, and hyphens, which may end a line."""
    kept = unicodedata.normalize("NFKC", text)
    return "".join(letter for letter in kept if not letter.isspace() and letter not in HYPHENS)


@dataclass(frozen=True)
class Sheet:
    """A page: its size in points, its text as `bare`, letters in its margins or off it, and the share that is inked."""

    size: tuple[float, float]
    text: str
    outside: str
    inked: float


def read(source: Path | bytes) -> list[Sheet]:
    """The pages of a PDF."""
    document = pdfium.PdfDocument(source)
    try:
        return [_sheet(document[number]) for number in range(len(document))]
    finally:
        document.close()


def _sheet(page: pdfium.PdfPage) -> Sheet:
    part, (width, height) = page.get_textpage(), page.get_size()
    outside = []
    for place in range(part.count_chars()):
        letter = part.get_text_range(place, 1)
        left, bottom, right, top = part.get_charbox(place)
        across, down = (
            left >= MARGIN[0] and right <= width - MARGIN[0],
            bottom >= MARGIN[1] and top <= height - MARGIN[1],
        )
        if letter.strip() and not (across and down):
            outside.append(letter)
    inked = float((page.render(scale=0.5, grayscale=True).to_numpy() < 250).mean())
    return Sheet((width, height), bare(part.get_text_bounded()), "".join(outside), inked)


def page_of(sheets: list[Sheet], *texts: str) -> int | None:
    """The first page (from 1) that has all of these texts; None if no page has all."""
    wanted = [bare(text) for text in texts]
    return next((at for at, one in enumerate(sheets, start=1) if all(text in one.text for text in wanted)), None)


def cut_rows(page: Page, sheets: list[Sheet]) -> list[list[str]]:
    """The table rows of the document in the browser whose cells are on no single page of the paper."""
    return [cells for cells in page.evaluate(ROWS) if page_of(sheets, *filter(str.strip, cells)) is None]
