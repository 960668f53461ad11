"""Null calibration with a real model: canaries that a model never read."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.memorisation.secret_loss import secret_losses
from core.corpus.synthetic.canaries import draw, reference_texts
from core.evaluation.guarantee.audit_guarantee import audit_guarantee, headline
from core.spec import CorpusSpec

SEEDS = 40
MOST_MISSES = int(stats.binom.ppf(0.999, SEEDS, 0.05))  # misses that 40 true 95 % statements exceed in 1 of 1,000 cases
NO_SCORES = pd.DataFrame(columns=["attack", "split", "patient_id", "note_id", "member", "score"])


def test_a_base_only_target_ranks_canaries_uniformly_and_proves_nothing(untrained):
    """40 draws of secrets and coins for 12 canaries of a model that read nothing: ranks of its real losses."""
    lm = untrained["gpt2"]
    rows = draw(CorpusSpec(patients=4, population=0, canaries=12, canary_patients=0, seed=2))
    losses = [secret_losses(lm, reference_texts(row)) for row in rows.to_dict("records")]
    order = np.argsort(np.argsort(losses, axis=1), axis=1) + 1  # rank of every possible secret, (12, 1000)
    ranks, misses = [], 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 4])
        drawn = order[np.arange(12), rng.integers(0, 1000, 12)]
        table = rows.assign(inserted=rng.random(12) < 0.5, rank=drawn, reference_size=np.full(12, 1000))
        found = audit_guarantee(table, NO_SCORES, unit="patient", delta=1e-5, promised=math.inf)
        misses += headline(found)["epsilon"] > 0
        ranks += drawn.tolist()
    assert misses <= MOST_MISSES
    assert stats.kstest(np.array(ranks) / 1000, "uniform").pvalue > 0.001
    bits = np.log2(1000) - np.log2(ranks)
    assert abs(bits.mean() - 1.436) < 4 * 1.44 / math.sqrt(len(bits))
