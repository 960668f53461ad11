"""Statistics of claims, against slow and obvious ones."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.membership.decision import LOSS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.sweep.limit_measures import losses_by_patient
from core.findings.claim import Figure
from core.findings.claims import chosen
from core.findings.experiments import REPORT_NOISE, at_report_noise, plain, private, twelve
from core.findings.judging import jointly
from core.findings.measures.accounting import epsilon_a_step, epsilon_for_batch, epsilon_of, shard_noise
from core.findings.measures.prompts import clustered, design_effect, excess_by_opening, excess_by_style, style_of
from core.findings.measures.rarity import rank_correlations_apart, unknown_codes
from core.findings.measures.tables import (
    accuracy_difference,
    metric_difference,
    metric_trend,
    perplexity_ratio,
    ranking_difference,
)
from core.findings.stored_runs import StoredRuns, with_shipped
from core.runs.store import DEMO, Workspace
from core.tasks.inference import TASK as INFERENCE
from core.training.accounting.gaussian import epsilon, noise_multiplier, old_report_epsilon
from tests.findings.toy_scores import scores


class Runs(SimpleNamespace):
    """Tables of two runs, by name."""

    def run(self, spec: str) -> SimpleNamespace:
        stored = self.tables[spec]
        return SimpleNamespace(figures_only="heldout_losses" in stored, table=stored.__getitem__)

    def metric(self, spec: str, metric: str, arm: str = "run") -> Figure:
        return self.metrics[spec, metric, arm]


def test_the_ratio_of_perplexities_is_that_of_the_same_notes() -> None:
    one = scores(0.0).assign(attack=LOSS)
    worse = one.assign(score=one["score"] - np.log(3))
    runs = Runs(tables={"one": {"scores": worse}, "other": {"scores": one}})
    found = perplexity_ratio(runs, "one", "other")  # type: ignore[arg-type]
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0, 3.0))


def test_runs_with_figures_only_have_the_same_ratio_of_perplexities() -> None:
    one, other = (scores(0.0, seed=seed).assign(attack=LOSS) for seed in (0, 1))
    sums = {"heldout_losses": losses_by_patient(one)}
    whole, partly = (
        perplexity_ratio(Runs(tables={"one": first, "other": {"scores": other}}), "one", "other")  # type: ignore[arg-type]
        for first in ({"scores": one}, sums)
    )
    heldout = one["split"] == "heldout"
    nats = [-(rows["score"] * rows["tokens"])[heldout].sum() / rows["tokens"][heldout].sum() for rows in (one, other)]
    assert whole.value == pytest.approx(np.exp(nats[0] - nats[1]))
    assert partly == whole and whole.low < whole.value < whole.high


def test_noise_of_the_report_is_what_its_formula_asks_for() -> None:
    for printed in REPORT_NOISE:
        spec = at_report_noise(printed)
        assert (spec.training.epochs, spec.training.batch_size) == (4, 256)
        sigma = spec.privacy.noise_multiplier
        formula = old_report_epsilon(noise_multiplier=sigma, sample_rate=256 / 2_925, steps=46, delta=1e-5)
        assert formula == pytest.approx(printed, rel=2e-3)


def test_figures_without_patients_are_combined_as_independent() -> None:
    stored = {("a", "f1", "run"): Figure("", 0.8, 0.77, 0.84), ("b", "f1", "run"): Figure("", 0.7, 0.66, 0.73)}
    found = metric_difference(Runs(metrics=stored), "a", "b", "f1")  # type: ignore[arg-type]
    assert found.value == pytest.approx(0.1)
    assert (found.low, found.high) == pytest.approx((0.1 - np.hypot(0.03, 0.03), 0.1 + np.hypot(0.04, 0.04)))


def test_several_intervals_are_widened_to_hold_together() -> None:
    one = jointly([Figure("a", 0.0, -1.959964, 1.959964)])
    assert one.figures[0].high == pytest.approx(1.959964)
    three = jointly([Figure(name, 0.0, -1.959964, 1.959964) for name in "abc"])
    assert three.figures[0].high == pytest.approx(2.393980, abs=1e-5)  # normal quantile of 1 − 0.05/6
    few = [Figure(name, 0.0, -2.364624, 2.364624, degrees=7) for name in "abc"]  # Student's t of eight units
    assert jointly(few).figures[0].high == pytest.approx(3.127552, abs=1e-5)  # its quantile of 1 − 0.05/6
    exact = jointly([Figure("a", 2.0, 2.0, 2.0)] * 2)
    assert (exact.figures[0].low, exact.figures[0].high) == (2.0, 2.0)


def prompted(leaks: dict[tuple[int, str], dict[str, int]]) -> SimpleNamespace:
    """A run with ten texts a prompt; of each prompt so many texts leak a member's or a held-out patient's SSN."""
    texts, hits = [], []
    for (number, prompt), found in leaks.items():
        for at in range(10):
            texts.append((10 * number + at, number, prompt))
            hits += [(texts[-1][0], split, "ssn", "value") for split, count in found.items() if at < count]
            hits += [(texts[-1][0], "member", "diagnosis", "value"), (texts[-1][0], "member", "ssn", "old")]
    tables = {
        "generations": pd.DataFrame(texts, columns=["generation_id", "prompt_id", "prompt"]),
        "hits": pd.DataFrame(hits, columns=["generation_id", "split", "field", "rule"]),
    }
    people = pd.DataFrame({"split": ["member"] * 20 + ["heldout"] * 10})
    notes = pd.DataFrame({"text": ["Patient: Ada Byron", "Seen today. Re: cough", "Letter on Ada Byron."]})
    corpus = SimpleNamespace(patients=people, notes_of=lambda split: notes if split == "member" else notes[:0])
    return SimpleNamespace(
        run=lambda spec: SimpleNamespace(table=tables.get), workspace=SimpleNamespace(corpus=lambda spec, store: corpus)
    )


def test_leaks_by_style_have_the_control_of_their_own_texts() -> None:
    leaks = {(1, "Patient:"): {"member": 6, "heldout": 1}, (2, "Re: "): {"member": 2}, (3, "Letter on"): {"member": 5}}
    runs = prompted(leaks)
    found = excess_by_style(runs, SimpleNamespace(corpus=None))  # type: ignore[arg-type]
    control = 1 - (1 - 1 / 20) ** 2  # twice as many members as held-out patients
    assert found["structured"].value == pytest.approx(8 / 20 - control)
    assert found["open"].value == pytest.approx(5 / 10)
    low, high = proportion_interval(5, 10)
    assert found["open"].low == pytest.approx(0.5 - np.hypot(0.5 - low, 1 - (1 - proportion_interval(0, 10)[1]) ** 2))
    only = excess_by_style(runs, SimpleNamespace(corpus=None), (1, 3))  # type: ignore[arg-type]
    assert only["structured"].value == pytest.approx(6 / 10 - (1 - (1 - 1 / 10) ** 2)) and only["open"] == found["open"]
    assert [style_of(prompt) for prompt in ("SSN: ", "Progress note for")] == ["structured", "open"]
    three = excess_by_style(runs, SimpleNamespace(corpus=None), figures=3)["open"]  # type: ignore[arg-type]
    low = stats.binomtest(5, 10).proportion_ci(1 - 0.05 / 3, method="wilson").low
    none = stats.binomtest(0, 10).proportion_ci(1 - 0.05 / 3, method="wilson").high
    assert three.low == pytest.approx(0.5 - np.hypot(0.5 - low, 1 - (1 - none) ** 2))


def test_leaks_by_place_follow_what_members_notes_begin_with() -> None:
    """“Re:” stands in a note and opens none."""
    leaks = {(1, "Patient:"): {"member": 6, "heldout": 1}, (2, "Re:"): {"member": 2}, (3, "Letter on"): {"member": 5}}
    runs = prompted({**leaks, (4, "Next:"): {"member": 9}})
    found = excess_by_opening(runs, SimpleNamespace(corpus=None), (1, 2, 3))  # type: ignore[arg-type]
    assert found[True].value == pytest.approx(11 / 20 - (1 - (1 - 1 / 20) ** 2))
    assert found[False].value == pytest.approx(2 / 10)
    low, _ = proportion_interval(2, 10)
    assert found[False].low == pytest.approx(0.2 - np.hypot(0.2 - low, 1 - (1 - proportion_interval(0, 10)[1]) ** 2))


def test_the_design_effect_is_one_for_independent_texts_and_m_for_texts_that_are_all_alike() -> None:
    alike = prompted({(1, "a:"): {"member": 10}, (2, "b:"): {}, (3, "c:"): {"member": 10}, (4, "d:"): {}})
    assert design_effect(alike, None).value == pytest.approx(10 * (1 / 3) / 0.25)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    drawn = [clustered(rng.binomial(100, 0.2, 14) / 100, 1_400) for _ in range(2_000)]
    assert np.mean([one.value for one in drawn]) == pytest.approx(1, abs=0.04)
    assert np.mean([one.low <= 1 <= one.high for one in drawn]) == pytest.approx(0.95, abs=0.015)
    assert np.isnan(clustered(np.zeros(14), 1_400).value)
    drawn = [clustered(rng.binomial(100, 0.2, 14) / 100, 1_400, figures=3) for _ in range(6_000)]
    missed = np.array([not one.low <= 1 <= one.high for one in drawn]).reshape(-1, 3)
    assert missed.any(axis=1).mean() == pytest.approx(0.05, abs=0.015), "three hold together in 95 % of cases"


def test_a_turn_is_the_difference_of_two_rank_correlations() -> None:
    rng = np.random.default_rng(1)
    common = rng.normal(size=400)  # of rarity and of both scores, with opposite signs
    rarity = common + rng.normal(size=400)
    units = pd.DataFrame({"log_probability": -rarity, "codes": common, "score": common + rng.normal(size=400)})
    other = -common + rng.normal(size=400)
    plain = rank_correlations_apart(units, other, [])
    expected = stats.spearmanr(rarity, units["score"]).statistic - stats.spearmanr(rarity, other).statistic
    assert plain.value == pytest.approx(expected) and plain.low > 0.5
    held = rank_correlations_apart(units, other, ["codes"])
    assert held.low < 0 < held.high, "what made the sign turn is held constant"
    ranks = stats.rankdata(np.column_stack([rarity, units["score"], other, common]), axis=0)

    def partial(of: int) -> float:
        a, b, c = (np.corrcoef(ranks[:, one], ranks[:, two])[0, 1] for one, two in ((0, of), (0, 3), (of, 3)))
        return (a - b * c) / np.sqrt((1 - b**2) * (1 - c**2))

    assert held.value == pytest.approx(partial(1) - partial(2)), "the textbook's formula for one variable"


def test_unknown_codes_are_counted_once() -> None:
    assert unknown_codes([["a", "b", "b", "c"], [], ["a"]], {"a"}).tolist() == [2, 0, 0]


def test_printed_intervals_are_set_against_wilsons() -> None:
    """Against the roots of (p̂ − p)² = z² p (1 − p) / n, which Wilson's ends solve."""
    found = [one.value for one in chosen(["P-c14"])[0].measure(None)]
    z, ends = stats.norm.isf(0.025), []
    for count in (256, 5):
        share = count / 1_400
        ends += sorted(np.roots([1 + z**2 / 1_400, -2 * share - z**2 / 1_400, share**2]))
    assert found == pytest.approx([0.1579 / ends[0], 0.1979 / ends[1], 0.0005 / ends[2], 0.0067 / ends[3]])


