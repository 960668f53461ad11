"""Hooks of `mkdocs.yml`: a Mermaid picture of a document is shown as the SVG file that was drawn from it.

The site then needs no script from the network. A picture is named by the digest of its source. If the source changes
and the picture is not drawn again, `make docs` fails with a warning. To draw what is missing, run `npm pack mermaid`,
unpack the archive, and run `python docs/_site/hooks.py package/dist/mermaid.min.js`.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

DOCUMENTS = Path(__file__).resolve().parents[1]
PICTURES = DOCUMENTS / "images" / "mermaid"
MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)

log = logging.getLogger("mkdocs.plugins.pictures")


def picture(source: str) -> Path:
    """The file of the picture with this Mermaid source."""
    return PICTURES / f"{hashlib.sha256(source.encode()).hexdigest()[:12]}.svg"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace every Mermaid block by its picture (called by MkDocs)."""

    def shown(block: re.Match[str]) -> str:
        file = picture(block[1])
        if not file.is_file():
            log.warning(f"{page.file.src_path}: a Mermaid picture is not drawn; see docs/_site/hooks.py")
        return f"![Diagram]({os.path.relpath(file, (DOCUMENTS / page.file.src_path).parent)})"

    return MERMAID.sub(shown, markdown)


def draw(library: Path) -> None:
    """Draw every picture of the documents that is missing, and remove those that no document has."""
    from playwright.sync_api import sync_playwright

    sources = [block[1] for file in DOCUMENTS.rglob("*.md") for block in MERMAID.finditer(file.read_text("utf-8"))]
    for file in set(PICTURES.glob("*.svg")) - {picture(source) for source in sources}:
        file.unlink()
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
        tab = browser.new_page()
        tab.add_script_tag(path=library)
        tab.evaluate("mermaid.initialize({startOnLoad: false, theme: 'neutral', htmlLabels: false})")
        for source in sources:
            svg = tab.evaluate("async source => (await mermaid.render('picture', source)).svg", source)
            picture(source).write_text(svg + "\n", encoding="utf-8")
        browser.close()


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
