"""Prints an example of a report to docs/report/: `python -m docs._site.print_report`, needs a Chromium.

The whole report as PDF, HTML and JSON, with the decision of an imagined board (roles, no names), and pictures of its
first page, its label and its crosswalk as they are printed.

The run that is decided about has secret noise, so it cannot be trained again. `… print_report DATA` first copies it
from the data folder DATA to assets/report, with its tables and without its weights, and its full audit if that is
finished. It is kept apart from the demonstration, whose curves and means it would change.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from core.common.folders import building, remove
from core.common.program import ASSETS, PROGRAM
from core.demo.export import UNDER_WAY, copy_run, publish_packed
from core.evaluation.report.decision import read
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.runs.events import STATUS_FILE
from core.runs.store import DEMO, Workspace

FOLDER = PROGRAM / "docs" / "report"
SHIPPED = ASSETS / "report"
DECIDED = "gpt2-f0e4389fd69d"  # ε = 1 per note on about 12,000 notes, secret noise
RUNS = ("gpt2-1ea4fd58ffd0", DECIDED)  # the first: no privacy, on the same notes
DECISION = FOLDER / "decision.json"
PAPER = {"width": 687, "height": 1001}  # A4 within the margins of style.css, in CSS pixels
PICTURES = {"page-1": "#glance", "label": "#label", "crosswalk": "#crosswalk"}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-sync"]


def ship(data: Path) -> None:
    """Copy the run that is decided about, without its weights, from the data folder to assets/report."""
    run = Workspace(data, shared=()).run(DECIDED)
    final, audited = SHIPPED / "runs" / run.id, SHIPPED / "audits" / run.id
    with building(final.parent, private=False) as beside:
        copy_run(run, beside / run.id, weights=False)
        publish_packed(beside / run.id, final)
    stored = data / "audits" / run.id
    if not stored.exists() or (stored / STATUS_FILE).exists():
        remove(audited)  # it is about the weights of another training
        return
    with building(audited.parent, private=False) as beside:
        shutil.copytree(stored, beside / run.id, ignore=shutil.ignore_patterns(*UNDER_WAY))
        publish_packed(beside / run.id, audited)


def main() -> None:
    """Write the report's files and the pictures; prints their names and sizes."""
    with tempfile.TemporaryDirectory() as empty, sync_playwright() as playwright:
        workspace = Workspace(Path(empty), shared=(SHIPPED, DEMO))
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
    if sys.argv[1:]:
        ship(Path(sys.argv[1]))
    main()