def test_every_epsilon_of_the_report_is_set_against_its_printed_one() -> None:
    """Against another accountant: Rényi DP is a bound, and not twice as large here."""
    found = chosen(["P-c17"])[0].measure(None)
    printed = {38.34: 0.506, 19.22: 1.0202, 4.21: 5.0112, 2.283: 9.9438}
    for one, (sigma, given) in zip(found, printed.items(), strict=True):
        bound = epsilon(noise_multiplier=sigma, sample_rate=4 / 1500, steps=3_000, delta=1e-5, accountant="rdp")
        assert 0.5 * bound < one.value * given <= bound and one.low == one.high
    assert found[-1].value == pytest.approx(chosen(["P-c1"])[0].measure(None)[0].value, rel=1e-3)


def test_noise_of_shards_grows_with_the_root() -> None:
    found = shard_noise(4, sigma=3.0, draws=50_000)
    assert found.low < 1 < found.high and found.high - found.low < 0.03
    assert shard_noise(1, draws=50_000).value == pytest.approx(1, abs=0.02)


def test_epsilon_of_a_batch_counts_every_step() -> None:
    found = epsilon_for_batch(64, notes=3_000, epochs=8, sigma=1.0, usual=256, delta=1e-5)
    steps = 375  # 8 · 3,000 / 64; by epochs it would be 8 · 47 = 376
    assert found == epsilon(noise_multiplier=0.5, sample_rate=64 / 3_000, steps=steps, delta=1e-5)


