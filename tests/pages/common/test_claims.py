"""What pages and reports claim: privacy limits and does not stop, and a bound on guesses is an average at even odds."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages.parts.common import glossary
from tests.pages.common.page_sources import SHOWN, strings_of

ROOT = Path(__file__).resolve().parents[3]
TEXTS = {
    **{str(file.relative_to(ROOT)): "\n".join(strings_of(file)) for file in SHOWN},
    **{name: (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/lesson.md")},
    "glossary": "\n".join(term.meaning for term in glossary.terms()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_said_to_stop_leaks(name):
    """Training with privacy, an ε or a defence limits what comes out; no measurement shows that nothing can."""
    assert re.findall(r"(?i)\b(?:what|which ε|privacy|training|trainings|defence|ε) stops?\b.*", TEXTS[name]) == []


@pytest.mark.parametrize("name", TEXTS)
def test_no_bound_on_right_guesses_is_told_as_a_count_of_one_crowd(name):
    assert "would be right" not in TEXTS[name]


def test_the_glossary_says_on_average_at_even_odds_and_what_one_hundred_per_cent_is():
    meanings = {term.name: term.meaning for term in glossary.terms()}
    assert "on average" in meanings["Odds"] and "equally likely beforehand" in meanings["Odds"]
    assert "pseudo-perplexity" in meanings["Perplexity"] and "not comparable" in meanings["Perplexity"]
    assert "overfitted" in meanings["Gain kept"] and "not a goal" in meanings["Gain kept"]
    assert "relatives" in meanings["Unit"]
