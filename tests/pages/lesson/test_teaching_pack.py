"""The teaching pack on the page Lesson, and the numbers that its plan tells to expect."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from core.common.program import PROGRAM
from core.evaluation.guarantee.live_bound import live_epsilon
from core.evaluation.guarantee.odds import mechanism_accuracy
from core.evaluation.wording import NEARLY_ALL, most_right_guesses, pairs_of, right_of_100
from core.runs.store import DEMO, Workspace
from pages.parts.auditor.deck import drawn
from pages.parts.lesson.figures import figures
from pages.parts.lesson.steps import steps
from tests.pages.visit import WAIT, visit

PLAIN, EIGHT, ONE = "gpt2-1ea4fd58ffd0", "gpt2-0a31e8681aba", "gpt2-9c478ef93063"
SHIPPED = {  # the runs of the lesson's hospital, by ε
    "0.5": "gpt2-d1b9cba0c7b1",
    "1": ONE,
    "3": "gpt2-7ad516e7575e",
    "8": EIGHT,
    "30": "gpt2-51341a969f55",
    "100": "gpt2-56db750bec5b",
    "1000": "gpt2-22279a9d614a",
    "10000": "gpt2-8d5dfa2221b9",
}
FURTHER = {  # the runs with two more seeds
    PLAIN: ("gpt2-a544a6596c57", "gpt2-f5063844cc6f"),
    EIGHT: ("gpt2-2daafc1ca3a0", "gpt2-389b8741155f"),
    ONE: ("gpt2-978e4fa51562", "gpt2-f9d27e575686"),
}
STUDENT = 4.302652729911275  # the 97.5 % quantile of Student's t with two degrees of freedom
PLAN = " ".join((PROGRAM / "docs" / "teaching" / "plan.md").read_text(encoding="utf-8").split())


@pytest.fixture
def shipped(monkeypatch, tmp_path) -> Workspace:
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return Workspace(tmp_path)


def _figure(workspace: Workspace, run_id: str, metric: str, arm: str = "run") -> tuple[float, float, float]:
    """Mean over a run's seeds; Student's interval, or the mean of the runs' own where that is wider, of a share."""
    found = []
    for one in (run_id, *FURTHER.get(run_id, ())):
        rows = workspace.run(one).metrics
        found.append(tuple(rows[(rows["metric"] == metric) & (rows["arm"] == arm)].iloc[0][["value", "low", "high"]]))
    value, low, high = map(float, np.mean(found, axis=0))
    if len(found) == 1:
        return value, low, high
    away = STUDENT * float(np.std([one[0] for one in found], ddof=1)) / math.sqrt(len(found))
    return value, max(0.0, min(low, value - away)), max(high, value + away)


def _handout() -> None:
    import streamlit as st

    from pages.parts.lesson import figures, teaching_pack

    st.session_state["sheet"] = teaching_pack.handout(figures.figures())


def test_the_handout_has_the_figures_of_the_lesson(shipped):
    app = AppTest.from_function(_handout, default_timeout=WAIT).run()
    assert not app.exception
    sheet = app.session_state["sheet"]
    runs = {f"ε = {float(epsilon):,g} per note": run_id for epsilon, run_id in SHIPPED.items()} | {"no privacy": PLAIN}
    assert [row.name for row in sheet.trainings] == ["public model, read no notes", *runs]
    for row in sheet.trainings:
        run_id, arm = (runs[row.name], "run") if row.name in runs else (PLAIN, "base")
        for figure, metric in (
            (row.names, "full_name_patients"),
            (row.auc, "auc_loss"),
            (row.perplexity, "perplexity_heldout"),
        ):
            assert (figure.value, figure.low, figure.high) == pytest.approx(_figure(shipped, run_id, metric, arm))
    limits = ["63", "74", "96", "99.97", *[NEARLY_ALL] * 4]  # e^ε/(1 + e^ε): .622, .731, .953, .9997
    assert [row.right for row in sheet.trainings] == ["", *limits, "no limit"]
    assert sheet.control.value == _figure(shipped, PLAIN, "full_name_patients", "heldout")[0]
    assert (sheet.patients, sheet.held_out, sheet.texts, sheet.unit) == (1_204, 516, 1_400, "note")
    every = [run_id for one in (*SHIPPED.values(), PLAIN) for run_id in (one, *FURTHER.get(one, ()))]
    assert sheet.public_noise and sheet.runs == tuple(every)