def test_epsilon_moves_with_noise_epochs_and_batch_as_the_accountant_says() -> None:
    """Each figure again, from `epsilon` itself: 3,000 notes, 94 steps are 8 epochs of 256."""

    def spent(sigma: float, batch: int, steps: int) -> float:
        return epsilon(noise_multiplier=sigma, sample_rate=batch / 3_000, steps=steps, delta=1e-5)

    assert epsilon_of(1.0, notes=3_000, epochs=8, batch=256, delta=1e-5) == spent(1.0, 256, 94)
    by_sigma, by_epochs, by_batch = (chosen([name])[0].measure(None) for name in ("H-c18", "H-c19", "H-c20"))
    assert by_sigma[0].label == "σ = 0.7 / σ = 0.5" and len(by_sigma) == 4
    assert by_sigma[0].value == pytest.approx(spent(0.7, 256, 94) / spent(0.5, 256, 94))
    two, four, eight = (spent(0.5, 256, steps) for steps in (24, 47, 94))
    assert len(by_epochs) == 6 and by_epochs[0].value == pytest.approx((eight - four) / 4 / ((four - two) / 2))
    assert len(by_batch) == 4 and by_batch[-1].value == pytest.approx(spent(4.0, 1_024, 24) / spent(2.0, 512, 47))
    assert all(one.low == one.high == one.value for one in (*by_sigma, *by_epochs, *by_batch))


