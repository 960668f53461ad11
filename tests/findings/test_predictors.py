"""The comparison of features that predict memorised notes, against pairs counted one by one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from core.evaluation.memorisation.predictors import memorised_notes, unseen_log_odds
from core.findings.measures.predictors import SPLITS, predictors_apart

FEATURES = ["digits", "tokens", "others", "rarest", "second_rarest", "third_rarest"]


def notes_of(rng: np.random.Generator, count: int) -> pd.DataFrame:
    table = pd.DataFrame(rng.integers(0, 30, (count, 6)).astype(float), columns=FEATURES)
    patients = [f"P{at // 5:03d}" for at in range(count)]
    ratio = table["others"] / 10 + rng.normal(0, 1, count)
    return table.assign(
        patient_id=patients, ratio=ratio, split=["member" if at % 3 else "heldout" for at in range(count)]
    )


def test_features_are_compared_by_pairs_of_unseen_members_notes() -> None:
    notes = notes_of(np.random.default_rng(0), 400)
    runs = SimpleNamespace(audited=lambda spec, table: {"note_features": notes}[table])
    spec = SimpleNamespace(audit=SimpleNamespace(seed=3))
    found = predictors_apart(runs, spec, "C: other characters", "A: digits")  # type: ignore[arg-type]
    members = notes[notes["split"] == "member"].reset_index(drop=True)
    flags = memorised_notes(members["ratio"], notes.loc[notes["split"] == "heldout", "ratio"])
    expected = []
    for split in range(SPLITS):
        won = []
        for name in ("C: other characters", "A: digits"):
            odds, judged = unseen_log_odds(members, flags, members["patient_id"], name, seed=3 + split)
            hits, misses = odds[flags[judged]], odds[~flags[judged]]
            won.append(np.mean([(one > other) + (one == other) / 2 for one in hits for other in misses]))
        expected.append(won[0] - won[1])
    assert found.value == pytest.approx(np.mean(expected))
    assert np.ptp(expected) > 0.02, "one split alone would say something else"
    assert 0 < found.low < found.value < found.high
    same = predictors_apart(runs, spec, "A: digits", "A: digits")  # type: ignore[arg-type]
    assert (same.value, same.low, same.high) == (0, 0, 0)
