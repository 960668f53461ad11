"""The best attack's right guesses: by hand, against a count of guesses, and never by a threshold that knows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.membership.best_attack import BestAttack, best_attack, best_attack_sentence, decisions
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import difference, wilson


def stored(*rows: tuple) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["attack", "level", "length", "rule", "metric", "value", "low", "high", "n"])


MEMBERSHIP = stored(
    ("loss", "sample", "all", "own", "privacy_leakage", 0.2, 0.1, 0.3, 50),
    ("rmia", "sample", "all", "own", "privacy_leakage", 0.5, 0.4, 0.6, 40),
    ("rmia", "sample", "all", "ROC 10 %", "privacy_leakage", 0.9, 0.8, 1.0, 40),
    ("rmia", "sample", "short", "own", "privacy_leakage", 0.8, 0.7, 0.9, 20),
    ("rmia", "sample", "all", "own", "auc", 0.95, 0.9, 1.0, 40),
    ("loss", "patient", "all", "own", "privacy_leakage", 0.6, 0.2, 0.9, 9),
    ("rmia", "patient", "all", "own", "privacy_leakage", np.nan, np.nan, np.nan, 9),
)
SCORES = pd.DataFrame(
    {
        "attack": "loss",
        "note_id": [f"n{number}" for number in range(8)],
        "admission_id": [f"a{number}" for number in range(8)],
        "patient_id": [f"p{number}" for number in range(8)],
        "split": ["member"] * 4 + ["heldout"] * 4,
        "tokens": 10,
        "score": [-1.0, -1.0, -1.0, -5.0, -1.5, -4.0, -4.0, -4.0],
    }
)


def test_the_best_of_several_by_hand():
    found = best_attack([decisions(MEMBERSHIP, SCORES, "note", seed=0)])
    wider = stats.norm.isf(0.0125) / stats.norm.isf(0.025)  # each of two at 97.5 %: both hold in 95 %
    ends = pytest.approx(0.75 - 0.05 * wider), pytest.approx(0.75 + 0.05 * wider)
    assert found == BestAttack("rmia", 0.75, *ends, 40, attacks=2, trainings=1, attempts=2)
    patients = best_attack([decisions(MEMBERSHIP, SCORES, "patient", seed=0)])
    assert (patients.attack, patients.right, patients.judged) == ("loss", 0.8, 9)
    assert best_attack([]) is None and best_attack([MEMBERSHIP.head(0)]) is None


@pytest.mark.parametrize(("caught", "accused"), [(0.5, 0.5), (0.85, 0.2)])
def test_the_best_of_twelve_has_an_interval_that_holds_the_truth(caught, accused):
    """In 400 audits of 12 equally good attacks; the best one's own 95 % interval misses far more often than 5 %."""
    rng, audits, members, others = np.random.default_rng(1), 400, 60, 40
    corrected = alone = 0
    for _ in range(audits):
        right, wrong = rng.binomial(members, caught, 12) / members, rng.binomial(others, accused, 12) / others
        rows = []
        for tpr, fpr in zip(right, wrong, strict=True):
            both = Interval(tpr, *wilson(tpr, members)), Interval(fpr, *wilson(fpr, others))
            rows.append(("a", *vars(difference(*both)).values(), 100))
        table = pd.DataFrame(rows, columns=["attack", "value", "low", "high", "n"])
        found, top = best_attack([table]), table.loc[table["value"].idxmax()]
        corrected += not found.low <= (1 + caught - accused) / 2 <= found.high
        alone += not top["low"] <= caught - accused <= top["high"]
    most = int(stats.binom.isf(0.001, audits, 0.05))
    assert corrected <= most < alone


def test_without_a_full_audit_the_loss_attacks_guesses_are_counted():
    found = best_attack([decisions(pd.DataFrame(), SCORES, "note", seed=0)])
    threshold = SCORES["score"][:4].mean()  # −2: of the members three are above it, of the others one
    says_in = SCORES["score"] > threshold
    right = (says_in[:4].mean() + (~says_in[4:]).mean()) / 2  # half of the guesses about members
    assert right == 0.75 and found.right == pytest.approx(right)
    assert found.low <= found.right <= found.high and found.judged == 8


def test_an_audit_without_the_loss_attack_is_read_beside_the_quick_one():
    others = MEMBERSHIP[MEMBERSHIP["attack"] != "loss"]
    found = decisions(others, SCORES, "note", seed=0)
    assert sorted(found["attack"]) == ["loss", "rmia"] and best_attack([found]).attempts == 2
    quick = decisions(pd.DataFrame(), SCORES, "note", seed=0)
    pd.testing.assert_frame_equal(found[found["attack"] == "loss"].reset_index(drop=True), quick)
    assert decisions(others, SCORES.head(0), "note", seed=0)["attack"].tolist() == ["rmia"], "with figures only"


def test_the_sentence_says_what_it_was_chosen_from():
    told = best_attack_sentence(BestAttack("rmia", 0.75, 0.7, 0.804, 40, attacks=2, trainings=3, attempts=4), "note")
    assert "the likelihood ratio to several reference models (RMIA) got 75 right" in told
    assert "75 right (95\u00a0% interval 70 to 80; 50 by tossing a coin; evaluated on 40 notes)" in told
    assert (
        "the best of 4 attempts (2 membership attacks, 3 training runs, not all on each); the interval is corrected"
        in told
    )
    assert "Each guess is about one note, by the attack's own threshold; pairs, which the AUC counts, are" in told
    alone = best_attack_sentence(BestAttack("loss", 0.9999, 0.999, 1.0, 9, 1, 1, 1), "patient")
    assert "Of 100 guesses" not in alone and "9,999 right" in alone, "not all of them by rounding"
    assert alone.endswith("It is the only membership attack that was run.")
