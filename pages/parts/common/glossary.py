"""The words of this field (`glossary.toml`): all of them, and those that a page uses."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path

import streamlit as st

FILE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Term:
    """A word with its meaning, its forms in the app, the chapter and section that define it, and its pages."""

    group: str
    name: str
    forms: tuple[str, ...]
    meaning: str
    source: str
    pages: tuple[str, ...]

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
    return tuple(Term(**{**entry, "forms": tuple(entry["forms"]), "pages": tuple(entry["pages"])}) for entry in entries)


def used_on(page: str) -> tuple[Term, ...]:
    """The words that a page (by its short name, such as `tradeoff`) puts on screen."""
    return tuple(term for term in terms() if page in term.pages)


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
    st.caption("Each source is a chapter of docs/methods/, with its section: the formulas are there.")


def _listed(chosen: list[Term] | tuple[Term, ...], *, sources: bool = False) -> str:
    return "\n".join(
        f"- **{term.name}**: {term.meaning}" + (f" :small[:gray[{term.source}]]" if sources else "") for term in chosen
    )
