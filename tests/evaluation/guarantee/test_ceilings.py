"""The most that an audit could prove: at the run's own δ, so that a perfect result reaches it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.evaluation.guarantee.audit_guarantee import BY_CURVE, audit_guarantee, headline, with_ceilings
from tests.evaluation.guarantee.test_guarantee import NO_SCORES, lines, patients, perfect


def test_all_right_reaches_the_ceiling_at_the_runs_own_delta():
    """12 of 12 prove 1.2599 at δ = 10⁻⁵: P[W = 12] + 24·δ·max_i P[12 > W ≥ 12 − i]/i = .05; 1.2603 at δ = 0."""
    found = audit_guarantee(perfect(48), NO_SCORES, unit="note", delta=1e-5, promised=8.0)
    fixed = headline(found)
    assert fixed["trials"] == 12 and fixed["epsilon"] == fixed["ceiling"] == pytest.approx(1.259886, abs=1e-6)
    assert (found["ceiling"] >= found["epsilon"]).all()
    right = 1 / (1 + math.exp(-fixed["ceiling"]))
    below = [
        sum(math.comb(12, j) * right**j * (1 - right) ** (12 - j) for j in range(12 - i, 12)) for i in range(1, 13)
    ]
    excess = 24e-5 * max(share / i for i, share in enumerate(below, start=1))
    assert right**12 + excess == pytest.approx(0.05, abs=1e-9)


def test_stored_ceilings_at_no_delta_are_computed_again():
    rng = np.random.default_rng(1)
    random = lines(np.arange(200) % 2 == 0, 1 + np.arange(200))
    for table in (perfect(48), pd.concat([perfect(48), random])):
        made = audit_guarantee(table, patients(rng, 3.0), unit="note", delta=1e-5, promised=2.0)
        stored = audit_guarantee(table, patients(rng, 3.0), unit="note", delta=0.0, promised=2.0)
        stored = made.assign(ceiling=stored["ceiling"] if len(stored) == len(made) else 9.0)
        pd.testing.assert_frame_equal(with_ceilings(stored, 1e-5), made)
    curve = made.head(1).assign(evidence=BY_CURVE, ceiling=3.7)
    assert with_ceilings(curve, 1e-5)["ceiling"].tolist() == [3.7], "at its δ already"
    assert with_ceilings(made.head(0), 1e-5).empty
