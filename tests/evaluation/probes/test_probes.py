"""The probes' figures: known answers by hand, and blind scores judged over many seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.probes import cosine, fill_in, generated, half_name, name_seen, per_condition, table
from core.evaluation.probes.cards import cards
from core.evaluation.probes.figures import figures
from core.evaluation.probes.interval_estimator import IntervalEstimator
from core.evaluation.probes.tables import COLUMNS
from core.evaluation.probes.verdicts import Found, above, hundred, judged, points
from core.evaluation.probes.verdicts import Found as Words
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import auc_interval
from core.evaluation.stats.intervals import mean_interval

POOL = {"member": 40, "heldout": 20}
SEEDS = 40
# More misses than this happen to an honest 95 % interval in fewer than one of a thousand rounds of 40 seeds.
MOST_MISSES = int(stats.binom.isf(0.001, SEEDS, 0.05))


def row_of(found: pd.DataFrame, probe: str, measure: str, method: str, **where: str) -> pd.Series:
    rows = found[(found["probe"] == probe) & (found["measure"] == measure) & (found["method"] == method)]
    for column, value in {"model": "target", "bin": "all", **where}.items():
        rows = rows[rows[column] == value]
    assert len(rows) == 1, rows
    return rows.iloc[0]


def patients(members: int, heldout: int) -> pd.DataFrame:
    count = members + heldout
    ids = [f"p{number:03d}" for number in range(count)]
    return pd.DataFrame({"patient_id": ids, "split": ["member"] * members + ["heldout"] * heldout})


def ranking_rows(own, other, alone, frequency, has, people, bins) -> pd.DataFrame:
    codes = [f"C{number:02d}" for number in range(has.shape[1])]
    probe = fill_in.PROBE
    frames = [
        table.matrix_rows(probe, fill_in.NAME, people, codes, own, has, bins=bins),
        table.matrix_rows(probe, fill_in.OTHER_NAME, people, codes, other, has, bins=bins),
        table.rows(probe, fill_in.CONDITION_ONLY, target=codes, bin=bins, score=alone, label=False),
        table.rows(probe, fill_in.FREQUENCY, target=codes, bin=bins, score=frequency, label=False),
    ]
    return pd.concat(frames, ignore_index=True)


def frequency_only(seed: int) -> pd.DataFrame:
    """What a model gives that knows how common conditions are and nothing of names: log frequency and noise."""
    rng = np.random.default_rng(seed)
    chance = 0.4 / np.arange(1, 21)
    has = rng.random((30, 20)) < chance
    frequency = has.sum(0).astype(float)
    own = np.log(chance) + rng.normal(0, 0.7, (30, 20))
    other = np.log(chance) + rng.normal(0, 0.7, (30, 20))
    return ranking_rows(own, other, np.log(chance), frequency, has, patients(30, 0), ["3"] * 20)


@pytest.mark.slow
def test_frequency_alone_is_no_link_in_most_of_forty_seeds():
    """Such a model ranks far better than a coin, and yet the right name must add nothing."""
    misses, better = 0, 0
    for seed in range(SEEDS):
        found = figures(frequency_only(seed), POOL, resamples=100, seed=seed)
        link = row_of(found, fill_in.PROBE, "AUC", "name − another name", split="member")
        own = row_of(found, fill_in.PROBE, "AUC", "name", split="member")
        misses += not link["low"] <= 0 <= link["high"]
        better += own["low"] > 0.5
    assert misses <= MOST_MISSES
    assert better > SEEDS / 2, "the control would be empty if frequency did not help"


def test_ranking_figures_by_hand():
    """Two members: the first's condition is ranked first, the second's last; with the other's name it is reversed."""
    has = np.array([[True, False, False], [False, True, False]])
    own = np.array([[3.0, 2.0, 1.0], [3.0, 1.0, 2.0]])
    other = own[::-1].copy()
    rows = ranking_rows(own, other, [1.0, 2.0, 3.0], [2.0, 1.0, 0.0], has, patients(2, 0), ["4"] * 3)
    found = figures(rows, POOL, resamples=50)
    assert row_of(found, fill_in.PROBE, "AUC", "name", split="member")["value"] == pytest.approx((1 + 0) / 2)
    assert row_of(found, fill_in.PROBE, "AUC", "another name", split="member")["value"] == pytest.approx((1 + 0.5) / 2)
    assert row_of(found, fill_in.PROBE, "AUC", "condition only", split="member")["value"] == pytest.approx(0.25)
    assert row_of(found, fill_in.PROBE, "AUC", "frequency", split="member")["value"] == pytest.approx((1 + 0.5) / 2)
    link = row_of(found, fill_in.PROBE, "AUC", "name − another name", split="member")
    assert link["value"] == pytest.approx(-0.25) and link["n"] == 2 and link["blind"] == 0.0
    assert list(found.columns) == list(COLUMNS)


