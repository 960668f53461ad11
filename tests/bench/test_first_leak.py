"""The benchmark of the first minute, without its browser."""

from __future__ import annotations

from unittest.mock import MagicMock

from bench import first_leak


def test_a_figure_is_a_median_with_its_ends():
    assert first_leak._figure([0.4, 0.2, 0.9]) == {"value": 0.4, "low": 0.2, "high": 0.9}


def test_the_figures_of_warm_visits_leave_the_cold_one_out(monkeypatch, capsys):
    visits = iter([(5.0, 6.0, 7.0), (1.0, 2.0, 3.0), (3.0, 2.0, 3.0), (2.0, 2.0, 3.0)])
    # Playwright refuses a second start in one process, and browser tests may have made the first.
    monkeypatch.setattr(first_leak, "sync_playwright", MagicMock())
    monkeypatch.setattr(first_leak, "_visit", lambda browser, address: next(visits))
    found = first_leak.measure(3)
    assert found["cold_mark"]["value"] == 5.0 and found["cold_chances"]["value"] == 7.0
    assert found["mark"] == {"value": 2.0, "low": 1.0, "high": 3.0}
    assert found["window"]["value"] == 2.0
