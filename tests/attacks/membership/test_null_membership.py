"""Null calibration with real models: where membership cannot be told the figures say so, and with DP they nearly do."""

from __future__ import annotations

import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.battery import REGISTRY
from core.attacks.exposure import canary_exposures
from core.attacks.membership.attacks import relative_membership
from core.attacks.membership.white_box import SMALLEST, attention_features, fitted_log_odds, folds, gradient_features
from core.attacks.registry import Target, no_report
from core.corpus.synthetic.canaries import canary_notes, draw
from core.corpus.tables import Corpus
from core.evaluation.guarantee.audit_guarantee import audit_guarantee
from core.evaluation.membership.summary import figures
from core.evaluation.membership.units import units
from core.evaluation.stats.roc import roc
from core.spec import CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.trainer import train

pytestmark = pytest.mark.slow

SEEDS = 40
MISSES = int(stats.binom.isf(0.001, SEEDS, 0.05))  # 95 % intervals miss more often than that in 1 of 1,000 cases
WORDS = ["cough", "fever", "pain", "ward", "pulse", "seen", "rest", "walks", "home", "drug", "dose", "night", "lungs"]
ATTACKS = ("loss", "zlib", "min-k 20 %", "min-k++ 20 %")


def corpus(patients: int) -> Corpus:
    """Two notes of random words a patient; every other patient is held out."""
    rng = np.random.default_rng(5)
    rows = []
    for number in range(patients):
        split = ("member", "heldout")[number % 2]
        for note in range(2):
            text = " ".join(rng.choice(WORDS, size=8)) + f" {rng.integers(1000)}."
            rows.append((f"n{number}-{note}", f"p{number}", f"a{number}", split, "progress", text))
    columns = ["note_id", "patient_id", "admission_id", "split", "note_type", "text"]
    return Corpus(CorpusSpec(), pd.DataFrame(), pd.DataFrame(rows, columns=columns), pd.DataFrame())


def scores(lm, notes: Corpus) -> dict[str, pd.DataFrame]:
    spec = RunSpec(model=ModelSpec(kind="gpt2"))
    target = Target(spec, notes, lambda name: pd.DataFrame(), {"target": lambda report: lm})
    return {name: REGISTRY[name].run(target, no_report)["scores"] for name in ATTACKS}


def swapped(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The scores with membership dealt anew among the patients, as many members as before."""
    patients = table.drop_duplicates("patient_id").set_index("patient_id")["split"]
    dealt = pd.Series(np.random.default_rng([seed, 9]).permutation(patients.to_numpy()), index=patients.index)
    split = table["patient_id"].map(dealt)
    return table.assign(split=split, member=split == "member")


@pytest.mark.parametrize("trained", [False, True])
def test_members_swapped_at_random_are_told_from_nobody_40_seeds(untrained, teach, trained):
    """Real scores of a model that read nothing, and of one that knows half of the notes by heart, coins dealt anew."""
    notes = corpus(48)
    lm = teach("gpt2", notes.notes_of("member")["text"].tolist(), 25) if trained else untrained["gpt2"]
    for name, table in scores(lm, notes).items():
        if trained and name == "loss":
            member = table["member"].to_numpy(dtype=bool)
            assert roc(table.loc[member, "score"], table.loc[~member, "score"]).auc > 0.75, "it does know them"
        misses = {"auc": 0, "privacy_leakage": 0}
        for seed in range(SEEDS):
            found = figures(units(swapped(table, seed)), own=None, resamples=100, seed=seed)
            for metric, rule, blind in (("auc", "", 0.5), ("privacy_leakage", "own", 0.0)):
                row = next(one for one in found if (one.rule, one.metric) == (rule, metric))
                misses[metric] += not row.low <= blind <= row.high
        assert max(misses.values()) <= MISSES, f"{name}: 95 % intervals missed a blind guess in {misses} of {SEEDS}"


@pytest.mark.parametrize("made", [attention_features, gradient_features])
def test_fitted_attacks_on_members_dealt_anew_are_blind_40_seeds(teach, made):
    """Real features of a model that knows half of the notes by heart, fitted to coins dealt anew each time."""
    notes = corpus(48).notes
    known = notes[notes["split"] == "member"]["text"].tolist()
    lm, texts = teach("gpt2", known, 10), notes["text"].tolist()
    if made is attention_features:
        features = attention_features(lm, texts)
    else:
        features = np.log(np.maximum(gradient_features(lm, texts, mask_draws=1), SMALLEST))
    table = notes.assign(tokens=10, score=0.0)
    misses = {"auc": 0, "privacy_leakage": 0}
    for seed in range(SEEDS):
        dealt = swapped(table, seed)
        member = dealt["member"].to_numpy(dtype=bool)
        fit = folds(dealt["patient_id"], member, seed) == 0
        judged = dealt[~fit].assign(score=fitted_log_odds(features, member, fit))
        found = figures(units(judged), own=0.0, resamples=100, seed=seed)
        for metric, rule, blind in (("auc", "", 0.5), ("privacy_leakage", "own", 0.0)):
            row = next(one for one in found if (one.rule, one.metric) == (rule, metric))
            misses[metric] += not row.low <= blind <= row.high
    assert max(misses.values()) <= MISSES, misses


def test_relative_membership_of_strangers_is_blind_and_spread_evenly_40_seeds():
    """Members, others and the population alike to target and references: rmia's score is uniform, its AUC is ½."""
    misses, all_scores = 0, []
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 11])
        hard = rng.normal(-3, 0.5, 180)  # how hard a note is, for every model
        own, references = hard + rng.normal(0, 0.1, 180), hard + rng.normal(0, 0.1, (3, 180))
        score = relative_membership(own, references, np.arange(180) >= 120)
        split = np.repeat(["member", "heldout", "population"], 60)
        table = pd.DataFrame(
            {
                "note_id": np.arange(180),
                "admission_id": np.arange(180),
                "tokens": 10,
                "split": split,
                "patient_id": np.arange(180),
                "member": split == "member",
                "score": score,
            }
        )
        auc = next(one for one in figures(units(table), own=None, resamples=100, seed=seed) if one.metric == "auc")
        misses += not auc.low <= 0.5 <= auc.high
        all_scores += score[:120].tolist()
    assert misses <= MISSES
    assert abs(np.mean(all_scores) - 0.5) < 0.02 and abs(np.mean(np.array(all_scores) < 0.1) - 0.1) < 0.02


