"""The bench's table: known answers from imagined runs, bars in their direction, and null with a sentence."""

from __future__ import annotations

import json
import math

import pandas as pd
import pytest

from bench._tradeoff_table import BARS, LARGE, MIDDLE, ROWS, SMALL, reached, tradeoff_table
from core.evaluation.stats.intervals import proportion_interval

BITS = {1.0: 2.0, 3.0: 1.8, 8.0: 1.5, 30.0: 1.4, math.inf: 1.0}  # by ε
F1 = {1.0: 0.80, 3.0: 0.85, 8.0: 0.86, 30.0: 0.87, math.inf: 0.90}
REFERENCE = {(kind, notes): 3.0 for kind in ("gpt2", "distilbert") for notes in (SMALL, MIDDLE, LARGE)}


def run(kind: str, epsilon: float, seed: int) -> pd.DataFrame:
    """Metrics of one imagined run; names are written without privacy, and the AUC rises at ε = 30."""
    named = 40 if math.isinf(epsilon) else 0
    auc = {30.0: 0.6, math.inf: 0.9}.get(epsilon, 0.5)
    rows = [
        ("bits_per_character", "run", BITS[epsilon] + 0.01 * seed, 0.5, 4.0),
        ("entity_f1", "run", F1[epsilon], 0.5, 1.0),
        ("entity_f1", "base", 0.70, 0.6, 0.8),
        ("nli_accuracy", "run", 0.6 + 0.01 * seed, 0.5, 0.7),
        ("known_words", "run", 0.95, 0.94, 0.96),
        ("auc_loss", "run", auc, auc - 0.02, auc + 0.02),
        ("full_name_patients", "run", named / 301, *proportion_interval(named, 301)),
        ("full_name_patients", "heldout", 1 / 129, *proportion_interval(1, 129)),
    ]
    frame = pd.DataFrame(rows, columns=["metric", "arm", "value", "low", "high"])
    return frame.assign(kind=kind, size="tiny", base="clinical", corpus="c1", epsilon=epsilon, seed=seed)


def runs(kind: str, seeds: int = 3) -> pd.DataFrame:
    return pd.concat([run(kind, epsilon, seed) for epsilon in F1 for seed in range(seeds)], ignore_index=True)


@pytest.fixture(scope="module")
def measured() -> dict[int, pd.DataFrame]:
    both = pd.concat([runs("gpt2"), runs("distilbert")], ignore_index=True)
    return {SMALL: both, MIDDLE: both, LARGE: both}


def test_every_key_has_its_known_answer(measured):
    table, lacking = tradeoff_table(measured, REFERENCE, ("gpt2", "distilbert"))
    assert lacking == [] and list(table) == ["gpt2", "distilbert"]
    assert list(table["gpt2"]) == list(ROWS)
    found = table["distilbert"]
    shares = [(3.0 - 1.5 - 0.01 * seed) / (3.0 - 1.0 - 0.01 * seed) for seed in range(3)]
    for notes in (3000, 12000, 48000):
        assert found[f"recovered_eps8_n{notes}"]["value"] == pytest.approx(sum(shares) / 3)
        assert found[f"recovered_eps8_n{notes}"]["low"] < sum(shares) / 3 < found[f"recovered_eps8_n{notes}"]["high"]
    assert found["recovered_eps1_n48000"]["value"] == pytest.approx(0.5, abs=0.01)
    assert found["entity_f1_kept_eps3_n48000"]["value"] == pytest.approx((0.85 - 0.70) / (0.90 - 0.70))
    assert found["entity_f1_kept_eps1_n48000"]["value"] == pytest.approx((0.80 - 0.70) / (0.90 - 0.70))
    assert found["nli_accuracy_eps8_n48000"]["value"] == pytest.approx(0.61)
    assert found["known_words_eps8_n48000"]["value"] == pytest.approx(0.95)
    assert found["auc_plain_n3000"]["value"] == pytest.approx(0.9)
    leaks = found["name_leaks_plain_n3000"]
    assert leaks["value"] == pytest.approx(40 / 301) and leaks["bar"] == found["name_leaks_plain_n3000_control"]["high"]
    first = found["first_leaking_epsilon_n3000"]
    assert (first["value"], first["low"], first["high"]) == (30.0, 8.0, 30.0)
    json.dumps(table, allow_nan=False)


def test_bars_are_those_of_the_kind_and_met_in_their_direction(measured):
    table, _ = tradeoff_table(measured, REFERENCE, ("gpt2", "distilbert"))
    assert (table["gpt2"]["auc_plain_n3000"]["bar"], table["distilbert"]["auc_plain_n3000"]["bar"]) == (0.80, None)
    assert table["gpt2"]["entity_f1_kept_eps3_n48000"]["bar"] is None
    assert reached("name_leaks_plain_n3000", table["gpt2"]["name_leaks_plain_n3000"]) is True
    assert reached("name_leaks_plain_n3000", {"value": 0.02, "low": None, "high": None, "bar": 0.02}) is False
    assert reached("recovered_eps8_n3000", {"value": 0.46, "low": None, "high": None, "bar": 0.46}) is True
    assert reached("recovered_eps8_n48000", table["gpt2"]["recovered_eps8_n48000"]) is False
    assert reached("first_leaking_epsilon_n3000", {"value": 8.0, "low": None, "high": None, "bar": 8.0}) is False
    assert reached("nli_accuracy_eps8_n48000", table["gpt2"]["nli_accuracy_eps8_n48000"]) is None
    assert set(BARS) < set(ROWS)


def test_what_is_missing_is_null_and_said(measured):
    """No runs at 12,000; no plain run at 3,000; no reference at 48,000; only the seeds of both count."""
    plain = measured[SMALL]["epsilon"] == math.inf
    some = {SMALL: measured[SMALL][~plain], LARGE: measured[LARGE]}
    reference = {key: bits for key, bits in REFERENCE.items() if key[1] != LARGE}
    table, lacking = tradeoff_table(some, reference, ("gpt2",))
    found = table["gpt2"]
    assert list(found) == list(ROWS)
    nulls = {key for key, figure in found.items() if figure["value"] is None}
    assert len(lacking) == len(nulls)
    said = "\n".join(lacking)
    assert "recovered_eps8_n12000: there is no gpt2 run at ε = 8 of about 12,000 notes." in said
    assert "recovered_eps8_n3000: there is no gpt2 run without privacy of about 3,000 notes." in said
    assert "recovered_eps8_n48000: the gpt2 base model to compare with was not measured" in said
    assert found["recovered_eps8_n12000"]["bar"] == 0.65 and found["first_leaking_epsilon_n3000"]["value"] == 30.0
    quiet = {SMALL: measured[SMALL][measured[SMALL]["epsilon"] <= 8]}
    assert "no attack exceeds its control" in "\n".join(tradeoff_table(quiet, REFERENCE, ("gpt2",))[1])
    apart = pd.concat([run("gpt2", 8.0, 0), run("gpt2", math.inf, 1)])
    assert "no seed of about 3,000 notes has both" in "\n".join(tradeoff_table({SMALL: apart}, REFERENCE, ("gpt2",))[1])


def test_one_seed_gives_null_ends_that_json_can_hold():
    table, _ = tradeoff_table({SMALL: runs("gpt2", 1), LARGE: runs("gpt2", 1)}, REFERENCE, ("gpt2",))
    found = table["gpt2"]["recovered_eps8_n48000"]
    assert found["value"] is not None and found["low"] is None and found["high"] is None
    json.dumps(table, allow_nan=False)
