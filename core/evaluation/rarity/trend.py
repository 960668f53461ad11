"""Whether patients with rarer profiles leak more: a test and a model at patient level, and their result in words.

The question is whether an attack separates members from held-out patients of similar rarity better where profiles are
rare. How high scores are does not answer it: rare profiles may be easy or hard to predict for any model. So the test
uses each member's place among held-out patients of similar rarity (`core.evaluation.rarity.leakage`), and the model
uses the interaction of membership and rarity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.membership.decision import in_words
from core.evaluation.rarity.leakage import Places, covariates, places
from core.evaluation.rarity.profiles import LEAST
from core.evaluation.stats.bootstrap import Interval, percentile_interval, weights_with_data
from core.evaluation.wording import NBSP, p_value_text, signed

ALPHA = 0.05  # a trend is claimed where the corrected p-value is below this
CEILING = 0.98  # above this AUC there is no room left to rise with rarity
PERMUTATIONS, RESAMPLES = 9_999, 500  # with 999, a corrected p near ALPHA depends on the seed
CELLS = 20_000_000  # upper limit of patients × permutations: large cohorts get fewer permutations
MOST_KEPT = 2**16  # patients up to which the orders are kept for the next attack: their numbers take 2 bytes each
_CHUNK = 2_000_000


@dataclass(frozen=True)
class Trend:
    """Leakage over rarity under one attack. Every sign reads: above 0, rarer patients leak (or score) more.

    `auc` is the AUC over all patients. `slope` is the change of the AUC from the most common to the rarest bucket along
    the line through the buckets' AUCs. `p_value` is that of the permutation test, `corrected` Holm's over the `tested`
    attacks. `adjusted` is how much more one standard deviation of rarity adds to a member's score than to a held-out
    patient's, at the same number of codes and length, in standard deviations of the held-out patients' scores.
    `members_rho` and `heldout_rho` are Spearman's ρ of rarity and score on each side. `obstacle` is "ceiling", "few",
    "equal" (all scores) or "".
    """

    members: int
    heldout: int
    buckets: int
    auc: float
    slope: Interval
    p_value: float
    adjusted: Interval
    members_rho: float
    heldout_rho: float
    obstacle: str
    corrected: float = math.nan
    tested: int = 0


NOTHING = Interval(math.nan, math.nan, math.nan)


def trend(units: pd.DataFrame, edges: np.ndarray, *, seed: int = 0) -> Trend:
    """The trend of `units`, patients who pass (columns of `PatientTables.judged`), over the buckets between `edges`.

    The p-value is not corrected yet (see `corrected_over`). If the AUC is above CEILING, fewer than two buckets hold
    LEAST members and LEAST held-out patients, or all scores are equal, nothing is tested.
    """
    units = units[units["passes"]].reset_index(drop=True)
    member = units["member"].to_numpy(dtype=bool)
    counts = int(member.sum()), int((~member).sum())
    score = units["score"].to_numpy(dtype=float)
    auc = stats.mannwhitneyu(score[member], score[~member]).statistic / math.prod(counts) if min(counts) else math.nan
    rarity = -units["log_probability"].to_numpy()
    rhos = _rho(rarity[member], score[member]), _rho(rarity[~member], score[~member])
    found = places(units, edges)
    buckets = int(found.kept.sum())
    obstacle = "few" if buckets < 2 else "ceiling" if auc > CEILING else "equal" if np.ptp(score) == 0 else ""
    if obstacle:
        return Trend(*counts, buckets, float(auc), NOTHING, math.nan, NOTHING, *rhos, obstacle)
    slope, p_value = _tested(found, seed)
    return Trend(*counts, buckets, float(auc), slope, p_value, adjusted_interaction(units, seed=seed), *rhos, "")


def _rho(rarity: np.ndarray, score: np.ndarray) -> float:
    if len(score) < 3 or np.ptp(rarity) == 0 or np.ptp(score) == 0:
        return math.nan
    return float(stats.spearmanr(rarity, score).statistic)


# The test ------------------------------------------------------------------------------------------------------------


def _tested(found: Places, seed: int) -> tuple[Interval, float]:
    """The slope with its interval, and the p-value of a two-sided permutation test over patients.

    Each bucket's AUC is the mean place of its members, and also that of its held-out patients. If leakage does not
    depend on rarity, places are exchangeable between buckets on each side. So places are permuted among members and,
    separately, among held-out patients; the sum of both sides' slopes varies as the slope of the AUCs does, whose noise
    comes from both. Slopes are divided by their standard error each time (Janssen 1997), so that sides and buckets may
    differ in spread.
    """
    sides = [_Side(*found.side(member)[:2], found.kept) for member in (True, False)]
    slope, variance = sides[0].slope(sides[0].place[None])[0][0], sum(one.slope(one.place[None])[1][0] for one in sides)
    error = math.sqrt(variance)
    counts = [len(one.place) for one in sides]
    permutations = int(np.clip(CELLS // sum(counts), 199, PERMUTATIONS))
    drawn = []
    for orders in (_kept if sum(counts) <= MOST_KEPT else _orders)(seed, permutations, *counts):
        made = [one.slope(one.place[order]) for one, order in zip(sides, orders, strict=True)]
        spread = np.sqrt(made[0][1] + made[1][1])
        drawn.append(np.abs(made[0][0] + made[1][0]) / np.maximum(spread, 1e-12))
    extreme = np.concatenate(drawn) >= abs(slope) / max(error, 1e-12) - 1e-9
    half = float(stats.norm.isf(0.025)) * error
    return Interval(slope, slope - half, slope + half), float((1 + extreme.sum()) / (1 + len(extreme)))


def _orders(seed: int, count: int, members: int, heldout: int) -> Iterator[list[np.ndarray]]:
    """`count` random orders of members and of held-out patients, in chunks of (rows, units)."""
    rng, size = np.random.default_rng(seed), members + heldout
    chunk = max(1, _CHUNK // size)
    for start in range(0, count, chunk):
        rows = min(chunk, count - start)
        number = np.uint16 if size <= MOST_KEPT else np.uint32
        inside = (np.tile(np.arange(one, dtype=number), (rows, 1)) for one in (members, heldout))
        yield [rng.permuted(one, axis=1) for one in inside]


@lru_cache(maxsize=1)  # most attacks of a run score the same patients, and drawing takes much of the test's time
def _kept(seed: int, count: int, members: int, heldout: int) -> list[list[np.ndarray]]:
    """`_orders`, drawn once: at most 2 · CELLS bytes."""
    found = list(_orders(seed, count, members, heldout))
    for order in itertools.chain.from_iterable(found):
        order.flags.writeable = False
    return found


class _Side:
    """The places of one side in the buckets that are kept, and the slopes over the buckets that they give."""

    def __init__(self, place: np.ndarray, bucket: np.ndarray, kept: np.ndarray):
        at = np.cumsum(kept) - 1  # column of each bucket that is kept
        self.place = place
        self.inside = np.zeros((len(place), int(kept.sum())))
        self.inside[np.arange(len(place)), at[bucket]] = 1.0
        common_to_rare = np.linspace(1.0, 0.0, self.inside.shape[1])  # bucket 0 is the rarest
        centred = common_to_rare - common_to_rare.mean()
        self.weights = centred / (centred**2).sum()  # least squares through equally spaced buckets

    def slope(self, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope and its variance, (rows,) each, of places (rows, units) in this side's order of units."""
        count = self.inside.sum(axis=0)
        mean = drawn @ self.inside / count
        spread = np.maximum((drawn**2) @ self.inside / count - mean**2, 0.0) / (count - 1)
        return mean @ self.weights, spread @ self.weights**2


