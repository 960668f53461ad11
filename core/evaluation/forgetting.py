"""Is a patient forgotten? Where they stand among patients never seen, what forgetting cost, and a test that is exact.

`standings` and `costs` compare one model each with the control. `likelihood_ratios` is the stronger test: for one
patient, models that unlearned them against models that never read them (U-LiRA, Hayes et al. 2024, §3). An average over
patients can hide what it finds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_auc, weighted_perplexity
from core.evaluation.stats.boundary_intervals import auc_interval
from core.evaluation.stats.intervals import proportion_interval, wilson
from core.runs.audits import StoredAudit

ARMS = ("public", "original", "ascent", "fine-tuning", "difference", "retrained", "private")  # models, in this order
STANDING_COLUMNS = ["arm", "gain", "percentile", "low", "high", "never_seen", "at_least", "mean", "spread"]
COST_COLUMNS = ["arm", "perplexity", "low", "high"]
COMPARED = {"never_seen": "compared"}  # in the table `writing`, never_seen counts those with known values


def patient_gains(notes: pd.DataFrame) -> pd.Series:
    """The mean gain over a patient's notes, by patient id."""
    return notes.groupby("patient_id")["gain"].mean()


def standings(notes: pd.DataFrame) -> pd.DataFrame:
    """Where the patient stands among patients never seen, for each arm of `core.attacks.forgetting.standing`.

    Columns: arm; gain, the patient's; percentile, the share of never-seen patients with a smaller gain, ties ½, with
    Wilson's interval (low, high); never_seen, their number; at_least, how many have a gain as large; mean and spread,
    the mean and standard deviation of their gains. For a patient whom the model never read, the percentile is uniform
    on 0 to 1: any value is as likely as any other.

    Args:
        notes: `NOTE_COLUMNS` and `arm`.
    """
    rows = []
    for arm, of_arm in notes.groupby("arm", sort=False):
        own = float(patient_gains(of_arm[of_arm["forgotten"]]).iloc[0])
        others = patient_gains(of_arm[~of_arm["forgotten"]]).to_numpy()
        share = float(below(own, others).mean())
        low, high = wilson(share, len(others))
        spread = float(others.std(ddof=1)) if len(others) > 1 else math.nan
        at_least = int((others >= own).sum())
        rows.append((arm, own, share, low, high, len(others), at_least, float(others.mean()), spread))
    return pd.DataFrame(rows, columns=STANDING_COLUMNS)


def below(own: float | np.ndarray, others: np.ndarray) -> np.ndarray:
    """1 where a never-seen patient's gain is smaller than `own`, ½ where equal, else 0. Its mean is the place."""
    found: np.ndarray = (others < own) + 0.5 * (others == own)
    return found


def costs(notes: pd.DataFrame, *, resamples: int = 1_000) -> pd.DataFrame:
    """Perplexity of the held-out notes for each arm: exp(nats / tokens), intervals by resampling patients."""
    rows = []
    for arm, of_arm in notes.groupby("arm", sort=False):
        heldout = of_arm[~of_arm["forgotten"]]
        perplexity = weighted_perplexity(heldout["nats"] / heldout["tokens"], heldout["tokens"])
        found = patient_bootstrap(perplexity, heldout["patient_id"], resamples=resamples)
        rows.append((arm, found.value, found.low, found.high))
    return pd.DataFrame(rows, columns=COST_COLUMNS)


def shares(row: Mapping[str, float]) -> dict[str, Interval]:
    """Of one row of the table `writing`: shares of texts and of patients, with Wilson's intervals.

    `patient`: texts that hold a value of the patient; `never_seen`: never-seen patients with a value in any text;
    `others`: other members with a direct identifier in any text. NaN where no such patient's values are known.
    """
    pairs = {
        "patient": ("patient_texts", "texts"),
        "never_seen": ("never_seen_written", "never_seen"),
        "others": ("others_leaked", "others"),
    }
    found = {}
    for name, (part, whole) in pairs.items():
        count, of = (0, 0) if pd.isna(row[part]) else (int(row[part]), int(row[whole]))
        low, high = proportion_interval(count, of) if of else (math.nan, math.nan)
        found[name] = Interval(count / of if of else math.nan, low, high)
    return found


def summary(stored: StoredAudit) -> pd.DataFrame:
    """Every arm of a comparison in one row, in the order of `ARMS`; empty if there is none.

    Columns: those of `standings` (never_seen as compared), of `costs` (low and high as perplexity_low and
    perplexity_high), and of the table `writing`.
    """
    notes, writing = stored.table("standing"), stored.table("writing")
    if notes.empty:
        return pd.DataFrame(columns=[COMPARED.get(one, one) for one in [*STANDING_COLUMNS, *COST_COLUMNS[1:]]])
    paid = costs(notes).rename(columns={"low": "perplexity_low", "high": "perplexity_high"})
    found = standings(notes).rename(columns=COMPARED).merge(paid, on="arm").merge(writing, on="arm")
    order = {arm: place for place, arm in enumerate(ARMS)}
    return found.sort_values("arm", key=lambda arms: arms.map(order), ignore_index=True)