def _offered(app: AppTest) -> bool:
    return any("Teaching pack" in box.label for box in app.expander)


def test_students_in_a_class_are_not_offered_the_key(shipped):
    presenter = visit("lesson")
    assert _offered(presenter), "alone, everybody is"
    next(button for button in presenter.button if button.key == "class-open").click().run()
    assert _offered(presenter) and not presenter.exception
    code = presenter.query_params["room"]
    assert not _offered(visit("lesson", room=code if isinstance(code, str) else code[-1]))


# The plan's numbers --------------------------------------------------------------------------------------------------


def test_the_plan_tells_the_figures_of_the_shipped_runs(shipped):
    names = [round(100 * share) for share in _figure(shipped, PLAIN, "full_name_patients")]
    assert "names of {} of 100 patients ({} to {})".format(*names) in PLAN
    assert _figure(shipped, PLAIN, "full_name_patients", "heldout")[0] == 0 and "of none of those held out" in PLAN
    assert f"right in {pairs_of(_figure(shipped, PLAIN, 'auc_loss')[0])[0]} of 100 pairs" in PLAN
    private = shipped.run(EIGHT).privacy
    told = right_of_100(most_right_guesses(private.epsilon(), private.delta))
    assert f"alone, {told} of 100 guesses" in PLAN
    assert f"exact accounting allows {right_of_100(mechanism_accuracy([private]))};" in PLAN
    assert f"in {pairs_of(_figure(shipped, EIGHT, 'auc_loss')[0])[0]} of 100 pairs. These" in PLAN


def test_the_plan_says_what_the_screen_says(shipped):
    found = figures()
    assert found is not None
    privacy, membership = steps(found)[2:4]
    largest = privacy.right.removesuffix(" per note")
    assert f"{privacy.asked.lower()} is {largest}: even there" in PLAN.lower()
    assert "this ε limits nothing in practice" in privacy.reveal and "that ε limits nothing in practice" in PLAN
    strongest = re.search(
        r"the (strongest of \d+) membership attacks.* (is right in \S+ of \S+ pairs of patients)", membership.reveal
    )
    assert all(f"{words}" in PLAN for words in strongest.groups())


def test_the_plan_tells_what_a_class_of_auditors_will_prove(shipped):
    expected = re.search(
        r"about (\d+) of 100 guesses .* ε ≥ (\S+) or so \(8 of 10 classes between (\S+) and (\S+)\), and with 12 notes "
        r"each about ([\d.]+)\. It",
        PLAN,
    )
    accuracy, median, low, high, later = map(float, expected.groups())
    proved, right = {}, {}
    for run_id, decks in ((PLAIN, 200), (EIGHT, 60)):
        scores = shipped.run(run_id).table("scores").query("attack == 'loss'").sort_values("note_id")
        bounds, shares = [], []
        for seed in range(decks):
            deck = drawn(scores, np.random.default_rng(seed))
            hits = ((deck["score"].rank() > (len(deck) + 1) / 2) == deck["member"]).tolist()
            bounds.append(live_epsilon(hits[:360])[[179, 359]])
            shares.append([np.mean(hits[:180]), np.mean(hits[:360]), np.mean(hits)])
        proved[run_id], right[run_id] = np.array(bounds), 100 * np.mean(shares, axis=0)
    assert right[PLAIN] == pytest.approx([accuracy] * 3, abs=1), "after 180 guesses, 360 and the whole deck"
    assert right[EIGHT] == pytest.approx([50] * 3, abs=2)
    quantiles = np.quantile(proved[PLAIN][:, 0], [0.5, 0.1, 0.9])
    assert quantiles == pytest.approx([median, low, high], abs=0.03)
    assert np.median(proved[PLAIN][:, 1]) == pytest.approx(later, abs=0.03)
    assert np.median(proved[EIGHT]) == 0 and math.isfinite(proved[EIGHT].max())
