"""Privacy against usefulness over ε: one point per ε from the runs of several seeds, and interpolation between them.

The input is the metrics of many runs in one frame, as returned by `core.runs.queries.metrics`: the columns of the
metrics table and each run's settings (kind, size, base, corpus, epsilon, seed). ε is ∞ for training without privacy.
The caller chooses runs that are comparable (the same unit, δ, epochs).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.common.formatting import setting_text
from core.evaluation.registry import possible
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval
from core.evaluation.wording import FOUND_BY

SERIES = ("kind", "size", "base", "corpus")  # the same for all points of a curve
_POINT = [*SERIES, "epsilon", "metric", "arm"]  # what tells one point from another
POINT_COLUMNS = [*SERIES, "epsilon", "metric", "arm", "value", "low", "high", "seeds", "interval"]


def points(metrics: pd.DataFrame) -> pd.DataFrame:
    """One row per curve (`SERIES`), ε, metric and arm: mean over seeds with a 95 % interval.

    Columns: those of SERIES, epsilon, metric, arm, value, low, high, seeds (how many), interval (`seeds` or `run`).
    With two seeds or more the interval is Student's t over seeds, but never narrower than the average of the runs' own
    intervals: three runs that each saw 0 of 300 leaks do not prove 0. With one seed it is the run's own. Base runs
    (ε = 0) and runs without a target ε (σ given) are left out; no rows give an empty frame. Of runs on imported notes
    that were searched by different detectors, only one detector's count (`of_one_detector`). The public model beside
    the runs of a curve is one model, and has one figure (`of_one_base`).
    """
    trained = metrics[metrics["epsilon"].notna() & (metrics["epsilon"] > 0) & metrics["value"].notna()]
    trained = of_one_base(of_one_detector(trained))
    if trained.empty:
        return pd.DataFrame(columns=POINT_COLUMNS)
    by_seed = trained.groupby([*_POINT, "seed"], sort=True)[["value", "low", "high"]].mean().reset_index("seed")
    rows = by_seed.groupby(_POINT, sort=True).agg(
        value=("value", "mean"), low=("low", "mean"), high=("high", "mean"), seeds=("seed", "size")
    )
    several = rows["seeds"] > 1
    rows["interval"] = np.where(several, "seeds", "run")
    seeds = np.split(by_seed["value"].to_numpy(), np.cumsum(rows["seeds"])[:-1])  # `by_seed` is in the order of `rows`
    each = zip(rows.index.get_level_values("metric"), seeds, rows["low"], rows["high"], strict=True)
    ends = [_over_seeds(metric, values, low, high) for metric, values, low, high in each if len(values) > 1]
    rows.loc[several, ["low", "high"]] = np.array(ends).reshape(-1, 2)
    return rows.reset_index()[POINT_COLUMNS]


def of_one_detector(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows without those of a figure that another detector fed than most rows of the same curve and figure.

    Where the tagger of names could not be used, a run was searched by the rules alone, which leave out other words.
    Such a run is no seed of one with the tagger, nor a point of its curve. The detector is read from a row's note; with
    equally many rows the longer name counts, which is that with the tagger.
    """
    if "note" not in metrics or metrics.empty:
        return metrics
    rows = metrics.reset_index(drop=True)
    detector = rows["note"].astype("string").str.extract(f"{FOUND_BY}([^;]+)", expand=False).fillna("")
    if (detector == "").all():
        return metrics
    rows = rows.assign(detector=detector.astype(object))
    curve = [*SERIES, "metric"]
    often = rows.groupby([*curve, "detector"])["detector"].transform("size")
    ordered = rows.assign(often=often, length=rows["detector"].str.len()).sort_values(["often", "length"])
    kept = ordered[ordered["detector"] == ordered.groupby(curve)["detector"].transform("last")]
    return kept.sort_index()[list(metrics.columns)]


