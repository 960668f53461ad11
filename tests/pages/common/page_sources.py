"""Which sentences a page can put on screen: its own strings, those of its parts, and of the core modules that write.

Used by tests alone: it parses source files, which a server should not do while it serves.
"""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

from jinja2 import Environment, nodes

ROOT = Path(__file__).resolve().parents[3]
# On every page: what they say is no page's own.
SHARED = ("common/shell", "common/glossary", "access/rules", "access/viewer", "access/gate")
# Modules of core/ that write sentences for pages.
WRITERS = {
    "core.evaluation.guarantee.odds",
    "core.evaluation.membership.lira_stability",
    "core.evaluation.rarity.trend",
    "core.evaluation.report.crosswalk.authorities",
    "core.evaluation.report.crosswalk.cells",
    "core.evaluation.report.crosswalk.hipaa",
    "core.evaluation.report.crosswalk.nist_aml",
    "core.evaluation.report.crosswalk.nist_dp",
    "core.evaluation.report.decision",
    "core.evaluation.report.facts",
    "core.evaluation.report.findings",
    "core.evaluation.report.glance",
    "core.evaluation.report.identity",
    "core.evaluation.report.label",
    "core.evaluation.report.rarity",
    "core.evaluation.report.tables",
    "core.evaluation.report.what_follows",
    "core.evaluation.sweep.recommendation",
    "core.evaluation.verdict",
    "core.runs.facts",
    "core.runs.ledger.choice",
    "core.runs.ledger.totals",
    "core.spec.model_names",
}
HTML_WRITERS = {"core.evaluation.report.html", "core.evaluation.wording"}


def path_of(module: str) -> Path:
    """The file of a dotted module name."""
    return ROOT / f"{module.replace('.', '/')}.py"


TEMPLATES = (ROOT / "core/evaluation/report/templates").glob("*.j2")
UNSEEN = {ROOT / "pages/parts/common/glossary.py", ROOT / "pages/parts/session/room_store.py"}  # SQL is not shown
SHOWN = sorted({*(ROOT / "pages").rglob("*.py"), *TEMPLATES, *map(path_of, WRITERS | HTML_WRITERS)} - UNSEEN)


@cache
def strings_of(file: Path) -> tuple[str, ...]:
    """The string constants of a Python file without docstrings, in the order of the file, or a template's text."""
    if file.suffix == ".j2":
        template = Environment(autoescape=True).parse(file.read_text(encoding="utf-8"))
        strings = [node.value for node in template.find_all(nodes.Const) if isinstance(node.value, str)]
        return tuple([*strings, *(node.data for node in template.find_all(nodes.TemplateData))])
    tree = ast.parse(file.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return tuple(
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )


@cache
def imported(file: Path) -> frozenset[Path]:
    """Files of pages/parts, and of WRITERS, that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for module in [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]:
                part = module.startswith("pages.parts.") and module.removeprefix("pages.parts.").replace(".", "/")
                if (part and part not in SHARED) or module in WRITERS:
                    found.add(path_of(module))
    return frozenset(path for path in found if path.is_file())


def text_of(page: str) -> str:
    """Everything that a page (by its short name) and what it draws with may put on screen."""
    seen: set[Path] = set()
    waiting = [ROOT / "pages" / f"{page}.py"]
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting.extend(imported(file))
    return "\n".join(line for file in sorted(seen) for line in strings_of(file))


def write_pages() -> None:
    """Write into glossary.toml which pages use each entry: `python -m tests.pages.common.page_sources`."""
    from pages.parts.common import glossary

    shown = {path.stem: text_of(path.stem) for path in sorted((ROOT / "pages").glob("*.py")) if path.stem != "glossary"}
    used = [[page for page, text in shown.items() if term.pattern.search(text)] for term in glossary.terms()]
    lines = [f"pages = {json.dumps(pages)}" for pages in used]
    text = re.sub(
        r"^pages = .*$", lambda _: lines.pop(0), glossary.FILE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    glossary.FILE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write_pages()
