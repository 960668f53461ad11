"""What the lesson's answers say of figures that the runs of the tests do not have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.evaluation.stats.intervals import proportion_interval
from pages.parts.lesson.figures import NAMES, figures
from pages.parts.lesson.steps import steps
from tests.pages.lesson.test_page_lesson import served

__all__ = ["served"]  # the fixture


@pytest.mark.parametrize(
    ("members", "heldout", "said_of_names"),
    [
        (9, 0, "full names of 3.0\u00a0% of the patients against 0\u00a0% of the held-out patients, shares that"),
        (0, 0, "no full name of any patient, trained on or held out. The cost"),
        (0, 20, "full names of 0\u00a0% of the patients against 16\u00a0% of the held-out patients. The cost"),
    ],
)
def test_names_at_the_largest_quiet_epsilon_are_told_with_their_control(served, members, heldout, said_of_names):
    """9 of 301 patients against 0 of 129: the intervals overlap, which is not the same as “no more often”."""
    found = figures()
    curves = found.curves.copy()
    for arm, count, of in (("run", members, 301), ("heldout", heldout, 129)):
        rows = (curves["metric"] == NAMES) & (curves["arm"] == arm) & (curves["epsilon"] == 8.0)
        curves.loc[rows, ["value", "low", "high"]] = (count / of, *proportion_interval(count, of))
    told = steps(replace(found, curves=curves))[2]
    assert told.right == "ε = 8 per note" and said_of_names in told.reveal
    assert "no clear sign" in told.question and "no more often" not in told.question + told.reveal
