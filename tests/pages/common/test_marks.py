"""Which of many marks are drawn in a text: the longest of those that overlap, as a naive comparison of all finds."""

from __future__ import annotations

import random
import re

import pytest

from pages.parts.common.phi_text import fields_html


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
