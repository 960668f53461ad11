"""The reader of printed PDFs finds what is cut, what runs off the page, and another paper."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.paper.read_pdf import A4_POINTS, cut_rows, page_of, read

STYLE = "@page { size: A4; margin: 16mm 14mm } body { margin: 0; font: 12px sans-serif } tr { break-inside: avoid }"


@pytest.fixture
def page(chromium):
    page = chromium.new_page()
    yield page
    page.close()


def printed(page: Page, body: str, style: str = "") -> bytes:
    page.set_content(f"<style>{STYLE} {style}</style>{body}")
    return page.pdf(prefer_css_page_size=True)


def test_a_whole_table_is_whole(page):
    rows = "".join(f"<tr><td>row {number}</td><td>well-known re-identification</td></tr>" for number in range(120))
    sheets = read(printed(page, f"<table style='width: 120px'>{rows}</table>"))
    assert len(sheets) > 1 and cut_rows(page, sheets) == []
    assert page_of(sheets, "row 0") == 1 and page_of(sheets, "row 119") == len(sheets)
    assert page_of(sheets, "row 0", "row 119") is None and page_of(sheets, "row 120") is None
    for sheet in sheets:
        assert sheet.size == pytest.approx(A4_POINTS, abs=1) and sheet.outside == "" and 0 < sheet.inked < 1


def test_a_row_over_two_pages_is_found(page):
    tall = "<br>".join(f"line {number}" for number in range(200))
    sheets = read(printed(page, f"<table><tr><td>short</td></tr><tr><td>{tall}</td></tr></table>"))
    assert [row[0][:6] for row in cut_rows(page, sheets)] == ["line 0"]


def test_letters_in_a_margin_and_other_paper_are_found(page):
    assert read(printed(page, "<p>text</p>", "@page { margin: 5mm }"))[0].outside == "text"
    other = read(printed(page, "text", "@page { size: A5 }"))[0]
    assert other.size != pytest.approx(A4_POINTS, abs=1)


def test_an_empty_page_has_no_ink(page):
    sheets = read(printed(page, "<p>one</p><div style='break-before: page'>&nbsp;</div>"))
    assert [sheet.inked > 0 for sheet in sheets] == [True, False]