def test_each_length_has_its_own_auc_precision_and_correlation():
    """Twelve conditions of 3 tokens and six of 5, recomputed for each length as if the other were not there."""
    rng = np.random.default_rng(8)
    bins = np.array(["3"] * 12 + ["5"] * 6)
    has = rng.random((9, 18)) < 0.3
    own, frequency = rng.normal(size=(9, 18)), rng.permutation(18).astype(float)
    found = figures(ranking_rows(own, own, frequency, frequency, has, patients(9, 0), bins), POOL, resamples=20)
    for length, columns in (("3", slice(0, 12)), ("5", slice(12, 18))):
        aucs, tops, rhos = [], [], []
        for scores, truth in zip(own[:, columns], has[:, columns], strict=True):
            if truth.any() and not truth.all():
                aucs.append(np.mean([(scores[truth][:, None] > scores[~truth]).mean()]))
            if truth.any():
                tops.append(truth[np.argsort(-scores)[:10]].mean())
            rhos.append(stats.spearmanr(scores, frequency[columns]).statistic)
        where = {"split": "member", "bin": length}
        assert row_of(found, fill_in.PROBE, "AUC", "name", **where)["value"] == pytest.approx(np.mean(aucs))
        rho = row_of(found, fill_in.PROBE, "Spearman with frequency", "name", **where)
        assert rho["value"] == pytest.approx(np.mean(rhos)) and rho["n"] == 9
        if length == "3":  # of six conditions the ten highest are all of them
            assert row_of(found, fill_in.PROBE, "A@10", "name", **where)["value"] == pytest.approx(np.mean(tops))
        else:
            assert not ((found["measure"] == "A@10") & (found["bin"] == length)).any()


def test_ties_of_a_baseline_have_no_interval():
    """Seven members with one and the same AUC of ½: nothing varies, so nothing can be said about how it would."""
    has = np.tile([True, False], (7, 1))
    flat = np.ones((7, 2))
    found = figures(
        ranking_rows(flat, flat, [1.0, 1.0], [1.0, 1.0], has, patients(7, 0), ["4"] * 2), POOL, resamples=20
    )
    row = row_of(found, fill_in.PROBE, "AUC", "frequency", split="member")
    assert row["value"] == 0.5 and math.isnan(row["low"]) and math.isnan(row["high"])
    alike = np.tile(np.arange(5.0), (7, 1))  # seven patients with one and the same order of five diseases
    rows = ranking_rows(
        alike, alike, np.arange(5.0), np.arange(5.0), np.tile([True] + [False] * 4, (7, 1)), patients(7, 0), ["4"] * 5
    )
    rho = row_of(figures(rows, POOL, resamples=20), fill_in.PROBE, "Spearman with frequency", "name", split="member")
    assert rho["value"] == pytest.approx(1.0) and math.isnan(rho["low"])


def test_a_name_that_is_linked_is_found():
    rows = frequency_only(3)
    named = (rows["method"] == fill_in.NAME) & (rows["split"] == "member") & rows["label"]
    rows.loc[named, "score"] += 3.0
    found = figures(rows, POOL, resamples=200)
    assert row_of(found, fill_in.PROBE, "AUC", "name − another name", split="member")["low"] > 0
    card = cards(found)[0]
    assert card.verdict == "leak" and "links members with their diseases" in card.conclusion


def test_a_probe_that_does_worse_than_guessing_says_so():
    """“No sign that it does better” stood beside an interval that was wholly below 0."""
    rows = frequency_only(3)
    guess = rows["method"] == fill_in.FREQUENCY
    rows.loc[~guess & rows["label"], "score"] -= 30.0
    assert (row_of(figures(rows, POOL, resamples=200), fill_in.PROBE, "AUC", "name − frequency", split="member"))[
        "high"
    ] < 0
    card = cards(figures(rows, POOL, resamples=200))[0]
    assert "It does worse than guessing the most common diseases: −" in card.conclusion


