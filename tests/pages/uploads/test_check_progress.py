"""What the page says of a check that is running: how much is read, then how many notes are done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from core.jobs.imports import CheckProgress
from pages.parts.uploads.check import _in_words


@pytest.mark.parametrize(
    ("progress", "words"),
    [
        (CheckProgress(), "Starting"),
        (CheckProgress("reading", 0, 1), "Reading: 0\u00a0%"),
        (CheckProgress("reading", 3_000_000, 4_000_000), "Reading: 75\u00a0%"),
        (CheckProgress("looking for copies", 1_200, 4_800), "Looking for copies: 1,200 of 4,800 notes"),
    ],
)
def test_a_file_is_read_in_percent_and_the_rest_is_in_notes(progress, words):
    assert _in_words(SimpleNamespace(state="running", progress=lambda: progress)) == words
