"""The glossary (`glossary.toml`): all terms, and those that a page uses."""

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
    """A term with its meaning, its forms in the app, the chapter and section that define it, and its pages."""

    group: str
    name: str
    forms: tuple[str, ...]
    meaning: str
    source: str
    pages: tuple[str, ...]

    @property
    def pattern(self) -> re.Pattern[str]:
        """Finds the term in a text; forms in lower case match in any case, others only as they are written."""
        parts = (re.escape(form) if _as_written(form) else f"(?i:{re.escape(form)})" for form in self.forms)
        return re.compile(rf"(?<![\w-])(?:{'|'.join(parts)})(?![\w-]|\+)")


def _as_written(form: str) -> bool:
    return not re.fullmatch(r"[a-z0-9 %+-]+", form)


@cache
def terms() -> tuple[Term, ...]:
    """Every term, in the order of the file."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["term"]
    return tuple(Term(**{**entry, "forms": tuple(entry["forms"]), "pages": tuple(entry["pages"])}) for entry in entries)


def used_on(page: str) -> tuple[Term, ...]:
    """The terms that a page (by its short name, such as `tradeoff`) shows."""
    return tuple(term for term in terms() if page in term.pages)


GREEK = {"alpha": "α", "delta": "δ", "epsilon": "ε", "eps": "ε", "mu": "μ", "sigma": "σ"}  # as they are typed


# On screen -----------------------------------------------------------------------------------------------------------


def show(page: str) -> None:
    """Draw the terms of a page in the open container; all terms if the page has none of its own."""
    st.markdown(_listed(used_on(page) or terms()))


def browse() -> None:
    """Draw every term by group with its source, and a search box."""
    asked = st.text_input("Search", key="word", bind="query-params", placeholder="for example: exposure").strip()
    wanted = {asked.casefold(), GREEK.get(asked.casefold(), asked.casefold())}
    found = [term for term in terms() if any(one in f"{term.name} {term.meaning}".casefold() for one in wanted)]
    if not found:
        st.info("No entry matches this search.", icon=":material/search_off:")
    for group, members in groupby(found, key=lambda term: term.group):
        st.header(group)
        st.markdown(_listed(list(members), sources=True))
    st.caption("Each source is a chapter of docs/methods/ with its section, which gives the formulas.")


def _listed(chosen: list[Term] | tuple[Term, ...], *, sources: bool = False) -> str:
    return "\n".join(
        f"- **{term.name}**: {term.meaning}" + (f" :small[:gray[{term.source}]]" if sources else "") for term in chosen
    )
