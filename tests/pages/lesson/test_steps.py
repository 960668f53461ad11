"""What the lesson's answers say of figures that the runs of the tests do not have."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from core.evaluation.stats.intervals import proportion_interval
from pages.parts.lesson import picture
from pages.parts.lesson.figures import NAMES, Figures, figures
from pages.parts.lesson.phrases import without_noise
from pages.parts.lesson.steps import steps
from tests.pages.lesson.test_page_lesson import served

__all__ = ["served"]  # the fixture


def _names(curves: pd.DataFrame, members: int, heldout: int = 0) -> pd.DataFrame:
    """The curves with these counts of full names at ε = 8."""
    curves = curves.copy()
    for arm, count, of in (("run", members, 301), ("heldout", heldout, 129)):
        rows = (curves["metric"] == NAMES) & (curves["arm"] == arm) & (curves["epsilon"] == 8.0)
        curves.loc[rows, ["value", "low", "high"]] = (count / of, *proportion_interval(count, of))
    return curves


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
    told = steps(replace(found, curves=_names(found.curves, members, heldout)))[2]
    assert told.right == "ε = 8 per note" and said_of_names in told.reveal
    assert "no clear sign" in told.question and "no more often" not in told.question + told.reveal


def test_the_recipe_in_step_3_is_that_of_the_epsilon_it_answers_with(served, monkeypatch):
    """The largest harmless ε may have another batch than the private run that links open."""
    found = figures()
    best = found.private
    training = best.spec.training.model_copy(update={"batch_size": 7})
    other = replace(best, spec=best.spec.model_copy(update={"training": training}))
    monkeypatch.setattr(Figures, "runs_at", lambda self, epsilon=0.0: [other])
    harmless, leaky = (replace(found, curves=_names(found.curves, members)) for members in (0, 301))
    assert "batch 7, every gradient clipped" in steps(harmless)[2].why
    assert f"batch {best.spec.training.batch_size}, every gradient clipped" in steps(leaky)[2].why


def test_step_2_asks_about_a_share_and_answers_with_intervals(served):
    step = steps(figures())[1]
    assert step.question.endswith("Is that share lower among them, about the same, or higher?")
    assert step.reveal.count("95\u00a0% interval") == 2 and step.right in step.answers


def test_the_attack_on_all_notes_says_why_its_number_of_patients_differs(served, monkeypatch):
    found = figures()
    strongest = replace(found.strongest(), attacks=10)
    monkeypatch.setattr(Figures, "strongest", lambda self, epsilon=0.0: strongest)
    answer, decision = (steps(found)[place].reveal for place in (3, 4))
    for words in (answer, decision):
        assert (
            "Which attack is strongest differs between models, and costly attacks were run on fewer patients." in words
        )
    assert "pairs of notes without privacy" in answer


@pytest.mark.parametrize(("seeds", "said"), [(1, ", one seed) reaches"), (3, ", 3 seeds) reaches")])
def test_the_training_without_noise_counts_its_seeds_in_words(served, monkeypatch, seeds, said):
    found = figures()
    monkeypatch.setattr(Figures, "noiseless", lambda self, metric, epsilon: (found.measured(metric), seeds))
    assert said in without_noise(found, 8.0)


def test_every_answer_comes_with_what_it_answers_and_pairs_with_a_coin_toss(served):
    *first, decision = steps(figures())
    assert all(step.asked for step in first) and decision.right is None
    pairs = first[3]
    figure = picture.dots(pairs.picture, pairs.axis, shares=pairs.shares, chance=pairs.chance)
    assert figure.layout.shapes[0].x0 == 0.5 and figure.data[-1].name == "coin toss: 50\u00a0%"
    low = pairs.picture.assign(value=0.1, low=0.1, high=0.1)
    assert picture.dots(low, "pairs", shares=True, chance=0.5).layout.xaxis.range[1] > 0.5, "the line is in the chart"
    assert not picture.dots(low, "pairs", shares=True).layout.shapes