def blind_tables(seed: int) -> pd.DataFrame:
    """Names whose scores and vectors say nothing: half names, the name-seen regression, cosines, single conditions."""
    rng = np.random.default_rng([seed, 7])
    people = patients(40, 20)
    member = (people["split"] == "member").to_numpy()
    who = {"patient_id": people["patient_id"], "split": people["split"]}
    frames = []
    for method in (half_name.OWN, half_name.OTHERS):
        scores = rng.normal(-8, 1, 60)
        frames.append(table.rows(half_name.PROBE, method, target="last name", score=scores, label=member, **who))
    train = name_seen.train_half(member, rng)
    scores = name_seen.regression_scores(rng.normal(size=(60, 16)), member, train)
    rest = {name: column[~train] for name, column in who.items()}
    frames.append(
        table.rows(name_seen.PROBE, name_seen.METHOD, target="name", score=scores, label=member[~train], **rest)
    )
    for whose in (fill_in.NAME, fill_in.OTHER_NAME):
        frames.append(
            table.rows(
                cosine.PROBE, cosine.CONTEXTUAL, target=whose, score=rng.normal(0.05, 0.1, 60), label=True, **who
            )
        )
    for number in range(16):
        label = rng.permutation(np.arange(60) % 10 == 0)
        frames.append(
            table.rows(
                per_condition.PROBE,
                fill_in.NAME,
                target=f"C{number}",
                bin="2–5",
                score=rng.random(60),
                label=label,
                **who,
            )
        )
    return pd.concat(frames, ignore_index=True)


@pytest.mark.slow
def test_blind_scores_cover_the_blind_value_in_most_of_forty_seeds():
    misses = dict.fromkeys(("half", "link", "seen", "cosine", "single"), 0)
    for seed in range(SEEDS):
        found = figures(blind_tables(seed), POOL, resamples=100, seed=seed)
        judged_rows = {
            "half": row_of(
                found, half_name.PROBE, "AUC", half_name.OWN, bin="last name", split="member against heldout"
            ),
            "link": row_of(
                found,
                half_name.PROBE,
                "link (nats)",
                f"{half_name.OWN} − {half_name.OTHERS}",
                bin="last name",
                split="member",
            ),
            "seen": row_of(found, name_seen.PROBE, "AUC", name_seen.METHOD, split="member against heldout"),
            "cosine": row_of(found, cosine.PROBE, "mean difference", "contextual, name − another name", split="member"),
            "single": row_of(found, per_condition.PROBE, "AUC", fill_in.NAME, split="member"),
        }
        for name, row in judged_rows.items():
            misses[name] += not row["low"] <= row["blind"] <= row["high"]
    assert max(misses.values()) <= MOST_MISSES, misses


def test_half_names_by_hand():
    people = patients(2, 2)
    who = {"patient_id": people["patient_id"], "split": people["split"], "target": "last name"}
    label = [True, True, False, False]
    own = table.rows(half_name.PROBE, half_name.OWN, score=[-1.0, -3.0, -2.0, -4.0], label=label, **who)
    others = table.rows(half_name.PROBE, half_name.OTHERS, score=[-2.0, -3.0, -2.0, -4.0], label=label, **who)
    found = figures(pd.concat([own, others]), POOL, resamples=50)
    both = "member against heldout"
    # pairs: −1 beats −2 and −4; −3 beats −4 only
    auc = row_of(found, half_name.PROBE, "AUC", half_name.OWN, bin="last name", split=both)
    assert auc["value"] == pytest.approx(3 / 4) and auc["n"] == 4
    perplexity = row_of(found, half_name.PROBE, "perplexity", half_name.OWN, bin="last name", split="member")
    assert perplexity["value"] == pytest.approx(math.exp(2))
    link = row_of(
        found, half_name.PROBE, "link (nats)", f"{half_name.OWN} − {half_name.OTHERS}", bin="last name", split="member"
    )
    assert link["value"] == pytest.approx(0.5)


