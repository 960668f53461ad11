"""`bench presidio`: another detector is judged as the project's own is."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from bench.identifiers import presidio
from bench.identifiers._labelled_files import Labelled
from core.evaluation.stats.intervals import proportion_interval

TEXTS: list[Labelled] = [("Ann Lee, MRN 4410937", [(0, 7, "name"), (13, 20, "record number")]), ("seen in May", [])]


def test_shares_are_of_all_labels_and_of_all_finds() -> None:
    """Half of the labels are covered, and one of three finds overlaps none."""

    def find(text: str) -> list[tuple[int, int, str]]:
        return [(8, 11, "DATE_TIME")] if text.startswith("seen") else [(0, 7, "PERSON"), (13, 15, "US_SSN")]

    found = presidio.shares(TEXTS, find)
    low, high = proportion_interval(1, 2)
    assert found["recall"] == pytest.approx({"value": 1 / 2, "low": low, "high": high, "n": 2})
    low, high = proportion_interval(2, 3)
    assert found["precision"] == pytest.approx({"value": 2 / 3, "low": low, "high": high, "n": 3})


def test_without_presidio_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="pip install presidio-analyzer"):
        presidio.main(labelled=[tmp_path / "any.txt"])