def of_one_base(metrics: pd.DataFrame) -> pd.DataFrame:
    """The rows with one figure of the public model (arm `base`) for each curve and metric: the copy in the middle.

    Every run stores a copy. Copies of older versions and of other machines can differ: as if these were seeds, their
    mean is a figure that no version computed, and their spread an interval that no model has.
    """
    keys = [*SERIES, "metric"]
    copies = metrics[metrics["arm"] == "base"].sort_values("value", kind="stable")
    if copies.empty:
        return metrics
    groups = copies.groupby(keys)
    middle = copies[groups.cumcount() == (groups["value"].transform("size") - 1) // 2]
    figure = metrics[keys].merge(middle[[*keys, "value", "low", "high"]], on=keys, how="left").set_index(metrics.index)
    ends = figure[["value", "low", "high"]].where(metrics["arm"] == "base", metrics[["value", "low", "high"]])
    return metrics.assign(**{name: ends[name] for name in ends})


def _over_seeds(metric: str, values: np.ndarray, own_low: float, own_high: float) -> tuple[float, float]:
    """The interval of several seeds: over seeds, or the runs' own where that is wider, within what is possible.

    There is none for a mean of ∞; some of the runs may have one of their own.
    """
    mean, low, high = mean_interval(values)
    if math.isinf(mean):
        return math.nan, math.nan
    low, high = np.clip([np.fmin(low, own_low), np.fmax(high, own_high)], *possible(metric))
    return float(low), float(high)


@dataclass(frozen=True)
class Estimate:
    """A figure at some ε. `interpolated` is True between runs. If it is unknown, it is NaN and `note` says why."""

    value: float
    low: float
    high: float
    interpolated: bool
    note: str


def interpolate(curve: pd.DataFrame, epsilon: float) -> Estimate:
    """A metric at any ε > 0 (∞ = no privacy): a run's point if there is one, else linear in log ε between two.

    The result is NaN, and `note` says why, outside the runs' range and between the largest finite ε and ∞, where a
    straight line in log ε has no meaning.

    Args:
        curve: the rows of `points` of one series, metric and arm.
        epsilon: the ε.

    Raises:
        ValueError: ε ≤ 0, or an empty or mixed curve.
    """
    if not epsilon > 0:
        raise ValueError(f"ε must be above 0 (∞ = no privacy), not {epsilon}")
    if curve.empty or curve["epsilon"].duplicated().any():
        raise ValueError("interpolation needs the points of one curve: one metric and arm of one model")
    ordered = curve.sort_values("epsilon")
    exact = ordered[np.isclose(ordered["epsilon"], epsilon, rtol=1e-9)]
    if len(exact):
        row = exact.iloc[0]
        return Estimate(row["value"], row["low"], row["high"], False, f"measured ({_seeds(row['seeds'])})")
    finite = ordered[np.isfinite(ordered["epsilon"])]
    unknown = _outside(finite["epsilon"].to_numpy(), epsilon, has_plain=len(finite) < len(ordered))
    if unknown:
        return Estimate(math.nan, math.nan, math.nan, False, unknown)
    at, logs = math.log(epsilon), np.log(finite["epsilon"].to_numpy(dtype=float))
    value, low, high = (
        float(np.interp(at, logs, finite[name].to_numpy(dtype=float))) for name in ("value", "low", "high")
    )
    right = int(np.searchsorted(logs, at))
    left_epsilon, right_epsilon = finite["epsilon"].iloc[right - 1], finite["epsilon"].iloc[right]
    ends = f"ε = {setting_text(left_epsilon)} and ε = {setting_text(right_epsilon)}"
    return Estimate(value, low, high, True, f"interpolated between {ends}")


def _outside(finite: np.ndarray, epsilon: float, *, has_plain: bool) -> str:
    """Why the value at ε is unknown; empty if it is known."""
    if math.isinf(epsilon):
        return "no run without privacy"
    if len(finite) == 0:
        return "no run with privacy"
    if epsilon < finite[0]:
        return f"no run at or below ε = {setting_text(epsilon)}; the smallest is ε = {setting_text(finite[0])}"
    if epsilon > finite[-1]:
        beyond = "no privacy" if has_plain else "a larger ε"
        return f"no run between ε = {setting_text(finite[-1])} and {beyond}"
    return ""


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def recovered(pp_base: np.ndarray, pp_private: np.ndarray, pp_plain: np.ndarray) -> Interval:
    """Share of the gain of training without privacy that private training has, mean over seeds and its t interval.

    (ln pp_base − ln pp_ε) / (ln pp_base − ln pp_∞) per seed, from held-out perplexities of shape (seeds,): 0 = as
    before training, 1 = the run without privacy. That run is overfitted: part of its gain is memorised text that notes
    of several patients share, so 1 is a reference and neither a goal nor full usefulness.

    Raises:
        ValueError: shapes differ, a perplexity is not finite, or training without privacy learned nothing.
    """
    base, private, plain = (
        np.log(np.atleast_1d(np.asarray(pp, dtype=float))) for pp in (pp_base, pp_private, pp_plain)
    )
    if not base.shape == private.shape == plain.shape:
        raise ValueError("each seed needs three perplexities: of the base model, with and without privacy")
    if not np.isfinite([base, private, plain]).all():
        raise ValueError("a perplexity above every number is no share of a gain")
    if (base - plain <= 0).any():
        raise ValueError("training without privacy did not lower the perplexity, so there is nothing to recover")
    return Interval(*mean_interval((base - private) / (base - plain)))
