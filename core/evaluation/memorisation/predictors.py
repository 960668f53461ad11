"""What predicts that a note is memorised: simple features of its text, and a logistic regression on half of the notes.

Mireshghallah 2022, §4.4 and table 7: a training sample counts as memorised when the attack finds it. Features are
(A) digits, (B) length in tokens, (C) characters neither letter, digit nor white space, (D) how often its three rarest
tokens occur in the training notes. Precision and recall are measured on notes of other patients.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from core.evaluation.stats.bootstrap import Interval, codes_of, patient_bootstrap, weighted_share
from core.evaluation.stats.boundary_intervals import share_interval

FALSE_POSITIVES = 0.10  # false-positive rate of the attack's threshold, from non-members (Mireshghallah 2022, §3.4)
FEATURE_SETS: dict[str, tuple[str, ...]] = {
    "A: digits": ("digits",),
    "B: length": ("tokens",),
    "C: other characters": ("others",),
    "D: three rarest tokens": ("rarest", "second_rarest", "third_rarest"),
    "C and D": ("others", "rarest", "second_rarest", "third_rarest"),
    "B, C and D": ("tokens", "others", "rarest", "second_rarest", "third_rarest"),
    "A, B, C and D": ("digits", "tokens", "others", "rarest", "second_rarest", "third_rarest"),
}

PREDICTOR_COLUMNS = {
    "features": "str",
    "half": "str",  # fitted | judged
    "precision": "float64",  # NaN if no note was predicted to be memorised
    "precision_low": "float64",
    "precision_high": "float64",
    "recall": "float64",
    "recall_low": "float64",
    "recall_high": "float64",
    "memorised": "float64",  # share of the half's notes, which is the precision of calling every note memorised
    "notes": "int32",
    "patients": "int32",
}


def memorised_notes(member_scores: Sequence[float], nonmember_scores: Sequence[float]) -> np.ndarray:
    """Which training notes the attack finds, (members,) bool, at a threshold that at most 10 % of non-members pass.

    Higher scores mean "more likely a member". The threshold is a score of a non-member that at most that share of them
    exceed. A note has to exceed it, too: ties do not count as found.

    Raises:
        ValueError: There are no non-members.
    """
    others = np.sort(np.asarray(nonmember_scores, dtype=float))
    if others.size == 0:
        raise ValueError("the attack's threshold comes from non-members, and there are none")
    allowed = int(np.floor(FALSE_POSITIVES * others.size + 1e-9))
    return np.asarray(member_scores, dtype=float) > others[others.size - allowed - 1]


def predict_memorised(
    table: pd.DataFrame, memorised: ArrayLike, patients: ArrayLike, *, seed: int = 0, resamples: int = 500
) -> pd.DataFrame:
    """Precision and recall of each feature set on both halves, with `PREDICTOR_COLUMNS`.

    Patients are split in two at random, so no patient has notes in both halves. Intervals resample patients.

    Args:
        table: Features by `core.attacks.memorisation.text_features`, one row per training note.
        memorised: Whether each note counts as memorised, (notes,).
        patients: The patient of each note, (notes,).
        seed: Seed of the split and of the resamples.
        resamples: Number of resamples.

    Raises:
        ValueError: All notes of the fitted half are memorised, or none are, or none of the other half are: there is
            nothing to predict.
    """
    flags, owners = np.asarray(memorised, dtype=bool), np.asarray(patients)
    fitted = _half(owners, seed)
    if len(np.unique(flags[fitted])) < 2 or not flags[~fitted].any():
        raise ValueError(
            f"{int(flags.sum())} of {len(flags)} training notes count as memorised: too few, or all of them, to "
            "predict which ones do"
        )
    rows = []
    for name, columns in FEATURE_SETS.items():
        values = table[list(columns)].to_numpy()
        said = _log_odds(values, flags, fitted) > 0
        for half, chosen in (("fitted", fitted), ("judged", ~fitted)):
            precision, recall = _judged(said[chosen], flags[chosen], owners[chosen], seed, resamples)
            rows.append(
                (
                    name,
                    half,
                    precision.value,
                    precision.low,
                    precision.high,
                    recall.value,
                    recall.low,
                    recall.high,
                    flags[chosen].mean(),
                    int(chosen.sum()),
                    len(np.unique(owners[chosen])),
                )
            )
    return pd.DataFrame(rows, columns=list(PREDICTOR_COLUMNS)).astype(PREDICTOR_COLUMNS)


def unseen_log_odds(
    table: pd.DataFrame, memorised: ArrayLike, patients: ArrayLike, features: str, *, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Log-odds of "memorised" by one feature set, for the notes of the half that the regression was not fitted on.

    The halves and the regression are those of `predict_memorised`, which says "memorised" where the log-odds exceed 0.

    Args:
        table: Features, one row per training note.
        memorised: Whether each note counts as memorised, (notes,).
        patients: The patient of each note, (notes,).
        features: One of FEATURE_SETS.
        seed: Seed of the split.

    Returns:
        The log-odds (judged notes,), and which notes were judged, (notes,) bool.
    """
    flags, fitted = np.asarray(memorised, dtype=bool), _half(patients, seed)
    values = table[list(FEATURE_SETS[features])].to_numpy()
    return _log_odds(values, flags, fitted)[~fitted], ~fitted


def _half(patients: ArrayLike, seed: int) -> np.ndarray:
    codes = codes_of(patients)
    count = codes.max(initial=-1) + 1
    fitted = np.zeros(count, dtype=bool)
    fitted[np.random.default_rng([seed, 505]).permutation(count)[: count // 2]] = True
    return fitted[codes]


def _log_odds(values: np.ndarray, flags: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Log-odds of "memorised" by an unpenalised logistic regression on standardised features, fitted on one half."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    spread = values[fitted].std(axis=0)
    scaled = (values - values[fitted].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # classes that separate fully have no finite optimum
        model = LogisticRegression(C=np.inf, max_iter=500).fit(scaled[fitted], flags[fitted])
    found: np.ndarray = model.decision_function(scaled)
    return found


def _judged(
    said: np.ndarray, truth: np.ndarray, patients: np.ndarray, seed: int, resamples: int
) -> tuple[Interval, Interval]:
    right = (said & truth).astype(float)

    def share(of: np.ndarray) -> Interval:
        if not of.any():
            return Interval(np.nan, np.nan, np.nan)
        found = patient_bootstrap(weighted_share(right, of.astype(float)), patients, seed=seed, resamples=resamples)
        return share_interval(found, len(np.unique(patients[of])))

    return share(said), share(truth)
