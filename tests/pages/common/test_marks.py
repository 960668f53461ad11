"""Which of many marks are drawn in a text: the longest of those that overlap, as a naive comparison of all finds."""

from __future__ import annotations

import random
import re

import pytest

from pages.parts.common.phi_text import cards_html, fields_html, fields_legend_html, leaks_html, strip_html


def naive(marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: list[tuple[int, int]] = []
    for start, end in sorted(marks, key=lambda mark: (mark[0] - mark[1], mark[0])):
        if start < end and all(end <= other[0] or start >= other[1] for other in kept):
            kept.append((start, end))
    return sorted(kept)


@pytest.mark.parametrize("seed", range(20))
def test_the_longest_of_overlapping_marks_is_drawn(seed):
    rng, text = random.Random(seed), "".join(chr(97 + number % 26) for number in range(60))
    marks = [(start, start + rng.randrange(9)) for start in (rng.randrange(52) for _ in range(25))]
    page = fields_html(text, [{"start": start, "end": end, "field": "mrn"} for start, end in marks])
    drawn = re.findall(r"<mark[^>]*>([a-z]*)<b>", page)
    assert drawn == [text[start:end] for start, end in naive(marks)]


class Counted(int):
    """A place in a text that counts how often it is compared."""

    comparisons = 0
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return int(self) == other

    def __lt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) < other

    def __le__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) <= other

    def __gt__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) > other

    def __ge__(self, other: int) -> bool:
        Counted.comparisons += 1
        return int(self) >= other


def test_a_mark_is_not_compared_with_every_other(monkeypatch):
    monkeypatch.setattr(Counted, "comparisons", 0)
    places = random.Random(0).sample(range(2_000), 2_000)
    marks = [{"start": Counted(3 * place), "end": Counted(3 * place + 2), "field": "mrn"} for place in places]
    page = fields_html("ab " * 2_000, marks)
    assert page.count("<mark") == 2_000
    assert Counted.comparisons < 400_000, "n log n; each with every other would be 8 million"


def test_what_has_no_record_has_a_style_that_the_legend_explains():
    spans = [{"start": 0, "end": 6, "field": "place"}, {"start": 7, "end": 12, "field": "problem"}]
    page = fields_html("London fever", spans)
    assert page.count("phi-invented") == 1 and page.count("phi-entity") == 1
    assert "phi-invented" in fields_legend_html(entities=False, by_detector=True)
    assert "phi-invented" not in fields_legend_html(entities=True)
    assert "phi-entity" in fields_legend_html(entities=True)


def test_a_prompt_from_right_to_left_is_isolated_from_what_follows():
    """Without isolation a browser draws a digit that follows such a prompt on its other side."""
    prompt = "المريض: <b>أحمد,"
    typed = '<bdi class="phi-prompt">المريض: &lt;b&gt;أحمد,</bdi>'
    assert f"{typed}7 mg" in leaks_html("7 mg", [], prompt=prompt)
    assert typed in cards_html(["7 mg"], [[]], prompt=prompt)
    assert f"{typed}7 mg." in strip_html([("epoch 1", "7 mg.", [])], prompt=prompt, label="epochs")