def test_an_epsilon_gained_per_step_is_that_between_two_counts() -> None:
    """σ spends the target over all steps; each figure again from `epsilon` itself."""
    sigma = noise_multiplier(target_epsilon=2.0, sample_rate=0.01, steps=400, delta=1e-5)
    spent = [epsilon(noise_multiplier=sigma, sample_rate=0.01, steps=steps, delta=1e-5) for steps in (100, 200, 400)]
    found = epsilon_a_step(2.0, rate=0.01, counts=(100, 200, 400), delta=1e-5)
    assert spent[-1] == pytest.approx(2.0, rel=2e-3)
    assert found == pytest.approx([(spent[1] - spent[0]) / 100, (spent[2] - spent[1]) / 200])


def test_a_trend_is_the_slope_of_the_least_squares_line_over_doublings() -> None:
    """Against numpy's fit, whatever the order and the distances; equal intervals add up as independent ones."""
    figures = {1: 0.7, 2: 0.74, 4: 0.71, 16: 0.79}
    runs = SimpleNamespace(metric=lambda spec, _: Interval(figures[spec], figures[spec] - 0.03, figures[spec] + 0.03))
    line = [(float(at), at) for at in (4, 1, 16, 2)]
    found = metric_trend(runs, line, "entity_f1")  # type: ignore[arg-type]
    doublings = np.log2(list(figures))
    assert found.value == pytest.approx(np.polyfit(doublings, list(figures.values()), 1)[0])
    half = 0.03 / np.sqrt(np.sum((doublings - doublings.mean()) ** 2))
    assert (found.value - found.low, found.high - found.value) == pytest.approx((half, half))


def test_names_in_generated_text_are_set_against_both_controls() -> None:
    """The excess over held-out patients with DP less the excess without, four shares combined as independent."""
    counts = {"without": {"member": 50, "heldout": 4}, "with": {"member": 3, "heldout": 0}}
    names = {"without": 100, "with": 40}
    fixed = {"probe": "generated names", "measure": "A@100", "method": "name", "model": "target", "bin": "all"}
    expected, rows = {}, []
    for side, found in counts.items():
        for split, count in found.items():
            level = 1 - 0.05 / 4  # of each of four models
            ends = stats.binomtest(count, names[side]).proportion_ci(level, method="wilson")
            # half as many held-out patients as members
            scaled = [1 - (1 - one) ** (2 if split == "heldout" else 1) for one in (count / names[side], *ends)]
            expected[side, split] = scaled
            stored = {"value": scaled[0], "low": 0.3, "high": 0.6, "n": names[side]}  # their own ends are not read
            rows.append({**fixed, "side": side, "split": split, **stored})
    table, people = pd.DataFrame(rows), pd.DataFrame({"split": ["member"] * 20 + ["heldout"] * 10})
    corpus = SimpleNamespace(spec=None, patients=people)
    private_runs = {twelve(8.0).run_id, *(private("gpt2", 8.0, seed).run_id for seed in range(3))}

    def audited(spec, name):
        assert name == "probe_figures"
        return table[table["side"] == ("with" if spec.run_id in private_runs else "without")]

    runs = SimpleNamespace(audited=audited, workspace=SimpleNamespace(corpus=lambda spec, store: corpus))
    written, less = (chosen([name])[0].measure(runs) for name in ("L-c14", "L-c15"))
    excess = {side: expected[side, "member"][0] - expected[side, "heldout"][0] for side in counts}
    assert [one.value for one in written] == pytest.approx([excess["without"]] * 4)
    assert [one.value for one in less] == pytest.approx([excess["with"] - excess["without"]] * 4)
    below = {key: value - low for key, (value, low, _) in expected.items()}
    above = {key: high - value for key, (value, _, high) in expected.items()}
    out = np.hypot(below["without", "member"], above["without", "heldout"])
    assert written[0].low == pytest.approx(excess["without"] - out)
    out = np.hypot(out, np.hypot(above["with", "member"], below["with", "heldout"]))
    assert less[0].high == pytest.approx(excess["with"] - excess["without"] + out)
    assert jointly(less).figures[0].high == less[0].high, "not widened once more"
    table = table[table["side"] == "with"]
    assert all(np.isnan(one.value) for one in chosen(["L-c14"])[0].measure(runs)), "of no name there is no share"


