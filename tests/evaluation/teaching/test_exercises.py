"""The six exercises: the committed sheets are the computed ones, and every answer is found again in another way."""

from __future__ import annotations

import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from core.__main__ import main
from core.common.program import PROGRAM
from core.evaluation.stats.intervals import compare_proportions
from core.evaluation.teaching import sheets
from core.evaluation.teaching.exercises import Accusation, Exercises, NearHalf
from core.evaluation.teaching.shipped import CANARIES, PLAIN, of_shipped
from core.runs.store import DEMO, Workspace

SHEETS = PROGRAM / "docs" / "teaching"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("empty"), shared=(DEMO,))


@pytest.fixture(scope="module")
def found(shipped: Workspace) -> Exercises:
    return of_shipped(shipped)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def test_the_committed_sheets_are_the_computed_ones(found):
    for name, text in sheets.sheets(found).items():
        assert (SHEETS / f"{name}.md").read_text(encoding="utf-8") == text, "run `python -m core teaching`"


def test_the_command_writes_both_sheets(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    assert main(["teaching", "--out", str(tmp_path), "--data", str(tmp_path / "data")]) == 0
    for name in sheets.SHEETS:
        assert (tmp_path / f"{name}.md").read_bytes() == (SHEETS / f"{name}.md").read_bytes()
    given = ["--data", str(tmp_path / "data")]
    assert main(["teaching", "--out", str(tmp_path / "new"), *given]) == 0 and (tmp_path / "new" / "key.md").is_file()
    assert main(["teaching", "--out", str(tmp_path / "key.md"), *given]) == 2
    assert "key.md is a file, not a folder" in capsys.readouterr().err
    monkeypatch.setattr("core.common.program.PROGRAM", tmp_path / "installed")
    assert main(["teaching", *given]) == 2
    assert "Choose one with --out" in capsys.readouterr().err


def test_sheets_say_the_same_about_other_numbers(found):
    """No figure of the shipped runs stands in a template: with other givens, other numbers appear."""
    from dataclasses import replace

    h = found.near_half
    other = replace(found, near_half=replace(h, members=70, others=30, known=0.2), training_notes=123_456)
    exercises, key = sheets.sheets(other).values()
    assert "123,456" in exercises and "70 members, 30 others" in exercises
    assert "0.2 + 0.8/2 = 0.600" in key and "√((70 + 30 + 1)/(12 × 70 × 30))" in key


def test_lines_are_wrapped_but_not_tables_or_headings():
    long = "word " * 40
    text = sheets.wrapped(f"# {long}\n\n| {long} |\n\n1. {long}\n\n{long}\n")
    heading, table, *lines = [line for line in text.splitlines() if line]
    assert heading.count("word") == table.count("word") == 40
    assert all(len(line) <= sheets.WIDTH for line in lines) and lines[1].startswith("   word")
    assert " ".join(" ".join(lines).split()).count("word") == 80


# 1. Exposure ---------------------------------------------------------------------------------------------------------


def test_exposures_are_those_of_the_run_and_of_a_count(found, shipped):
    stored = shipped.run(PLAIN).table("canaries").set_index("canary_id")
    assert tuple(one.name for one in found.exposure.shown) == CANARIES
    for one in found.exposure.shown:
        assert one.exposure == pytest.approx(stored.loc[one.name, "exposure"], abs=1e-6)
        assert one.planted == stored.loc[one.name, "inserted"]
        assert 2**one.exposure == pytest.approx(one.size / one.rank), "halvings that the secret's rank is worth"
    assert 2**found.exposure.most == pytest.approx(1_000)
    arms = [len(found.exposure.arm(planted=planted)) for planted in (True, False)]
    counts = stored[stored["rank"].notna()]["inserted"].value_counts()
    assert arms == [counts[True], counts[False]]


def test_the_chance_of_bits_is_that_of_uniform_ranks(found, rng):
    every = np.arange(1, 1_001)
    assert found.exposure.chance == np.mean(np.log2(1_000 / every) >= 3)
    blind = rng.integers(1, 1_001, (20_000, len(found.exposure.arm(planted=False))))
    assert found.exposure.expected == pytest.approx((np.log2(1_000 / blind) >= 3).sum(1).mean(), abs=0.05)
    reached = sum(Fraction(one.size, one.rank) >= 8 for one in found.exposure.every if not one.planted)
    assert found.exposure.reached(planted=False) == reached


# 2. Clipping ---------------------------------------------------------------------------------------------------------


def test_the_clipped_sum_by_hand(found):
    """A = (3, 4) has length 5 and becomes (3/5, 4/5); C becomes (−1, 0); B and D stay."""
    by_hand = [Fraction(3, 5) + Fraction(3, 5) - 1 + 0, Fraction(4, 5) + Fraction(4, 5) + 0 + Fraction(1, 2)]
    assert found.clipping.total == pytest.approx([float(one) for one in by_hand])
    assert found.clipping.raw_total == pytest.approx([1.6, 5.3])
    assert found.clipping.lengths == pytest.approx([5, 1, 2, 0.5])
    for place in range(4):
        moved = found.clipping.total - np.delete(found.clipping.clipped, place, axis=0).sum(0)
        assert np.hypot(*moved) <= found.clipping.bound + 1e-12


def test_the_attacker_of_one_step_is_right_as_often_as_in_a_simulation(found, rng):
    c, trials = found.clipping, 400_000
    inside = rng.random(trials) < 0.5
    sums = inside[:, None] * c.clipped[0] + c.clipped[1:].sum(0) + rng.normal(0, c.deviation, (trials, 2))
    to_in, to_out = (np.linalg.norm(sums - at, axis=1) for at in (c.total, c.total - c.clipped[0]))
    assert np.mean((to_in < to_out) == inside) == pytest.approx(c.right_guesses, abs=0.003)


def test_the_step_has_the_noise_of_the_run(found, shipped):
    assert found.clipping.sigma == pytest.approx(shipped.run("gpt2-0a31e8681aba").privacy.noise_multiplier, abs=0.005)


# 3. Base rate --------------------------------------------------------------------------------------------------------


def test_accusations_are_counted_from_the_scores(found, shipped):
    scores = shipped.run(PLAIN).table("scores")
    judged = scores[(scores["attack"] == "loss") & scores["split"].isin(["member", "heldout"])]
    each = judged.groupby("patient_id").agg(score=("score", "mean"), split=("split", "first"))
    members, others = (np.sort(each.loc[each["split"] == split, "score"])[::-1] for split in ("member", "heldout"))
    for point, share in ((found.base_rate.strict, 0.01), (found.base_rate.loose, 0.1)):
        allowed = int(share * len(others))
        assert (point.members, point.others, point.accused) == (len(members), len(others), allowed)
        assert point.caught == int((members > others[allowed]).sum()), "more would accuse one more of the others"


def test_precision_by_counting_a_town(found):
    for point in (found.base_rate.strict, found.base_rate.loose, found.base_rate.private):
        town = 10**6
        caught = town * Fraction(1, 100) * Fraction(point.caught, point.members)
        accused = town * Fraction(99, 100) * Fraction(point.accused, point.others)
        assert point.precision(0.01) == pytest.approx(float(caught / (caught + accused)))
        counted = point.caught / (point.caught + point.accused)
        assert point.precision(point.base_rate) == pytest.approx(counted)
    private = found.base_rate.private
    same = compare_proportions(private.caught, private.members, private.accused, private.others)
    assert min(same.p_value, same.exact_p_value) > 0.05, "as the key says, the two rates cannot be told apart"
    assert Accusation(10, 10, 5, 5).precision(0.3) == pytest.approx(0.3), "a blind accusation leaves the odds"


# 4. Near one half ----------------------------------------------------------------------------------------------------


def test_the_hidden_model_by_pairs(rng):
    h = NearHalf(*[None] * 5, members=600, others=516)
    members, others = rng.random(4_000), rng.random(4_000)
    members[: int(h.known * 4_000)] = 2  # given away for certain
    ordered = np.sort(others)
    assert np.searchsorted(ordered, members).mean() / 4_000 == pytest.approx(h.hidden_auc, abs=0.02)
    assert np.mean(members > ordered[-41]) == pytest.approx(h.hidden_tpr, abs=0.01)


def test_the_difference_from_the_public_model_is_paired(found, shipped):
    """DeLong's (1988) paired interval over patients, from places and not from resamples; by note only the value."""
    private = shipped.run("gpt2-0a31e8681aba")
    tables = [run.table("scores").query("attack == 'loss'") for run in (private, shipped.run("gpt2-48e98331041d"))]
    scores = pd.concat([one.set_index("note_id")["score"] for one in tables], axis=1, keys=["own", "public"])
    about = tables[0].set_index("note_id")[["patient_id", "member"]]

    def wins(column: str, of: pd.DataFrame) -> np.ndarray:
        members, others = (of.loc[of["member"] == side, column].to_numpy() for side in (True, False))
        return (members[:, None] > others) + 0.5 * (members[:, None] == others)

    notes, h = scores.join(about), found.near_half
    assert h.difference_by_note.value == pytest.approx(wins("own", notes).mean() - wins("public", notes).mean())
    assert h.difference_by_note.value == pytest.approx(h.notes.value - 0.494932, abs=1e-6), "the stored control's"
    each = notes.groupby(["patient_id", "member"], as_index=False)[["own", "public"]].mean()
    both = wins("own", each) - wins("public", each)
    half = 1.959964 * math.sqrt(sum(both.mean(axis).var(ddof=1) / both.shape[1 - axis] for axis in (0, 1)))
    by_patient = (both.mean(), both.mean() - half, both.mean() + half)
    more = h.difference_by_patient
    assert (more.value, more.low, more.high) == pytest.approx(by_patient, abs=5e-3)
    assert h.difference_by_note.low > 0 > more.low, "as the key says"


def test_the_spread_of_blind_attacks(found, rng):
    h = found.near_half
    scores = np.argsort(np.argsort(rng.random((6_000, h.members + h.others)), axis=1), axis=1)[:, : h.members]
    aucs = (scores.sum(1) - h.members * (h.members - 1) / 2) / (h.members * h.others)
    assert aucs.std() == pytest.approx(h.deviation, rel=0.04)
    assert np.mean(np.abs(aucs - 0.5) <= h.margin) == pytest.approx(0.95, abs=0.012)
    margins = (1.959964 * math.sqrt((2 * n + 1) / (12 * n * n)) for n in range(1, 40_000))
    assert h.enough == next(n for n, margin in enumerate(margins, start=1) if margin <= 0.005)


def test_all_on_top_by_drawing_without_putting_back(found):
    h, chance = found.near_half, Fraction(1)
    for place in range(6):
        chance *= Fraction(h.members - place, h.members + h.others - place)
    assert h.all_on_top == pytest.approx(float(chance))


# 5. Groups and composition -------------------------------------------------------------------------------------------


def _epsilon(found: pld.PrivacyLossDistribution, delta: float) -> float:
    return found.get_epsilon_for_delta(delta)


def test_the_group_formula_step_by_step(found):
    """Group privacy one note at a time: δ of k notes is δ + e^ε · δ of k − 1 notes (Dwork & Roth 2014, theorem 2.2)."""
    for notes in (found.together.median, found.together.most):
        epsilon, delta = 0.0, 0.0
        for _ in range(notes):
            epsilon, delta = epsilon + 1, found.together.one.delta + math.e * delta
        told = found.together.group(notes)
        assert told[0] == pytest.approx(epsilon) and told[1] == pytest.approx(min(1.0, delta))


def test_a_patients_epsilon_by_another_accountant(found):
    t = found.together
    one, notes = t.one, t.median
    counts = np.arange(notes + 1)
    chances = [math.comb(notes, k) * one.sample_rate**k * (1 - one.sample_rate) ** (notes - k) for k in counts]
    step = pld.from_mixture_gaussian_mechanism(
        one.noise_multiplier, counts.astype(float), np.array(chances) / sum(chances), value_discretization_interval=1e-3
    )
    assert t.exact(notes) == pytest.approx(_epsilon(step.self_compose(one.steps), one.delta), rel=0.02)


def test_both_trainings_by_another_accountant(found):
    t, both = found.together, None
    for run in (t.one, t.eight):
        step = pld.from_gaussian_mechanism(
            run.noise_multiplier, sampling_prob=run.sample_rate, value_discretization_interval=1e-3
        ).self_compose(run.steps)
        both = step if both is None else both.compose(step)
    assert t.both == pytest.approx(_epsilon(both, t.one.delta), rel=0.01)
    assert t.eight.epsilon() < t.both < 9


def test_notes_of_patients_are_counted(found, shipped):
    notes = shipped.corpus(shipped.run(PLAIN).spec.corpus).notes
    sizes = sorted(Counter(notes.loc[notes["split"] == "member", "patient_id"]).values())
    told = found.together.median, found.together.most, found.patients
    assert told == (sizes[len(sizes) // 2], sizes[-1], len(sizes))


# 6. Odds -------------------------------------------------------------------------------------------------------------


def test_odds_by_the_worst_mechanism(found):
    """Randomised response tells the truth with chance e^ε/(1 + e^ε): nothing that is ε-DP is easier to guess."""
    o = found.odds
    for limit in o.limits:
        epsilon = o.largest_epsilon(limit)
        assert math.exp(epsilon) / (1 + math.exp(epsilon)) == pytest.approx(limit)
    for model, epsilon in zip(o.models, (1, 8, math.inf), strict=True):
        assert model.epsilon == epsilon
        if math.isfinite(epsilon):
            truth = math.exp(epsilon) / (1 + math.exp(epsilon))
            assert model.promised == pytest.approx(truth, abs=1e-5)
            told_in = 0.1 * truth, 0.9 * (1 - truth)
            assert model.belief(0.1) == pytest.approx(told_in[0] / sum(told_in))
            assert model.mechanism.epsilon() == pytest.approx(epsilon, rel=0.002)


def test_odds_by_exact_accounting_by_another_accountant(found):
    """At even odds the best guess is right with chance (1 + δ(0))/2."""
    for model in found.odds.models[:2]:
        run = model.mechanism
        step = pld.from_gaussian_mechanism(
            run.noise_multiplier, sampling_prob=run.sample_rate, value_discretization_interval=1e-3
        )
        distance = step.self_compose(run.steps).get_delta_for_epsilon(0.0)
        assert model.exact == pytest.approx((1 + distance) / 2, abs=0.005)
    assert [model.epsilon for model in found.odds.meeting(0.6)] == [1.0]


def test_answers_about_the_notebook_by_other_means(found, shipped):
    n, run = found.notebook, shipped.run("gpt2-0a31e8681aba").privacy
    step = pld.from_gaussian_mechanism(
        n.halving_sigma, sampling_prob=run.sample_rate, value_discretization_interval=1e-3
    ).self_compose(run.steps)
    assert _epsilon(step, run.delta) == pytest.approx(n.epsilon / 2, rel=0.01)
    assert n.epsilon == pytest.approx(8, rel=0.002)
    rows = shipped.run(PLAIN).metrics.set_index(["metric", "arm"])["value"]
    assert (n.dates.value, n.dates_heldout.value) == tuple(
        rows["field_patients:date_of_birth", arm] for arm in ("run", "heldout")
    )
    assert (n.notes.value, n.patients.value) == (rows["auc_loss", "run"], rows["auc_loss_patients", "run"])


def test_figures_of_the_table_are_those_of_the_runs(found, shipped):
    for model, run_id in zip(found.odds.models, ("gpt2-9c478ef93063", "gpt2-0a31e8681aba", PLAIN), strict=True):
        rows = shipped.run(run_id).metrics.query("arm == 'run'").set_index("metric")
        for figure, name in (
            (model.names, "full_name_patients"),
            (model.auc, "auc_loss"),
            (model.perplexity, "perplexity_heldout"),
        ):
            assert (figure.value, figure.low, figure.high) == tuple(rows.loc[name, ["value", "low", "high"]])
    assert "0.498 (0.483 to 0.511)" in re.sub(r"\s+", " ", Path(SHEETS / "key.md").read_text(encoding="utf-8"))