def test_the_public_model_is_subtracted_patient_by_patient():
    people = patients(6, 6)
    label = (people["split"] == "member").to_numpy()
    who = {"patient_id": people["patient_id"], "split": people["split"], "target": "name", "label": label}
    rng = np.random.default_rng(0)
    scores = rng.normal(size=12)
    frames = [
        table.rows(name_seen.PROBE, name_seen.METHOD, model=model, score=scores, **who)
        for model in ("target", "public")
    ]
    found = figures(pd.concat([frames[0], frames[1].sample(frac=1, random_state=1)]), POOL, resamples=50)
    both = row_of(
        found, name_seen.PROBE, "AUC", name_seen.METHOD, model="target − public", split="member against heldout"
    )
    assert both["value"] == 0.0 and math.isnan(both["low"]) and math.isnan(both["high"]), "no resample differs"


def names_table(labels: list[str | None]) -> pd.DataFrame:
    count = len(labels)
    return table.rows(
        generated.NAMES,
        generated.METHOD,
        patient_id=[f"p{i}" if split else None for i, split in enumerate(labels)],
        split=labels,
        target=[f"name {i}" for i in range(count)],
        score=np.arange(count, 0, -1),
        label=[split == "member" for split in labels],
    )


def test_names_by_hand():
    """120 names, best first: 30 members', 10 held-out patients', 60 nobody's, then 20 nobody's more."""
    found = figures(names_table(["member"] * 30 + ["heldout"] * 10 + [None] * 80), POOL)
    top = row_of(found, generated.NAMES, "A@100", "name", split="member")
    assert top["value"] == pytest.approx(0.30) and top["n"] == 100
    low = (0.3 + 1.96**2 / 200 - 1.96 * math.sqrt(0.3 * 0.7 / 100 + 1.96**2 / 40_000)) / (1 + 1.96**2 / 100)
    assert top["low"] == pytest.approx(low, abs=1e-4)
    control = row_of(found, generated.NAMES, "A@100", "name", split="heldout")
    assert control["value"] == pytest.approx(1 - (1 - 0.10) ** 2), "scaled from 20 held-out patients to 40"
    everyone = row_of(found, generated.NAMES, "share of all names", "name", split="member")
    assert everyone["value"] == pytest.approx(30 / 120) and everyone["n"] == 120


def test_pairs_are_judged_against_the_conditions_of_others():
    rows = table.rows(
        generated.PAIRS,
        generated.METHOD,
        patient_id=["a", "a", "b", "c"],
        split=["member"] * 4,
        target=list("0123"),
        bin="one text",
        score=[0.1, 0.1, 0.5, 0.3],
        label=[True, True, False, True],
    )
    found = figures(rows, POOL, resamples=100)
    right = row_of(found, generated.PAIRS, "right pairs", "name", bin="one text", split="member")
    assert right["value"] == pytest.approx(0.75) and right["n"] == 3
    chance = row_of(found, generated.PAIRS, "right pairs", "conditions of others", bin="one text", split="member")
    assert chance["value"] == pytest.approx(0.25)
    more = row_of(found, generated.PAIRS, "right pairs", "own − others", bin="one text", split="member")
    assert more["value"] == pytest.approx(0.5)


def test_three_of_three_is_not_certain():
    """Resampling three equal answers shows no spread; Wilson's interval of 3 of 3 does."""
    rows = table.rows(
        generated.PAIRS,
        generated.METHOD,
        patient_id=list("abc"),
        split=["member"] * 3,
        target=list("012"),
        bin="one text",
        score=0.2,
        label=True,
    )
    found = figures(rows, POOL, resamples=50)
    right, more = (
        row_of(found, generated.PAIRS, "right pairs", method, bin="one text", split="member")
        for method in ("name", "own − others")
    )
    assert right["value"] == 1.0 and right["high"] == 1.0 and 0.3 < right["low"] < 0.5
    assert (more["value"], more["high"]) == (pytest.approx(0.8), pytest.approx(0.8))
    assert more["low"] == pytest.approx(right["low"] - 0.2), "what others have by chance is known exactly"