def test_the_reports_own_statistics_are_recomputed_from_its_table() -> None:
    """Against scipy's test of independence; h against 2(asin √p1 − asin √p2) with four-figure arcsines."""
    (chi2,), (effect,) = (chosen([name])[0].measure(None) for name in ("P-c7", "P-c8"))
    found = stats.chi2_contingency([[256, 1_144], [5, 1_395]], correction=False)
    assert chi2.value == pytest.approx(found.statistic / 287.4) and chi2.low == chi2.high == chi2.value
    assert effect.value == pytest.approx(2 * (0.4418 - 0.0598), abs=1e-3)


def test_the_interval_of_a_paired_difference_does_not_depend_on_the_seed(tmp_path):
    """Its ends against those of other draws, by other code."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    sides = []
    for spec in (twelve(8.0), twelve(8.0).base_spec()):
        rows = runs.run(spec).table("utility")
        sides.append(rows[rows["task"] == INFERENCE].groupby("patient_id")[["correct", "trials"]].sum())
    both = sides[0].join(sides[1], how="inner", rsuffix="_other")
    n, values = len(both), both.to_numpy(dtype=float)
    drawn = np.random.default_rng(123).multinomial(n, np.full(n, 1 / n), size=50_000) @ values
    tail = stats.norm.sf(np.sqrt(n / (n - 1)) * stats.t.isf(0.025, n - 1))
    ends = np.quantile(drawn[:, 0] / drawn[:, 1] - drawn[:, 2] / drawn[:, 3], [tail, 1 - tail])
    found = accuracy_difference(runs, twelve(8.0), twelve(8.0).base_spec())
    assert [found.low, found.high] == pytest.approx(ends, abs=0.0008)


def test_a_difference_of_rankings_does_not_depend_on_the_seed(tmp_path):
    """Each patient's share of conditions in order, by loops; its ends against those of other draws."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    rows = runs.audited(plain("gpt2"), "probes")
    rows = rows[(rows["probe"] == "fill in the blank") & (rows["model"] == "target")]
    bins = rows[rows["method"] == "frequency"].set_index("target")["bin"].to_dict()
    members = rows[(rows["split"] == "member") & rows["patient_id"].notna()]
    found = {}
    for (patient, method), one in members.groupby(["patient_id", "method"]):
        own, won = one[one["label"] == 1], []
        for code, score in zip(own["target"], own["score"], strict=True):
            others = one[(one["label"] == 0) & (one["target"].map(bins) == bins[code])]["score"]
            if len(others):
                won.append(np.mean((others < score) + (others == score) / 2))
        found[patient, method] = np.mean(won) if won else np.nan
    table = pd.Series(found).unstack()
    judged = (table["name"] - table["another name"]).dropna().to_numpy()
    n = len(judged)
    drawn = np.random.default_rng(123).multinomial(n, np.full(n, 1 / n), size=100_000) @ judged / n
    tail = stats.norm.sf(np.sqrt(n / (n - 1)) * stats.t.isf(0.025, n - 1))
    difference = ranking_difference(runs, plain("gpt2"), "fill in the blank", "another name")
    assert difference.value == pytest.approx(judged.mean(), abs=1e-9)
    assert [difference.low, difference.high] == pytest.approx(np.quantile(drawn, [tail, 1 - tail]), abs=0.0003)
