"""Prints the report of two shipped runs to docs/report/: `python -m docs._site.print_report`, needs a Chromium.

The whole report as PDF, HTML and JSON, with the decision of an imagined board (roles, no names), and pictures of its
first page, its label and its crosswalk as they are printed.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from core.common.program import PROGRAM
from core.evaluation.report.decision import read
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.runs.store import Workspace

FOLDER = PROGRAM / "docs" / "report"
RUNS = ("gpt2-804b3c7f558b", "gpt2-2be987fac6e6")  # shipped with full audits: no privacy, and ε = 8 per note
DECISION = FOLDER / "decision.json"
PAPER = {"width": 687, "height": 1001}  # A4 within the margins of style.css, in CSS pixels
PICTURES = {"page-1": "#glance", "label": "#label", "crosswalk": "#crosswalk"}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def main() -> None:
    """Write the report's files and the pictures; prints their names and sizes."""
    with tempfile.TemporaryDirectory() as empty, sync_playwright() as playwright:
        workspace = Workspace(Path(empty))
        made = build(workspace, [workspace.run(run_id) for run_id in RUNS], decision=read(DECISION))
        source = FOLDER / "report.html"
        source.write_text(render(made), encoding="utf-8")
        (FOLDER / "report.json").write_text(made.to_json() + "\n", encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport=PAPER, color_scheme="light", device_scale_factor=1.25)
        page.goto(source.as_uri())
        page.pdf(path=FOLDER / "report.pdf", prefer_css_page_size=True)
        page.emulate_media(media="print", color_scheme="light")
        for name, part in PICTURES.items():
            box = page.locator(part).bounding_box()
            assert box is not None  # every report has these parts
            top = 0.0 if name == "page-1" else box["y"]
            clip = {
                "x": 0.0,
                "y": top,
                "width": PAPER["width"],
                "height": min(PAPER["height"], box["y"] + box["height"] - top),
            }
            page.screenshot(path=FOLDER / f"{name}.png", full_page=True, clip=clip)
        browser.close()
    for path in sorted(FOLDER.iterdir()):
        print(f"{path.relative_to(PROGRAM)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
