"""Screenshots of every page at four widths in both themes, on one sheet to look at: `make shots`.

The sheet is tests/browser/shots/sheet.html (ignored by git). The pages show the shipped runs, or those of PHILAB_DATA.
`make pictures` takes those of docs/pages.md: every page once, at 1280 × 800, in few colours so that they stay small.
"""

from __future__ import annotations

import html
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from pages.parts.common import shell
from tests.browser.served import WAIT, serving, settled

SHOTS = Path(__file__).resolve().parent / "shots"
PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images" / "pages"
COLOURS = 96  # of a picture in the documents
SIZES = ((390, 844), (768, 1024), (1280, 800), (1920, 1080))
THEMES = ("light", "dark")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main(for_docs: bool) -> None:
    """Take the screenshots; prints where they are."""
    os.environ.pop("PHILAB_SHIPPED", None)  # importing the tests' own settings hides the shipped runs
    if for_docs:
        PICTURES.mkdir(exist_ok=True)
        for _, _, _, file in _shots(("light",), ((1280, 800),)):
            name = file.split("-")[1]
            with Image.open(SHOTS / file) as picture:
                picture.convert("RGB").quantize(COLOURS).save(PICTURES / f"{name}.png", optimize=True)
        print(PICTURES)
        return
    taken = _shots(THEMES, SIZES)
    sheet = SHOTS / "sheet.html"
    sheet.write_text(_sheet(taken), encoding="utf-8")
    print(sheet)


def _shots(themes: Sequence[str], sizes: Sequence[tuple[int, int]]) -> list[tuple[str, str, int, str]]:
    """(title, theme, width, file in SHOTS) of every page."""
    SHOTS.mkdir(exist_ok=True)
    taken: list[tuple[str, str, int, str]] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(os.environ.get("PHILAB_DATA", folder))
        with serving(data, Path(folder) / "server.log") as address:
            found = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
            for theme in themes:
                for width, height in sizes:
                    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
                    page.set_default_timeout(WAIT)
                    for name, title, _, _ in shell._PAGES:
                        file = f"sheet-{name}-{theme}-{width}.png"
                        _take(page, f"{address}/{'' if name == 'home' else name}", SHOTS / file)
                        taken.append((title, theme, width, file))
                    page.close()
            browser.close()
    return taken


def _take(page: Page, address: str, file: Path) -> None:
    page.goto(address)
    page.get_by_role("heading", level=1).wait_for()
    settled(page)
    page.wait_for_timeout(1_000)  # charts draw themselves after the script has ended
    page.screenshot(path=file)


def _sheet(taken: list[tuple[str, str, int, str]]) -> str:
    figures = "".join(
        f'<figure><a href="{file}"><img src="{file}" alt="" width="{max(150, width // 4)}" loading="lazy"></a>'
        f"<figcaption>{html.escape(title)}, {width}, {theme}</figcaption></figure>"
        for title, theme, width, file in sorted(taken)
    )
    style = "body{font:14px sans-serif;display:flex;flex-wrap:wrap;gap:12px;background:#888}figure{margin:0}"
    return f"<!doctype html><title>Every page</title><style>{style}</style>{figures}"


if __name__ == "__main__":
    main(for_docs="docs" in sys.argv[1:])
