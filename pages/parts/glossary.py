"""The words of this field (`glossary.toml`): all of them, and those that a page uses."""

from __future__ import annotations

import ast
import re
import threading
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import streamlit as st

FILE = Path(__file__).with_suffix(".toml")
PAGES = Path(__file__).resolve().parents[1]
SENTENCES = {  # what writes words that pages show, besides pages and their parts
    "core.evaluation": ("odds", "recommendation", "report", "rarity_trend", "report_rarity", "report_tables"),
    "core.runs": ("facts", "promised"),
}
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Term:
    """A word with its meaning, how it stands in the app, and the section of a document that defines it."""

    group: str
    name: str
    forms: tuple[str, ...]
    meaning: str
    source: str

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the word in a text; forms in lower case are found in any case, others as they are written."""
        parts = (re.escape(form) if _as_written(form) else f"(?i:{re.escape(form)})" for form in self.forms)
        return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-]|\+)")


def _as_written(form: str) -> bool:
    return not re.fullmatch(r"[a-z0-9 %+-]+", form)


@cache
def terms() -> tuple[Term, ...]:
    """Every word, in the order of the file."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["term"]
    return tuple(Term(**{**entry, "forms": tuple(entry["forms"])}) for entry in entries)


def used_on(page: str) -> tuple[Term, ...]:
    """The words that a page (by its short name, `tradeoff`) and the parts that it draws with put on screen.

    A session at a time: CPython 3.11 fails with a SystemError where two threads build syntax trees at once (what it
    counts their depth with belongs to the interpreter, and a garbage collection may switch threads in between).
    """
    with _PARSING:
        return _used_on(page)


@cache
def _used_on(page: str) -> tuple[Term, ...]:
    text = "\n".join(line for file in sorted(_drawn_by(PAGES / f"{page}.py")) for line in strings_of(file))
    return tuple(term for term in terms() if term.pattern.search(text))


def _drawn_by(file: Path, seen: frozenset[Path] = frozenset()) -> frozenset[Path]:
    """A page's file with those of pages/parts (and of SENTENCES) that it imports, and that those import.

    `shell` stands on every page, and is left out.
    """
    if file in seen or file.stem in ("shell", "glossary") and file.parent != PAGES or not file.exists():
        return seen
    seen |= {file}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for module in [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]:
                folder, _, name = module.rpartition(".")
                if folder == "pages.parts" or name in SENTENCES.get(folder, ()):
                    seen = _drawn_by(PAGES.parent / folder.replace(".", "/") / f"{name}.py", seen)
    return seen


def strings_of(file: Path) -> list[str]:
    """The string constants of a Python file in the order of the file, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    told = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told
    ]


# On screen -----------------------------------------------------------------------------------------------------------


def show(page: str) -> None:
    """Draw the words of a page, inside whatever container is open; every word where it has none of its own."""
    st.markdown(_listed(used_on(page) or terms()))


def browse() -> None:
    """Draw every word by group with its source, and a search."""
    asked = st.text_input("Search", key="word", bind="query-params", placeholder="for example: exposure").strip()
    found = [term for term in terms() if asked.casefold() in f"{term.name} {term.meaning}".casefold()]
    if not found:
        st.info("No entry has this word.", icon=":material/search_off:")
    for group, members in groupby(found, key=lambda term: term.group):
        st.subheader(group)
        st.markdown(_listed(list(members), sources=True))
    st.caption("The sources are sections of docs/METHODS.md and docs/ATTACKS.md, which have the formulas.")


def _listed(chosen: list[Term] | tuple[Term, ...], *, sources: bool = False) -> str:
    return "\n".join(
        f"- **{term.name}**: {term.meaning}" + (f" :small[:gray[{term.source}]]" if sources else "") for term in chosen
    )
