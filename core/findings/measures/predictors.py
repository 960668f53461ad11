"""How well features of a note predict whether it is memorised, without a threshold (Mireshghallah 2022, §4.4)."""

from __future__ import annotations

import numpy as np

from core.evaluation.memorisation.predictors import memorised_notes, unseen_log_odds
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_auc
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

RESAMPLES = 1_000
SPLITS = 20  # one split can move the difference by more than its interval is wide


def predictors_apart(runs: StoredRuns, spec: RunSpec, one: str, other: str) -> Interval:
    """AUC of predicting memorised notes of unseen patients from the features `one` − from `other`.

    Notes are ranked by the regression's log-odds. Precision needs notes that are predicted to be memorised, and some
    features predict none; the AUC compares those as well. The value is the mean over `SPLITS` splits of the patients
    into a fitted and a judged half; the first split is that of the audit. All patients are resampled, with the same
    weights in every split, and the fitted regressions stay.
    """
    notes = runs.audited(spec, "note_features")
    members = notes[notes["split"] == "member"].reset_index(drop=True)
    found = memorised_notes(members["ratio"], notes.loc[notes["split"] == "heldout", "ratio"])
    judged, statistics = [], []
    for split in range(SPLITS):
        for features in (one, other):
            seed = spec.audit.seed + split
            odds, half = unseen_log_odds(members, found, members["patient_id"], features, seed=seed)
            statistics.append(weighted_auc(odds.tolist(), found[half].tolist()))
        judged.append(np.flatnonzero(half))

    def apart(weights: np.ndarray) -> np.ndarray:
        halves = (np.take(weights, half, axis=1) for half in judged)
        pairs = zip(halves, statistics[::2], statistics[1::2], strict=True)
        return np.mean([mine(half) - theirs(half) for half, mine, theirs in pairs], axis=0)

    return patient_bootstrap(apart, members["patient_id"], resamples=RESAMPLES)