# Against retrained models --------------------------------------------------------------------------------------------


def likelihood_ratios(gains: pd.DataFrame) -> pd.DataFrame:
    """U-LiRA (Hayes et al. 2024, alg. 1), patient by patient: did this model unlearn the patient, or never read them?

    Each model's evidence on a patient is the vector of its gains on the patient's notes. For every patient and note,
    normal distributions are fitted to the models that unlearned and to those that never read. The score is the sum
    over notes of log N(gain; unlearned) − log N(gain; never read), in nats. A model's own seed is left out of both
    fits, so that no model is judged by a fit that has seen it. With few models, the standard deviation is pooled over
    all notes (as in Carlini et al. 2022, §V-C).

    Args:
        gains: columns patient_id, note_id, seed, unlearned (bool), gain. Every seed has both kinds for each note.

    Returns:
        Columns patient_id, seed, unlearned, score: higher = more likely unlearned than never read.

    Raises:
        ValueError: fewer than three seeds, or a note without a gain from every model.
    """
    table = gains.pivot(index=["patient_id", "note_id"], columns=["unlearned", "seed"], values="gain")
    seeds = sorted(gains["seed"].unique())
    if len(seeds) < 3:
        raise ValueError("two models are needed for a fit besides the one that is judged: give at least three seeds")
    wanted = [(kind, seed) for kind in (False, True) for seed in seeds]
    if not set(wanted) <= set(table.columns) or table[wanted].isna().to_numpy().any():
        raise ValueError("every note needs a gain from two models a seed: one that unlearned, one that never read")
    values = {kind: table[[(kind, seed) for seed in seeds]].to_numpy() for kind in (False, True)}  # (notes, seeds)
    patients = table.index.get_level_values("patient_id")
    rows = []
    for place, seed in enumerate(seeds):
        rest = np.arange(len(seeds)) != place
        fits = {kind: _fit(values[kind][:, rest]) for kind in (False, True)}
        for kind in (False, True):
            judged = values[kind][:, place]
            ratio = _log_normal(judged, *fits[True]) - _log_normal(judged, *fits[False])
            by_patient = pd.Series(ratio, index=patients).groupby(level=0).sum()
            rows += [(patient, seed, kind, score) for patient, score in by_patient.items()]
    return pd.DataFrame(rows, columns=["patient_id", "seed", "unlearned", "score"])


def odd_one_out(unlearned: pd.DataFrame, never: tuple[pd.DataFrame, pd.DataFrame]) -> pd.Series:
    """Whether the unlearned model is the odd one of three, by patient, the other two having never read the patient.

    Two models are as far apart as the sum over the patient's notes of the squared difference of their gains. The odd
    one is outside the closest pair. If unlearning were as good as never reading, the three would be exchangeable, and
    each would be the odd one in a third of the patients. It needs two retrained models and assumes no distribution.

    Args:
        unlearned: columns patient_id, note_id, gain; each patient's under the model that unlearned this patient.
        never: the same under two models that never read any of them.
    """
    first, second, third = (
        one.set_index(["patient_id", "note_id"])["gain"].sort_index() for one in (unlearned, *never)
    )
    apart = {
        name: ((one - other) ** 2).groupby(level="patient_id").sum()
        for name, one, other in (("never", second, third), ("one", first, second), ("two", first, third))
    }
    odd: pd.Series = apart["never"] < np.minimum(apart["one"], apart["two"])
    return odd


def told_apart(scores: pd.DataFrame, *, resamples: int = 1_000) -> Interval:
    """How often an unlearned model scores above one that never read: the AUC over all pairs, ties ½; 0.5 is chance.

    Resampled patients show no spread at exactly 0 or 1; then it is Newcombe's interval over patients, who are as many
    on either side.

    Args:
        scores: from `likelihood_ratios`.
        resamples: of patients. All models of a patient stay together, since they share the patient's notes.
    """
    unlearned = scores["unlearned"].to_numpy()
    statistic = weighted_auc(scores["score"].to_numpy(), unlearned)
    patients = scores["patient_id"].nunique()
    return auc_interval(patient_bootstrap(statistic, scores["patient_id"], resamples=resamples), patients, patients)


def _fit(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Means (notes,) and the pooled standard deviation of values (notes, models)."""
    mean = values.mean(axis=1)
    spread = math.sqrt(float(((values - mean[:, None]) ** 2).sum() / (values.size - len(values))))
    return mean, max(spread, 1e-9)


def _log_normal(values: np.ndarray, mean: np.ndarray, spread: float) -> np.ndarray:
    """Log N(values; mean, spread²) without the constant, (notes,)."""
    found: np.ndarray = -0.5 * ((values - mean) / spread) ** 2 - math.log(spread)
    return found
