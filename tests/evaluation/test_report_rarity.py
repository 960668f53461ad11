"""What the report says about rare diseases is what the Patients page says: one profile, over the same patients."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.report_rarity import by_patient, trends


def cohort() -> tuple[pd.DataFrame, SimpleNamespace]:
    """24 judged patients, four of whom have no code, four of the population, and 30 canaries who all hold “A”."""
    held = {"A": [0, 1, 12], "B": [2, 3, 4, 5, 6, 12, 13, 14, 15], "C": [4, 7, 8, 9, 16, 17, 18, 19, 24, 25]}
    splits = ["member"] * 12 + ["heldout"] * 12 + ["population"] * 4
    codes = [[code for code, who in held.items() if n in who] for n in range(28)]
    frame = pd.DataFrame({"patient_id": [f"P{n:02}" for n in range(28)], "split": splits, "icd_codes": codes})
    canaries = pd.DataFrame({"patient_id": [f"X{n}" for n in range(30)], "split": "canary", "icd_codes": [["A"]] * 30})
    scores = pd.DataFrame(
        {"attack": "loss", "patient_id": frame["patient_id"][:24], "split": splits[:24],
         "score": np.random.default_rng(0).normal(size=24)}
    )  # fmt: skip
    return pd.concat([frame, canaries], ignore_index=True), SimpleNamespace(id="r", table=lambda name: scores)


def test_single_patients_have_the_profiles_of_the_patients_page():
    """Equations 4 and 5 by hand: rates over all patients but canaries, those without codes among them."""
    patients, run = cohort()
    real = patients[patients["split"] != "canary"].set_index("patient_id")["icd_codes"]
    rate = {code: sum(code in codes for codes in real) / len(real) for code in "ABC"}
    rare = real.map(lambda codes: -sum(math.log(p if code in codes else 1 - p) for code, p in rate.items()))
    score = run.table("scores").set_index("patient_id")["score"]
    found = by_patient([run], SimpleNamespace(patients=patients)).set_index("split")
    for split, first in (("member", 0), ("heldout", 12)):
        ids = [f"P{n:02}" for n in range(first, first + 12)]
        assert found.loc[split, "patients"] == 12, "whoever has no code is judged, too"
        assert found.loc[split, "rho"] == pytest.approx(stats.spearmanr(rare[ids], score[ids]).statistic)
    assert rare["P00"] > rare["P02"], "“A” is rare but among canaries"


def test_a_trend_counts_the_buckets_that_it_is_of():
    """The second bucket holds members alone: it is kept, but there is no leakage to rank."""
    table = pd.DataFrame(
        {"run": "r", "attack": "loss", "bucket": range(1, 6), "log_probability": [-9.0, -8, -7, -6, -5],
         "patients": [10, 12, 11, 10, 4], "value": [0.5, math.nan, 0.3, 0.2, math.nan], "kept": [True] * 4 + [False]}
    )  # fmt: skip
    (found,) = trends(table).to_dict("records")
    assert (found["buckets"], found["dropped_buckets"], found["dropped_patients"]) == (3, 1, 4)
    assert found["rho"] == pytest.approx(1.0) and found["p_value"] == pytest.approx(2 / 6)
