"""What must be true of a report on A4: its first page has what a board needs, and nothing is cut or broken."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.paper.read_pdf import A4_POINTS, cut_rows, page_of, read

# Words and numbers in cells that begin in one line and end in the next. A checksum may be broken, it has no spaces.
_BROKEN = r"""() => {
    const broken = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const node = texts.currentNode;
        if (!node.parentElement.closest("td, th") || /^\s*[0-9a-f]{32,}\s*$/.test(node.textContent)) continue;
        for (const found of node.textContent.matchAll(/\p{L}{2,}|[\d.,]*\d/gu)) {
            const range = document.createRange();
            range.setStart(node, found.index);
            range.setEnd(node, found.index + found[0].length);
            if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1)
                broken.push(`${node.parentElement.closest("section")?.id}: ${found[0]}`);
        }
    }
    return broken;
}"""


def broken_words(page: Page) -> list[str]:
    """Words and numbers of tables that are broken in two, with the section they are in.

    The page must be laid out as on paper: the print medium, and a viewport as wide as the paper's text.
    """
    return page.evaluate(_BROKEN)


def printed_whole(page: Page, paper: bytes) -> None:
    """The PDF on A4: label and ten facts with their answers on page one, no row cut, no letter in a margin."""
    sheets = read(paper)
    assert len(sheets) >= 3 and all(sheet.size == pytest.approx(A4_POINTS, abs=1) for sheet in sheets)
    facts = page.locator(".front .ten tr").all()
    assert len(facts) == 10
    for fact in facts:
        question, answer = (fact.locator(part).text_content() for part in ("th", "td"))
        assert question and answer and page_of(sheets[:1], question, answer) == 1, question
    assert page_of(sheets[:1], "DP label", *page.locator(".essentials a").all_text_contents()) == 1
    assert page_of(sheets[1:], "Annex") == 1, "the annex begins on the second page"
    assert cut_rows(page, sheets) == [] and [sheet.outside for sheet in sheets if sheet.outside] == []
    assert all(sheet.inked > 0 for sheet in sheets), "no empty page"
