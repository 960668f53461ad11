"""How well features of a note predict whether it is memorised, without a threshold (Mireshghallah 2022, §4.4)."""

from __future__ import annotations

from core.evaluation.memorisation.predictors import memorised_notes, unseen_log_odds
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_auc
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

RESAMPLES = 10_000


def predictors_apart(runs: StoredRuns, spec: RunSpec, one: str, other: str) -> Interval:
    """AUC of predicting memorised notes of unseen patients from the features `one` − from `other`.

    Notes are ranked by the regression's log-odds. Precision needs notes that are predicted to be memorised, and some
    features predict none; the AUC compares those as well. The patients of the judged half are resampled for both.
    """
    notes = runs.audited(spec, "note_features")
    members = notes[notes["split"] == "member"].reset_index(drop=True)
    found = memorised_notes(members["ratio"], notes.loc[notes["split"] == "heldout", "ratio"])
    statistics = []
    for features in (one, other):
        odds, judged = unseen_log_odds(members, found, members["patient_id"], features, seed=spec.audit.seed)
        statistics.append(weighted_auc(odds.tolist(), found[judged].tolist()))
    return patient_bootstrap(
        lambda weights: statistics[0](weights) - statistics[1](weights),
        members.loc[judged, "patient_id"],
        resamples=RESAMPLES,
    )