def test_a_model_that_read_nothing_proves_nothing_about_epsilon_40_seeds(untrained):
    alarms = 0
    no_canaries = draw(CorpusSpec(patients=4, canaries=0, canary_patients=0)).assign(rank=None, reference_size=None)
    tables = pd.concat(scores(untrained["gpt2"], corpus(48)).values())
    for seed in range(SEEDS):
        dealt = pd.concat([swapped(part, seed) for _, part in tables.groupby("attack")])
        found = audit_guarantee(no_canaries, dealt, unit="patient", delta=1e-5, promised=0.0, seed=seed)
        assert len(found) == len(ATTACKS)
        alarms += bool(found["alarm"].any())
    assert alarms <= MISSES


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_with_privacy_auc_is_near_a_half_and_bounds_stay_below_the_promise(teach, unit):
    """The same notes, model and steps without privacy and with ε = 8 for one unit: the first leaks, the second not."""
    spec = CorpusSpec(patients=4, population=0, canaries=12, canary_patients=0, seed=2)
    canaries, notes = draw(spec), corpus(40)
    planted = pd.DataFrame([asdict(note) for note in canary_notes(spec, canaries)])
    training = pd.concat([notes.notes_of("member"), planted], ignore_index=True)
    recipe = TrainingSpec(epochs=25, batch_size=16, learning_rate=4e-3, max_tokens=32)
    auc, ranks, bounds = {}, {}, {}
    for name, privacy in (
        ("plain", PrivacySpec(unit=unit)),
        ("dp", PrivacySpec(target_epsilon=8.0, delta=1e-3, unit=unit)),
    ):
        lm = teach("gpt2", [], 0)
        train(lm, training, recipe, privacy)
        found = scores(lm, notes)
        member = found["loss"]["member"].to_numpy(dtype=bool)
        auc[name] = roc(found["loss"].loc[member, "score"], found["loss"].loc[~member, "score"]).auc
        table = canary_exposures(lm, canaries)
        ranks[name] = table.loc[table["inserted"], "exposure"].mean()
        promised = math.inf if name == "plain" else 8.0
        bounds[name] = audit_guarantee(table, pd.concat(found.values()), unit=unit, delta=1e-3, promised=promised)
    assert auc["plain"] > 0.8 and ranks["plain"] > 5, "without privacy the notes and canaries are known by heart"
    assert abs(auc["dp"] - 0.5) < 0.15 and ranks["dp"] < 4
    assert not bounds["dp"]["alarm"].any() and (bounds["dp"]["epsilon"] <= 8.0).all()
    if unit == "patient":  # where notes are protected, so few patients and canaries prove nothing of anybody
        assert bounds["plain"]["epsilon"].max() > bounds["dp"]["epsilon"].max()
