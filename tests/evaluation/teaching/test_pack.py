"""The rest of the teaching pack: the plan's minutes and names, the notebook's cells, and the handout's HTML."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from core.common.program import PROGRAM
from core.evaluation.teaching.exercises import Figure
from core.evaluation.teaching.handout import LEFT, MANY, WIDTH, Handout, Training, render
from core.runs.store import DEMO, Workspace

FOLDER = PROGRAM / "docs" / "teaching"
PLAN = (FOLDER / "plan.md").read_text(encoding="utf-8")
CELLS = json.loads((FOLDER / "phi_leak_lab.ipynb").read_text(encoding="utf-8"))["cells"]


# The plan ------------------------------------------------------------------------------------------------------------


def test_the_minutes_of_the_plan_add_up_to_fifty():
    minutes = [(int(start), int(end)) for start, end in re.findall(r"^\| (\d+)–(\d+) \|", PLAN, flags=re.MULTILINE)]
    assert len(minutes) > 6 and minutes[0][0] == 0 and minutes[-1][1] == 50
    assert all(before[1] == after[0] for before, after in pairwise(minutes))
    assert sum(end - start for start, end in minutes) == 50


def _written_on_pages() -> list[re.Pattern[str]]:
    """Every text in the sources of the pages; a value that is put into one may be any word."""
    found = []
    for file in (PROGRAM / "pages").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.compile(re.escape(node.value)))
            elif isinstance(node, ast.JoinedStr):
                parts = (re.escape(part.value) if isinstance(part, ast.Constant) else r"\w+" for part in node.values)
                found.append(re.compile("".join(parts)))
    return found


def test_every_name_that_the_plan_tells_to_press_is_on_a_page():
    told = PLAN.split("## What to expect")[0].replace("\n", " ")
    names = set(re.findall(r"\*\*([^*]+)\*\*", told))
    texts = _written_on_pages()
    assert len(names) > 15
    missing = [name for name in names if not any(text.fullmatch(name) for text in texts)]
    assert [name for name in missing if not any(name in text.pattern for text in texts)] == []
    assert not any(text.fullmatch("Open a school") for text in texts)


# The notebook --------------------------------------------------------------------------------------------------------


def test_the_notebook_is_stored_without_outputs():
    code = [cell for cell in CELLS if cell["cell_type"] == "code"]
    assert len(code) >= 6
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_the_notebook_uses_core_alone():
    for cell in CELLS:
        for node in ast.walk(ast.parse("".join(cell["source"]) if cell["cell_type"] == "code" else "")):
            if isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] in ("core", "pathlib", "collections"), node.module
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= {"sys", "tempfile", "pandas"}


@pytest.mark.slow
def test_every_cell_of_the_notebook_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(FOLDER)
    names: dict = {}
    for number, cell in enumerate(CELLS):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)  # noqa: S102 — our own
    told = capsys.readouterr().out
    assert re.search(r"gpt2-1ea4fd58ffd0 \{'leak': [1-8],", told) and "is the full_name of P" in told
    assert names["mine"].privacy.epsilon() == pytest.approx(8, abs=0.1)
    assert names["mine"].folder.is_relative_to(tmp_path)
    stored = Workspace(tmp_path / "empty", shared=(DEMO,)).run("gpt2-0a31e8681aba").metrics
    auc = stored.query("metric == 'auc_loss' and arm == 'run'")["value"].item()
    assert f"stored scores: {auc:.3f}" in told and f"ε = {8:.2f} per note" in told


# The handout ---------------------------------------------------------------------------------------------------------


def handout(epsilons: int = 2) -> Handout:
    """A handout of made-up figures."""
    rows = [Training("public <model>", "control", Figure(0, 0, 0.01), Figure(0.5, 0.45, 0.55), None)]
    for number in range(epsilons):
        figures = Figure(0.01, 0.0, 0.03), Figure(0.51, 0.49, 0.53), Figure(9.0, 8.0, 10.0)
        rows.append(Training(f"ε = {number + 1} per note", "private", *figures, right="74"))
    rows.append(
        Training("no privacy", "run", Figure(0.4, 0.3, 0.5), Figure(0.8, 0.7, 0.9), Figure(3.0, 2.5, 3.5), "no")
    )
    return Handout(
        model="GPT-2",
        patients=1_204,
        held_out=516,
        texts=1_400,
        openings=("Patient:", "Re:"),
        unit="note",
        delta=1e-5,
        perplexity_name="perplexity",
        trainings=tuple(rows),
        control=Figure(0.0, 0.0, 0.02),
        coincidence=("date of birth", Figure(0.031, 0.02, 0.04), Figure(0.025, 0.01, 0.04)),
        public_noise=True,
        differences="They differ in more than noise.",
        runs=("gpt2-1", "gpt2-2"),
    )


class _Page(HTMLParser):
    """Tags with their attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_handout_has_every_figure_with_its_interval():
    page = render(handout())
    read = _Page(page)
    text = re.sub(r"\s+", " ", read.text)
    for figure in ("1,204", "516", "1,400", "40 %", "30 % to 50 %", "0.51", "0.49 to 0.53", "9.00", "8.00 to 10.0"):
        assert figure in text.replace("\u00a0", " "), figure
    assert "public <model>" in text and "<model>" not in page, "text is never read as markup"
    assert "shown, not promised" in text and "shown, not promised" not in render(replace(handout(), public_noise=False))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in read.tags} and "url(" not in page


def test_the_chart_is_drawn_to_scale():
    read = _Page(render(handout()))
    dots = [float(attributes["cx"]) for tag, attributes in read.tags if tag == "circle"]
    shares = [0, 0.01, 0.01, 0.4, 0]
    scale = (WIDTH - LEFT - 60) / 0.5  # the highest end of an interval
    assert dots == pytest.approx([LEFT + scale * share for share in shares], abs=0.06)
    lines = [attributes for tag, attributes in read.tags if tag == "line" and "class" in attributes]
    assert [float(line["x2"]) for line in lines][3] == pytest.approx(WIDTH - 60, abs=0.06)


def test_many_trainings_are_printed_densely():
    few, many = (_Page(render(handout(number))) for number in (MANY - 2, MANY - 1))
    backs = [{attributes.get("class") for tag, attributes in page.tags if tag == "div"} for page in (few, many)]
    assert "back" in backs[0] and "back dense" in backs[1]


def test_a_handout_without_some_figures_says_so_with_dashes():
    bare = replace(handout(), trainings=(Training("no privacy", "run", None, None, None),), control=None)
    assert _Page(render(bare)).text.count("–") >= 4
