"""How much LiRA's findings depend on the number of shadow models, on which they are, and on the training's seed.

Nothing is trained: subsets of the stored shadow models attack the run again, and all of them attack runs that differ
from it in their seed alone. What is asked of each attack: AUC and the share of members caught at 1 % of the others
accused, by note and by patient, and the order in which it puts the patients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.membership.shadow_models import ACCUSED, ratios_where_possible
from core.attacks.membership.shadow_scores import ShadowScores
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.membership.strongest_attack import interval_of
from core.evaluation.membership.units import LEVELS, units
from core.evaluation.stats.roc import roc

SIZES = (2, 4, 6, 8, 10, 16, 24, 32, 48, 64, 96, 128)  # numbers of shadow models that are tried, beside all of them
SUBSETS = 50  # of one number of models, drawn at random; all of them if there are no more
HALVINGS = 50  # ways to divide the models into two halves
MIDDLE = (0.025, 0.5, 0.975)
COMPARED = {"note": "sample", "patient": "patient"}  # levels by name
_STREAM = 19

NUMBER_COLUMNS = {
    "level": "str",
    "models": "int32",
    "subsets": "int32",
    "judged": "float64",  # mean share of the notes that some of the models read and some did not
    **{f"{what}{end}": "float64" for what in ("auc", "caught") for end in ("", "_low", "_high")},
}
HALF_COLUMNS = {
    "group": "str",
    "models": "int32",  # in each half
    "halvings": "int32",
    **dict.fromkeys(("rho", "low", "high"), "float64"),
}
SEED_COLUMNS = {
    "run": "str",
    "seed": "int64",
    "level": "str",
    "units": "int32",
    **dict.fromkeys(("auc", "low", "high", "caught", "accused", "rho_member", "rho_heldout"), "float64"),
}


@dataclass(frozen=True)
class Stability:
    """What depends on the shadow models and on the seed.

    Attributes:
        models: number of shadow models.
        by_number: rows with NUMBER_COLUMNS: mean over subsets of so many models, and the middle 95 % of the subsets.
        by_halves: rows with HALF_COLUMNS: Spearman's ρ between the patients' scores by two disjoint halves of the
            models, among members and among held-out patients; median and middle 95 % of the halvings.
        by_seed: rows with SEED_COLUMNS: all models against each run; `low` and `high` are the 95 % interval of the AUC
            over patients, ρ compares the patients' scores with those of the first run, NaN for that run itself.
    """

    models: int
    by_number: pd.DataFrame
    by_halves: pd.DataFrame
    by_seed: pd.DataFrame


def stability(
    notes: pd.DataFrame,
    own: Mapping[str, tuple[int, np.ndarray]],
    shadows: ShadowScores,
    *,
    resamples: int,
    seed: int = 0,
) -> Stability:
    """All three tables.

    Args:
        notes: the judged notes in their order, columns note_id, admission_id, patient_id, split and tokens; members and
            held-out patients.
        own: for each run (the one that is asked about first) its training seed and the mean log-likelihood in nats per
            token of each note, (notes,).
        shadows: of the same notes.
        resamples: of the patients, for intervals.
        seed: of the subsets and resamples.
    """
    (_, first), *_ = own.values()
    return Stability(
        len(shadows),
        _by_number(notes, first, shadows, seed),
        _by_halves(notes, first, shadows, seed),
        _by_seed(notes, own, shadows, resamples, seed),
    )


@dataclass(frozen=True)
class _Grouped:
    """The notes by unit: `code` is the unit of each note, `member` says whether each unit is a member."""

    code: np.ndarray
    member: np.ndarray

    @classmethod
    def of(cls, notes: pd.DataFrame, level: str) -> _Grouped:
        code, _ = pd.factorize(notes[LEVELS[COMPARED[level]]], sort=True)
        member = np.zeros(code.max() + 1, dtype=bool)
        member[code] = (notes["split"] == "member").to_numpy()
        return cls(code, member)

    def means(self, scores: np.ndarray) -> np.ndarray:
        """The mean score of each unit's judged notes, (units,); NaN for a unit without any."""
        judged = np.isfinite(scores)
        code, count = self.code[judged], len(self.member)
        with np.errstate(invalid="ignore"):
            return np.bincount(code, scores[judged], minlength=count) / np.bincount(code, minlength=count)


# The number of models -------------------------------------------------------------------------------------------------


def _by_number(notes: pd.DataFrame, own: np.ndarray, shadows: ShadowScores, seed: int) -> pd.DataFrame:
    grouped, rows = {level: _Grouped.of(notes, level) for level in COMPARED}, []
    for number in (*(size for size in SIZES if size < len(shadows)), len(shadows)):
        tried: dict[str, list[tuple[float, float]]] = {level: [] for level in COMPARED}
        judged = []
        for chosen in _subsets(len(shadows), number, seed):
            scores = ratios_where_possible(own, shadows.among(chosen))
            judged.append(float(np.isfinite(scores).mean()))
            for level, of_level in grouped.items():
                if (found := _found(of_level.means(scores), of_level.member)) is not None:
                    tried[level].append(found)
        for level, values in tried.items():
            if values:
                ends = [end for measure in zip(*values, strict=True) for end in _middle(measure)]
                rows.append((level, number, len(values), float(np.mean(judged)), *ends))
    return pd.DataFrame(rows, columns=list(NUMBER_COLUMNS)).astype(NUMBER_COLUMNS)