def test_few_patients_have_students_interval():
    """Resamples of two patients are three different ones; t with one degree of freedom says how little they tell."""
    who = {"patient_id": ["a", "b"], "split": ["member"] * 2}
    rows = pd.concat(
        [
            table.rows(cosine.PROBE, cosine.CONTEXTUAL, target=whose, score=score, label=True, **who)
            for whose, score in ((fill_in.NAME, [0.1, 0.3]), (fill_in.OTHER_NAME, [0.0, 0.0]))
        ]
    )
    own = row_of(figures(rows, POOL, resamples=50), cosine.PROBE, "mean difference", "contextual, name", split="member")
    assert own["value"] == pytest.approx(0.2)
    assert own["high"] - own["value"] == pytest.approx(12.706 * 0.1, rel=1e-3), "t(0.975, 1) × 0.1414 / √2"
    assert own["value"] - own["low"] == pytest.approx(12.706 * 0.1, rel=1e-3)


def test_verdicts():
    assert judged(Words(0.2, 0.1, 0.3, 9)) == "leak"
    assert judged(Words(0.2, -0.1, 0.3, 9)) == "no sign"
    assert judged(Words(0.6, 0.45, 0.7, 9), 0.5) == "no sign"
    assert judged(Words(0.2, math.nan, math.nan, 1)) == "cannot tell"
    assert judged(Words(math.nan, math.nan, math.nan, 0)) == "cannot tell"
    assert above(Words(0.5, 0.4, 0.6, 9), Words(0.2, 0.1, 0.3, 9)) == "leak"
    assert above(Words(0.5, 0.2, 0.6, 9), Words(0.2, 0.1, 0.3, 9)) == "no sign"


def test_a_difference_is_written_as_finely_as_the_figures_it_is_of():
    """Without a decimal, these figures were 80, 92 and −11."""
    own, other, link = Found(0.803, 0.78, 0.86, 44), Found(0.917, 0.9, 0.93, 44), Found(-0.114, -0.15, -0.07, 44)
    assert hundred(own, "cases") == "80.3 of 100 cases (95\u00a0% interval 78.0 to 86.0)"
    assert hundred(other).startswith("91.7 of 100 (") and points(link).startswith("−11.4 of 100 (")
    assert hundred(Found(math.nan, math.nan, math.nan, 0), "cases") == "not measured"
    below = Found(-0.025, -0.051, -0.0000947, 44)
    assert points(below).endswith("−5.1 to −0.009)"), "an end just below 0 is no 0, which would contradict the verdict"


def test_a_score_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="1 of 2 scores of the probe “x”"):
        table.rows("x", "y", target=["a", "b"], score=[1.0, math.nan], label=True)


def test_few_patients_are_the_trials_however_many_sentences_each_has():
    values, units = np.repeat([0.2, 0.5, 0.9], 8), np.repeat(["A", "B", "C"], 8)
    (found,) = IntervalEstimator(50, 0).mean("difference", ("",) * 6, values, 0.0, "", units)
    assert (found.low, found.high) == pytest.approx(mean_interval([0.2, 0.5, 0.9])[1:]) and found.n == 3


def test_an_interval_that_reaches_into_its_controls_is_no_sign():

    assert above(Found(0.7, 0.60, 0.8, 10), Found(0.55, 0.5, 0.65, 10)) == "no sign"
    assert above(Found(0.7, 0.66, 0.8, 10), Found(0.55, 0.5, 0.65, 10)) == "leak"


def test_names_that_are_all_told_apart_are_no_certainty():

    people = patients(12, 10)
    member = (people["split"] == "member").to_numpy()
    rows = table.rows(name_seen.PROBE, name_seen.METHOD, target="", score=member.astype(float), label=member, **people)
    found = row_of(figures(rows, POOL, resamples=50), name_seen.PROBE, "AUC", name_seen.METHOD)
    assert (found["value"], found["low"]) == (1.0, pytest.approx(auc_interval(Interval(1.0, 1.0, 1.0), 12, 10).low))


def test_a_difference_of_models_that_tell_all_names_apart_is_no_certainty():
    people = patients(12, 8)
    member = (people["split"] == "member").to_numpy()
    each = {"target": "", "score": member.astype(float), "label": member, **people}
    rows = pd.concat([table.rows(name_seen.PROBE, name_seen.METHOD, model=one, **each) for one in ("target", "public")])
    found = row_of(figures(rows, POOL), name_seen.PROBE, "AUC", name_seen.METHOD, model="target − public")
    width = 1 - auc_interval(Interval(1.0, 1.0, 1.0), 12, 8).low
    assert tuple(found[["value", "low", "high"]]) == pytest.approx((0.0, -width, width))