# The model -----------------------------------------------------------------------------------------------------------


def adjusted_interaction(units: pd.DataFrame, *, seed: int = 0) -> Interval:
    """Member × rarity at the same number of codes and length, with a 95 % interval over resampled patients.

    score = a + b·member + Σ_x (c_x + d_x·member)·x over rarity (−ln p), number of codes and log length, by least
    squares; the figure is d of rarity. All three have standard deviation 1; the score is in standard deviations of the
    held-out patients' scores.
    """
    member, score = units["member"].to_numpy(dtype=bool), units["score"].to_numpy(dtype=float)
    if not score[~member].std() > 0:
        return NOTHING
    score = (score - score[~member].mean()) / score[~member].std()
    about, flag = covariates(units), member.astype(float)
    design = np.column_stack([flag * about[0], np.ones_like(flag), flag, *about, flag * about[1], flag * about[2]])
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    resamples = int(np.clip(CELLS // 4 // len(design), 200, RESAMPLES))
    weights = weights_with_data(member, resamples=resamples, seed=seed)
    normal = (weights @ squares).reshape(len(weights), design.shape[1], -1)
    fitted = np.linalg.pinv(normal, hermitian=True) @ (weights @ (design * score[:, None]))[..., None]
    values = fitted[:, 0, 0]
    return percentile_interval(float(values[0]), values[1:], int(min(member.sum(), (~member).sum())))


# Several attacks -----------------------------------------------------------------------------------------------------


def corrected_over(trends: Mapping[str, Trend]) -> dict[str, Trend]:
    """The trends of one run's attacks with Holm's (1979) p-values over all attacks that were tested.

    The chance that any of them claims a trend where there is none is then at most ALPHA.
    """
    tested = sorted((name for name, one in trends.items() if not one.obstacle), key=lambda name: trends[name].p_value)
    found, highest = dict(trends), 0.0
    for number, name in enumerate(tested):
        highest = max(highest, min(1.0, (len(tested) - number) * trends[name].p_value))
        found[name] = replace(trends[name], corrected=highest, tested=len(tested))
    return found


# Words ---------------------------------------------------------------------------------------------------------------


def verdict_of(one: Trend) -> str:
    """`rarer patients leak more`, `… less`, `no trend found`, or why nothing was tested."""
    if one.obstacle:
        return {
            "ceiling": "ceiling: cannot tell",
            "few": "too few held-out patients or members",
            "equal": "equal scores: cannot tell",
        }[one.obstacle]
    if one.corrected >= ALPHA:
        return "no trend found"
    return f"rarer patients leak {'more' if one.slope.value > 0 else 'less'}"


def headline(attack: str, one: Trend) -> str:
    """The answer in one sentence, with the direction in words and no claim beyond the test's result."""
    if one.obstacle == "few":
        return f"There are too few patients to tell whether rarer ones leak more under {in_words(attack)}."
    if one.obstacle == "equal":
        return f"All patients have the same score, so {in_words(attack)} cannot tell whether rarer ones leak more."
    if one.obstacle:
        return (
            f"Ceiling: {in_words(attack)} recognises nearly every member and cannot tell whether rarer patients leak "
            "more."
        )
    if one.corrected >= ALPHA:
        if one.tested > 1 and not one.slope.low <= 0 <= one.slope.high:
            return _unclear(attack, one)
        return f"Under {in_words(attack)}, the data do not show whether rarer patients leak more or less."
    return f"Rarer patients leak {'more' if one.slope.value > 0 else 'less'} under {in_words(attack)}."


def _unclear(attack: str, one: Trend) -> str:
    """The answer where the attack's interval lies beside 0, but the p-value corrected over all attacks is too large."""
    return (
        f"Rarer patients look {'easier' if one.slope.value > 0 else 'harder'} to recognise by {in_words(attack)}, but "
        f"not clearly: with {one.tested} attacks tested, chance alone shows as much in up to "
        f"{math.ceil(100 * one.corrected - 1e-9):.0f} of 100 such cohorts."
    )


def figures_sentence(one: Trend) -> str:
    """The figures behind `headline`."""
    if one.obstacle == "few":
        return (
            f"The test needs two buckets with {LEAST} members and {LEAST} held-out patients each; {one.members:,} and "
            f"{one.heldout:,} were evaluated."
        )
    if one.obstacle == "equal":
        return "With equal scores the AUC is 0.5 in every bucket."
    if one.obstacle:
        return f"AUC {one.auc:.3f} over all patients: above {CEILING} there is hardly any room to rise with rarity."
    alone = " for this attack alone" if one.tested > 1 else ""
    over = f"corrected for the {one.tested} attacks tested, " if one.tested > 1 else ""
    return (
        f"From the most common to the rarest profiles the AUC changes by {signed(one.slope.value)} (95{NBSP}% interval "
        f"{signed(one.slope.low)} to {signed(one.slope.high)}{alone}; {over}{p_value_text(one.corrected)}). A change "
        "above 0 means that rarer patients leak more."
    )


def adjusted_sentence(one: Trend) -> str:
    """The model's estimate at the same number of codes and length; empty if nothing was tested."""
    found = one.adjusted
    if one.obstacle or math.isnan(found.low):
        return ""
    way = "more" if found.value > 0 else "less"
    sure = "" if found.low > 0 or found.high < 0 else " The interval contains 0: there may be no difference."
    return (
        "At the same number of codes and the same length of notes, a profile rarer by one standard deviation "
        f"adds {abs(found.value):.2f} standard deviations {way} to a member's score than to a held-out patient's "
        f"(95{NBSP}% interval {signed(found.low)} to {signed(found.high)}; not corrected over attacks, so a hint at "
        f"most).{sure}"
    )


def slopes_sentence(one: Trend) -> str:
    """How scores vary with rarity on each side, trained on or not; empty if too few patients were evaluated.

    A trend of held-out patients is named if ρ is beyond ±z/√(n − 1), which 5 % of unrelated ranks are.
    """
    if math.isnan(one.members_rho) or math.isnan(one.heldout_rho):
        return ""
    tell = f"tend to score {'higher' if one.heldout_rho > 0 else 'lower'}"
    if abs(one.heldout_rho) * math.sqrt(one.heldout - 1) <= float(stats.norm.isf(0.025)):
        tell = "do not clearly score higher or lower than others"
    return (
        f"Held-out patients with rarer profiles {tell} (Spearman's ρ {signed(one.heldout_rho)}; "
        f"members: {signed(one.members_rho)}; above 0, rarer patients score higher). This shows how predictable such "
        "notes are, not leakage."
    )