def _subsets(models: int, number: int, seed: int) -> Iterator[list[int]]:
    """Different choices of `number` of the models: all of them, or `SUBSETS` at random."""
    if math.comb(models, number) <= SUBSETS:
        yield from map(list, combinations(range(models), number))
        return
    rng = np.random.default_rng([seed, _STREAM, number])
    seen: set[tuple[int, ...]] = set()
    while len(seen) < SUBSETS:
        chosen = tuple(sorted(rng.permutation(models)[:number].tolist()))
        if chosen not in seen:
            seen.add(chosen)
            yield list(chosen)


def _found(scores: np.ndarray, member: np.ndarray) -> tuple[float, float] | None:
    """(AUC, share of members caught at `ACCUSED` of the others) by units; None if a group has no judged unit."""
    judged = np.isfinite(scores)
    members, others = scores[judged & member], scores[judged & ~member]
    if not len(members) or not len(others):
        return None
    curve = roc(members, others)
    return curve.auc, curve.tpr_at(ACCUSED).tpr


def _middle(values: tuple[float, ...]) -> tuple[float, float, float]:
    """Mean, and the ends of the middle 95 %."""
    low, _, high = np.quantile(values, MIDDLE)
    return float(np.mean(values)), float(low), float(high)


# Which models they are ------------------------------------------------------------------------------------------------


def _by_halves(notes: pd.DataFrame, own: np.ndarray, shadows: ShadowScores, seed: int) -> pd.DataFrame:
    half, patients = len(shadows) // 2, _Grouped.of(notes, "patient")
    found: dict[str, list[float]] = {group: [] for group in JUDGED_SPLITS}
    rng = np.random.default_rng([seed, _STREAM])
    for _ in range(HALVINGS if half >= SIZES[0] else 0):
        order = rng.permutation(len(shadows))
        one, other = (
            patients.means(ratios_where_possible(own, shadows.among(chosen)))
            for chosen in (order[:half], order[half : 2 * half])
        )
        for group, rho in _rank_correlations(one, other, patients.member).items():
            if math.isfinite(rho):
                found[group].append(rho)
    rows = []
    for group, values in found.items():
        if values:
            low, rho, high = np.quantile(values, MIDDLE)
            rows.append((group, half, len(values), rho, low, high))
    return pd.DataFrame(rows, columns=list(HALF_COLUMNS)).astype(HALF_COLUMNS)


def _rank_correlations(one: np.ndarray, other: np.ndarray, member: np.ndarray) -> dict[str, float]:
    """Spearman's ρ of two attacks' scores of the same patients, for each of `JUDGED_SPLITS`; NaN with fewer than three.

    Members and others apart: together, an attack that tells them apart would be called stable for that alone.
    """
    both, found = np.isfinite(one) & np.isfinite(other), {}
    for group, chosen in zip(JUDGED_SPLITS, (both & member, both & ~member), strict=True):
        pair = one[chosen], other[chosen]
        constant = chosen.sum() < 3 or any(len(np.unique(values)) < 2 for values in pair)
        found[group] = math.nan if constant else float(stats.spearmanr(*pair).statistic)
    return found


# The seed of the training ---------------------------------------------------------------------------------------------


def _by_seed(
    notes: pd.DataFrame, own: Mapping[str, tuple[int, np.ndarray]], shadows: ShadowScores, resamples: int, seed: int
) -> pd.DataFrame:
    patients, rows = _Grouped.of(notes, "patient"), []
    first: np.ndarray | None = None
    for run, (training_seed, likelihoods) in own.items():
        scores = ratios_where_possible(likelihoods, shadows)
        known, by_patient = np.isfinite(scores), patients.means(scores)
        rho = dict.fromkeys(JUDGED_SPLITS, math.nan)
        if first is not None:
            rho = _rank_correlations(first, by_patient, patients.member)
        else:
            first = by_patient
        for level, name in COMPARED.items():
            try:
                judged = units(notes[known].assign(score=scores[known]), name)
            except ValueError:  # members or others without a note
                continue
            auc = interval_of(judged, "auc", resamples=resamples, seed=seed)
            point = roc(judged.score[judged.member], judged.score[~judged.member]).tpr_at(ACCUSED)
            ends = (auc.value, auc.low, auc.high, point.tpr, point.fpr, *rho.values())
            rows.append((run, training_seed, level, len(judged.score), *ends))
    return pd.DataFrame(rows, columns=list(SEED_COLUMNS)).astype(SEED_COLUMNS)


def stability_sentences(found: Stability) -> list[str]:
    """What a reader should take from the tables, a sentence each."""
    said = []
    for level, rows in found.by_number.groupby("level", sort=False):
        few, every = (rows[rows["models"] == number] for number in (SIZES[0], found.models))
        if len(few) and len(every):
            one, last = few.iloc[0], every.iloc[0]
            said.append(
                f"By {level}: AUC {one['auc']:.3f} with {SIZES[0]} shadow models (95\u00a0% of the subsets: "
                f"{one['auc_low']:.3f} to {one['auc_high']:.3f}), {last['auc']:.3f} with all {found.models}."
            )
    halves = found.by_halves.set_index("group")["rho"].to_dict()
    if len(halves) == len(JUDGED_SPLITS):
        number = int(found.by_halves["models"].iloc[0])
        said.append(
            f"Two attacks, each with its own {number} shadow models, rank the patients with a correlation of "
            f"ρ = {halves['member']:.2f} among members and {halves['heldout']:.2f} among others (1: in the same order)."
        )
    by_patient = found.by_seed[found.by_seed["level"] == "patient"]
    if len(by_patient) > 1:
        values = ", ".join(f"{row['auc']:.3f} (seed {row['seed']})" for row in by_patient.to_dict("records"))
        said.append(f"Runs that differ in their seed alone: AUC by patient {values}.")
    return said
