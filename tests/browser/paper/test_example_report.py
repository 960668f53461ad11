"""The report in docs/report/ prints whole on A4, and its PDF is of its HTML."""

from __future__ import annotations

import re

import pytest

from core.common.program import PROGRAM
from tests.browser.paper.on_paper import broken_words, printed_whole
from tests.browser.paper.read_pdf import A4_POINTS, read

FOLDER = PROGRAM / "docs" / "report"
TEXT_WIDTH = {"width": 687, "height": 1001}  # of A4 within the margins of style.css, in CSS pixels
WORD = re.compile(r"[^\W\d_]{4,}")


def test_the_shipped_report_prints_whole(chromium) -> None:
    page = chromium.new_page(viewport=TEXT_WIDTH, color_scheme="light")
    page.goto((FOLDER / "report.html").as_uri())
    printed_whole(page, page.pdf(prefer_css_page_size=True))
    page.emulate_media(media="print", color_scheme="light")
    assert broken_words(page) == []
    sheets = read(FOLDER / "report.pdf")
    assert len(sheets) >= 3 and all(sheet.size == pytest.approx(A4_POINTS, abs=1) for sheet in sheets)
    assert [sheet.outside for sheet in sheets if sheet.outside] == [] and all(sheet.inked > 0 for sheet in sheets)
    shipped = "".join(sheet.text for sheet in sheets)
    written = page.locator("body").inner_text()
    assert [word for word in WORD.findall(written) if word.lower() not in shipped.lower()] == []
    page.add_style_tag(content="@media print { td { overflow-wrap: anywhere !important; } }")
    assert "hipaa: 10" in broken_words(page), "numbers of a narrow column, as they were printed before"
    page.close()
