"""Figures of the battery's attack `unlearning`: where patients stand before and after they were taken out of a model.

The place of each patient is that of `core.evaluation.forgetting.standings`. Two ends matter: an unlearned patient who
still stands above nearly everybody was not forgotten, and one below nearly everybody bears the mark of unlearning. Of
patients whom the model never read, each end holds about 5 % in expectation, and the middle half about 50 %. A
method that moves everybody to the middle has a perfect mean, and leaves a mark. So a mean near one half does not prove
forgetting (Hayes et al. 2024): `core.evaluation.forgetting.likelihood_ratios` is the test that can tell.
"""

from __future__ import annotations

import math

import pandas as pd

from core.evaluation.forgetting import costs, standings
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
    found = [
        standings(rows)[["arm", "percentile"]].assign(drawn=patient)
        for patient, rows in standing.groupby("drawn", sort=False)
    ]
    return pd.concat(found, ignore_index=True)[["drawn", "arm", "percentile"]]


def unlearned_figures(standing: pd.DataFrame, steps: pd.DataFrame, *, resamples: int = 1_000) -> pd.DataFrame:
    """Figures of each arm over the drawn patients, with UNLEARNED_COLUMNS.

    - `place`: mean place. Its interval is Wilson's with the mean for the share, which is too wide rather than too
      narrow: no number between 0 and 1 varies more about its mean than a coin does.
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
        size, mean = len(of), float(of.mean())
        rows.append((arm, "place", mean, *wilson(mean, size), size))
        for figure, there in (("above", of > HIGH), ("below", of < LOW), ("middle", of.between(*MIDDLE))):
            rows.append((arm, figure, *_share(int(there.sum()), size), size))
        if not steps.empty and (steps["arm"] == arm).any():
            reached = steps.loc[steps["arm"] == arm, "reached"]
            rows.append((arm, "reached", *_share(int(reached.sum()), len(reached)), len(reached)))
        ends = (float(one) for one in paid.loc[arm, ["perplexity", "low", "high"]])
        rows.append((arm, "perplexity", *ends, int(heldout[arm])))
    return pd.DataFrame(rows, columns=list(UNLEARNED_COLUMNS)).astype(UNLEARNED_COLUMNS)


def _share(count: int, of: int) -> tuple[float, float, float]:
    return (count / of, *proportion_interval(count, of)) if of else (math.nan, math.nan, math.nan)
