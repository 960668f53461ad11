"""Figures of the battery's attack `unlearning`: where patients stand before and after they were taken out of a model.

The place of each patient is that of `core.evaluation.forgetting.standings`. Two ends matter: an unlearned patient who
still stands above nearly everybody was not forgotten, and one below nearly everybody bears the mark of unlearning. Of
patients whom the model never read, each end holds about 5 % in expectation, and the middle half about 50 %. A method
that moves all patients close to the middle has a mean near one half, and leaves a mark. So that mean does not prove
forgetting (Hayes et al. 2024): `core.evaluation.forgetting.likelihood_ratios` is the test that can tell.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from scipy import special, stats

from core.evaluation.forgetting import below, costs
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import auc_interval
from core.evaluation.stats.intervals import proportion_interval, wilson

ARMS = ("original", "ascent", "difference")  # in this order
HIGH, LOW = 0.95, 0.05  # places beyond which a patient stands out
MIDDLE = (0.25, 0.75)  # half of all places: clearly more than half of the patients here is a mark of unlearning
UNLEARNED_COLUMNS = {
    "arm": "str",  # original | ascent | difference
    "figure": "str",  # place | above | below | middle | reached | perplexity, see `unlearned_figures`
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "patients": "int32",  # taken out; of the perplexity: held out
}


def places(standing: pd.DataFrame) -> pd.DataFrame:
    """Columns drawn, arm, percentile: each drawn patient's place in each model, from `unlearning_standing`."""
    found: pd.DataFrame = (
        _wins(standing).groupby(level=["drawn", "arm"], sort=False).mean().rename("percentile").reset_index()
    )
    return found


def unlearned_figures(standing: pd.DataFrame, steps: pd.DataFrame, *, resamples: int = 1_000) -> pd.DataFrame:
    """Figures of each arm over the drawn patients, with UNLEARNED_COLUMNS.

    - `place`: mean place, by `mean_place`. 50 % in expectation for patients never read.
    - `above`, `below`: share of patients whose place is above `HIGH` or below `LOW`; Wilson. 5 % each in expectation
      for patients never read.
    - `middle`: share of patients whose place is in `MIDDLE`; Wilson. 50 % in expectation for patients never read.
    - `reached` (methods): share of unlearnings that came to the loss of notes never seen; Wilson.
    - `perplexity`: of held-out notes, over all models of the arm (exp of nats / tokens); held-out patients resampled.

    Args:
        standing: the attack's table `unlearning_standing`.
        steps: its table `unlearning_steps`; empty for a private run.
        resamples: of held-out patients.
    """
    every, paid = places(standing), costs(standing, resamples=resamples).set_index("arm")
    heldout = standing[~standing["forgotten"]].groupby("arm")["patient_id"].nunique()
    rows: list[tuple] = []
    for arm in (arm for arm in ARMS if arm in paid.index):
        of = every.loc[every["arm"] == arm, "percentile"]
        size, mean = len(of), mean_place(standing[standing["arm"] == arm])
        rows.append((arm, "place", mean.value, mean.low, mean.high, size))
        for figure, there in (("above", of > HIGH), ("below", of < LOW), ("middle", of.between(*MIDDLE))):
            rows.append((arm, figure, *_share(int(there.sum()), size), size))
        if not steps.empty and (steps["arm"] == arm).any():
            reached = steps.loc[steps["arm"] == arm, "reached"]
            rows.append((arm, "reached", *_share(int(reached.sum()), len(reached)), len(reached)))
        ends = (float(one) for one in paid.loc[arm, ["perplexity", "low", "high"]])
        rows.append((arm, "perplexity", *ends, int(heldout[arm])))
    return pd.DataFrame(rows, columns=list(UNLEARNED_COLUMNS)).astype(UNLEARNED_COLUMNS)


def mean_place(standing: pd.DataFrame) -> Interval:
    """The drawn patients' mean place in one model, with its interval over drawn and never-seen patients.

    The mean place is an AUC: the share of pairs of a drawn and a never-seen patient in which the drawn one has the
    larger gain, ties ½. All drawn patients are compared with the same never-seen ones, so it depends on both groups.
    The interval is DeLong's (1988) on the logit scale (Pepe 2003, §5.2), with Student's t of the smaller group;
    Newcombe's at 0 and 1. An interval over the drawn patients alone covers the truth in a third of the cases or fewer
    if all of them are at about the same place (docs/methods/forgetting.md). A single patient on either side, or
    nothing but ties, shows no spread: then it is Wilson's with the mean for the share, which is too wide.

    Args:
        standing: rows of the attack's table `unlearning_standing` for one model, `arm`.
    """
    wins = _wins(standing).droplevel("arm").unstack("patient_id").to_numpy()  # (drawn, never seen)
    value, (drawn, never_seen) = float(wins.mean()), wins.shape
    if value in (0.0, 1.0):
        return auc_interval(Interval(value, value, value), drawn, never_seen)
    smaller = min(drawn, never_seen)
    variance = 0.0 if smaller < 2 else wins.mean(1).var(ddof=1) / drawn + wins.mean(0).var(ddof=1) / never_seen
    if variance == 0:
        return Interval(value, *wilson(value, smaller))
    half = stats.t.ppf(0.975, smaller - 1) * math.sqrt(variance) / (value * (1 - value))
    low, high = special.expit(special.logit(value) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


def _wins(standing: pd.DataFrame) -> pd.Series:
    """1 where a drawn patient's gain is larger than a never-seen patient's, ½ where equal, else 0.

    One for each drawn, arm and patient_id, the never-seen patient. All gains are averaged at once: a pass over each
    drawn patient's rows takes many times as long.
    """
    kept = ["forgotten", "drawn", "arm", "patient_id"]
    gains = standing.groupby(kept, sort=False)["gain"].mean()
    own, others = gains.loc[True].droplevel("patient_id"), gains.loc[False]
    of_drawn = own.reindex(others.index.droplevel("patient_id")).to_numpy()
    return pd.Series(below(of_drawn, others.to_numpy()), index=others.index)


def _share(count: int, of: int) -> tuple[float, float, float]:
    return (count / of, *proportion_interval(count, of)) if of else (math.nan, math.nan, math.nan)
