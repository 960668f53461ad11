"""The documents: they build into a site, their links and paths lead somewhere, and their prose has one width."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs._site import command_line
from docs._site.hooks import MERMAID, PICTURES, picture

ROOT = Path(__file__).resolve().parents[2]
SITE = sorted((ROOT / "docs").rglob("*.md"))
DOCUMENTS = [*SITE, *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG"))]
PACKAGES = sorted(file.parent.name for file in (ROOT / "core").glob("*/__init__.py"))
WIDTH = 100


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(text: str) -> list[str]:
    """The lines of a document outside code, tables, and what `bench all` writes between its marks."""
    lines = re.sub(r"^```.*?^```$|<!-- figures.*?<!-- end", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
    return [line for line in lines if not re.match(r"\s*(\||<!--|!\[)", line)]


def build(target: Path, *options: str) -> tuple[int, list[str]]:
    """The exit code of a strict build into `target`, and what it says except for its progress.

    Without `--quiet`, which hides warnings from `--strict` as well.
    """
    done = subprocess.run(  # noqa: S603 — our own
        [sys.executable, "-m", "mkdocs", "build", "--strict", *options, "--site-dir", str(target)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    lines = (done.stdout + done.stderr).splitlines()
    return done.returncode, [line for line in lines if line and not line.startswith("INFO ")]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """`--strict` fails for a broken link or anchor, a page outside the menu, and a docstring that cannot be read."""
    assert build(tmp_path) == (0, [])
    names = (tmp_path / "reference" / "names" / "runs.html").read_text(encoding="utf-8")
    assert 'id="core.runs.store.Workspace"' in names
    fetched = re.compile(r"<(?:script|link|img)\b[^>]*\b(?:src|href)=\"?https?:")
    pages = [file for file in tmp_path.rglob("*.html") if fetched.search(file.read_text(encoding="utf-8"))]
    assert pages == [] and fetched.search('<script src="https://example.org/a.js">')


@pytest.mark.parametrize(("anchor", "good"), [("over-ε", True), ("over-e", False), ("over-", False)])
def test_a_broken_anchor_fails_the_build(tmp_path: Path, anchor: str, good: bool) -> None:
    """Built with the settings of `mkdocs.yml`, but from one page. Anchors are those of GitHub."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# Page\n\n[There](#{anchor})\n\n## Over ε\n", encoding="utf-8")
    settings = tmp_path / "mkdocs.yml"
    settings.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: docs\nnav: [README.md]\nplugins: []\nhooks: []\n", encoding="utf-8"
    )
    code, said = build(tmp_path / "site", "--config-file", str(settings))
    assert (code == 0) == good
    assert any(f"'#{anchor}'" in line and line.startswith("WARNING") for line in said) != good


def test_every_package_has_a_page_of_its_public_names() -> None:
    pages = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "docs/reference/names").glob("*.md")}
    assert {name for name, text in pages.items() if f"::: core.{name}\n" in text} == set(PACKAGES)
    assert set(pages) == {"README", *PACKAGES}


def test_every_picture_is_drawn_from_what_the_documents_say() -> None:
    sources = [block[1] for file in SITE for block in MERMAID.finditer(file.read_text(encoding="utf-8"))]
    assert sources and {picture(source) for source in sources} == set(PICTURES.glob("*.svg"))
    assert picture("flowchart LR\n") != picture("flowchart TB\n")


def test_the_page_of_commands_says_what_help_says() -> None:
    """Written by `python -m docs._site.command_line`."""
    text = command_line.PAGE.read_text(encoding="utf-8")
    assert text == command_line.document()
    assert "## store prune\n" in text and "| `--vocabulary-epsilon TEXT` |" in text and "| `RUN` | needed |" in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_prose_is_narrow(path: Path) -> None:
    assert [line for line in prose(path.read_text(encoding="utf-8")) if len(line) > WIDTH] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_paths_and_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    files = re.findall(r"`((?:core|pages|tests|bench|docs|assets)/[\w./-]+)(?=[`:])", text)
    files += re.findall(r"`([\w-]+\.(?:py|toml|md))`", text)
    here = {file.name for folder in ("core", "pages", "bench", "tests") for file in (ROOT / folder).rglob("*")}
    here |= {file.name for file in ROOT.iterdir()} | {"README.md"}
    assert [file for file in files if not ((ROOT / file).exists() if "/" in file else file in here)] == []
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_rows_of_papers_are_named_by_author_outside_their_table() -> None:
    named = {name_of(path) for path in DOCUMENTS if re.search(r"\brows? [JHPML]\d", path.read_text(encoding="utf-8"))}
    assert named == {"docs/methods/papers.md"}


def test_documents_that_the_code_refers_to_exist() -> None:
    """`docs/methods/ledger.md` in a comment or a sentence is a file, wherever it moved."""
    files = [ROOT / "app.py", ROOT / "Makefile"]
    files += [file for folder in ("core", "pages", "bench", "tests") for file in (ROOT / folder).rglob("*.py")]
    named = {(file, name) for file in files for name in re.findall(r"docs/[\w./-]+\.md", file.read_text("utf-8"))}
    assert len(named) > 20
    assert sorted(f"{name_of(file)}: {name}" for file, name in named if not (ROOT / name).exists()) == []
