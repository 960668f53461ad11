"""Whether rarer patients leak more, under several attacks, and why the sign changes with the attack."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.evaluation_set import reference_patients
from core.attacks.membership.decision import LOSS
from core.evaluation.rarity.profiles import bucket_edges
from core.evaluation.rarity.trend import trend
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap
from core.findings.from_weights.population_sizes import NAME as POPULATION_SIZES
from core.findings.stored_runs import Missing, StoredRuns
from core.pipeline.full_audit import target_of
from core.runs.patients.queries import PatientTables, judges
from core.spec import RunSpec


def _judged(runs: StoredRuns, spec: RunSpec, attacks: Sequence[str]) -> Mapping[str, pd.DataFrame]:
    """The patients that each attack scored, with rarity, codes and length (`PatientTables.judged`)."""
    run = runs.run(spec)
    folder = runs.workspace.corpus_folder(spec.corpus)
    if folder is None:
        raise Missing("the cohort is not stored")
    tables = PatientTables(folder / "patients.parquet", folder / "notes.parquet")
    tables.profile("patient")
    known = judges(run, runs.workspace.audit(run.id), None)
    return {attack: tables.judged(known[attack], "patient") for attack in attacks}


def slopes(runs: StoredRuns, spec: RunSpec, attacks: Sequence[str]) -> dict[str, Interval]:
    """Change of the AUC by patient from common to rare profiles under each attack; no interval where it is untestable.

    `core.evaluation.rarity.trend` has the test. It is not made where the attack recognises nearly everybody.
    """
    found = {}
    for attack, units in _judged(runs, spec, attacks).items():
        columns = (units[name].to_numpy() for name in ("log_probability", "member", "patient"))
        found[attack] = trend(units, bucket_edges(*columns)).slope
    return found


def turn(runs: StoredRuns, spec: RunSpec, one: str, other: str, about: Sequence[str] = ()) -> Interval:
    """Spearman's ρ of rarity and score under attack `one` − under `other`, over held-out patients.

    The model read none of their notes, so whatever ρ shows is no leakage. With `about` both are partial correlations:
    at the same number of `codes`, the same mean length of notes (`tokens`), or the same number of codes that no patient
    of the population's reference model has (`unknown`). Patients are resampled for both attacks together.
    """
    judged = _judged(runs, spec, (one, other)).values()
    sides = [units[~units["member"].astype(bool)].reset_index(drop=True) for units in judged]
    if not np.array_equal(sides[0]["log_probability"], sides[1]["log_probability"]):
        raise ValueError("the two attacks are about different patients")
    units = sides[0].assign(unknown=_unknown(runs, spec, one, len(sides[0]))) if "unknown" in about else sides[0]
    return rank_correlations_apart(units, sides[1]["score"].to_numpy(dtype=float), about)


def turn_by_reference(runs: StoredRuns, spec: RunSpec, few: int, many: int) -> Interval:
    """ρ of rarity and score under the ratio to a reference of `many` patients − to one of `few` patients.

    It is taken over held-out patients. The ratio is the loss's score less the reference's
    (`core.findings.from_weights.population_sizes`). Patients are resampled for both together.
    """
    units = _judged(runs, spec, (LOSS,))[LOSS]
    units = units[~units["member"].astype(bool)].reset_index(drop=True)
    rows = runs.measured(spec, POPULATION_SIZES)
    references = rows.pivot(index="patient_id", columns="patients", values="score").astype(float)
    named = references.loc[_heldout(runs, spec, LOSS, len(units))]
    loss = units["score"].to_numpy(dtype=float)
    ratios = {size: loss - named[size].to_numpy() for size in (few, many)}
    return rank_correlations_apart(units.assign(score=ratios[many]), ratios[few], ())


def _unknown(runs: StoredRuns, spec: RunSpec, attack: str, count: int) -> np.ndarray:
    """How many codes of each judged held-out patient no reference patient has, in the order of `PatientTables.judged`.

    Raises:
        Missing: Some held-out patients have no profile, so the order does not say who is who.
    """
    target = target_of(runs.run(spec), runs.workspace)
    patients = target.corpus.patients.set_index("patient_id")["icd_codes"]
    heldout = _heldout(runs, spec, attack, count)
    return unknown_codes(patients.loc[heldout], set().union(*patients.loc[sorted(reference_patients(target))]))


def _heldout(runs: StoredRuns, spec: RunSpec, attack: str, count: int) -> list[str]:
    """The held-out patients that an attack judges, in the order of `PatientTables.judged`; they have to be `count`."""
    scores = runs.scores(spec, attack)
    heldout = sorted(scores.loc[scores["split"] == "heldout", "patient_id"].unique())
    if len(heldout) != count:
        raise Missing(f"only {count} of {len(heldout)} held-out patients have a profile")
    return heldout


def unknown_codes(codes: Iterable[Iterable[str]], known: Collection[str]) -> np.ndarray:
    """Number of different codes of each patient that are not among the `known` ones, (patients,)."""
    return np.array([len(set(held) - set(known)) for held in codes], dtype=float)


def rank_correlations_apart(units: pd.DataFrame, other: np.ndarray, about: Sequence[str]) -> Interval:
    """ρ of rarity and `score` of the units − ρ of rarity and `other`, with the columns `about` held constant.

    The partial rank correlation is Pearson's correlation of what is left of the ranks after least squares on the ranks
    of `about`.
    """
    columns = [-units["log_probability"], units["score"], pd.Series(other), *(units[name] for name in about)]
    values = np.column_stack([column.to_numpy(dtype=float) for column in columns])

    def statistic(weights: np.ndarray) -> np.ndarray:
        rows = (np.repeat(values, row.astype(int), axis=0) for row in weights)
        return np.array([_apart(one) for one in rows])

    return patient_bootstrap(statistic, np.arange(len(values)))


def _apart(values: np.ndarray) -> float:
    """The difference for one sample: columns rarity, score, other score, and what is held constant."""
    ranks = stats.rankdata(values, axis=0)
    design = np.column_stack([np.ones(len(ranks)), ranks[:, 3:]])
    left = ranks[:, :3] - design @ np.linalg.lstsq(design, ranks[:, :3], rcond=None)[0]
    found = np.corrcoef(left, rowvar=False)
    return float(found[0, 1] - found[0, 2])
