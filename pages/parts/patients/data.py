"""What the Patients page asks, kept while nothing changes: aggregates and single patients, never whole tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from core.attacks.membership.decision import RATIO
from core.corpus.icd_codes import words_of
from core.corpus.synthetic.conditions import catalogue
from core.evaluation.rarity.leakage import leakage
from core.evaluation.rarity.profiles import bucket_edges
from core.evaluation.rarity.trend import Trend, corrected_over, trend
from core.runs.patients.disease_profiles import Level
from core.runs.patients.queries import Filters, PatientTables, Scored, judges
from core.runs.run import Run
from pages.parts.session import owner, resources

A_PAGE = 15  # patients listed at once


@dataclass(frozen=True)
class Choice:
    """What is looked at: a run, the attack that judges, what it judges, who is let through."""

    run: Run
    attack: str
    level: Level
    filters: Filters


def tables(run: Run) -> PatientTables:
    """The patients of a run's cohort. The cohort is made (and stored) if it is not on disk."""
    space = owner.workspace()
    folder = space.corpus_folder(run.spec.corpus)
    if folder is None:
        space.corpus(run.spec.corpus)
        folder = space.corpus_folder(run.spec.corpus)
    return _tables(str(folder))


@resources.cached_object(max_entries=4, show_spinner=False)
def _tables(folder: str) -> PatientTables:
    return PatientTables(Path(folder) / "patients.parquet", Path(folder) / "notes.parquet")


def wordings(run: Run) -> dict[str, str]:
    """What the codes of the run's cohort are called: code → words."""
    return _wordings(None if run.spec.corpus.imported is None else str(tables(run).patients), tables(run))


def has_codes(run: Run) -> bool:
    """Does anybody of the run's cohort have an ICD code? Notes that were brought may come without any."""
    return run.spec.corpus.imported is None or _has_codes(str(tables(run).patients), tables(run))


@resources.cached_data(max_entries=16, show_spinner=False)
def _has_codes(folder: str, _tables: PatientTables) -> bool:
    return bool(_tables.codes())


@resources.cached_object(max_entries=4, show_spinner=False)
def _wordings(brought: str | None, _tables: PatientTables) -> dict[str, str]:
    if brought is None:
        return {condition.code: condition.wording for condition in catalogue().conditions}
    return words_of(_tables.codes(), _tables.described())


def attacks(run: Run) -> dict[str, Scored]:
    """Every attack that judged patients of a run, by name: the ratio to the public model first, then the loss."""
    space = owner.workspace()
    return judges(run, space.audit(run.id), public_model(run))


def public_model(run: Run) -> Run | None:
    """The run of the public model on the same notes; None for itself, and where it is not there."""
    return None if run.spec.is_base else owner.workspace().find(run.spec.base_spec())


def hits(run: Run) -> Path:
    """Where the run's finds stand."""
    return run.folder / "tables" / "hits.parquet"


def _profiled(run: Run, level: Level) -> PatientTables:
    """The patients of a run's cohort with their profiles on this level made."""
    there = tables(run)
    return _with_profiles(str(there.patients), level, there, wordings(run))


@resources.cached_object(max_entries=8, show_spinner="Reading disease profiles")
def _with_profiles(patients: str, level: Level, _tables: PatientTables, _wordings: dict[str, str]) -> PatientTables:
    _tables.profile("patient")
    _tables.profile(level, _wordings)
    return _tables


def bucket_table(choice: Choice) -> pd.DataFrame:
    """The leakage of each bucket (core.evaluation.rarity.leakage.COLUMNS)."""
    return _leakage(*_key(choice), choice)[1]


def trends(choice: Choice) -> dict[str, Trend]:
    """Whether rarer patients leak more, by attack of the run: tested at the patient, corrected over these attacks."""
    by_patient = replace(choice, level="patient")
    made = {name: replace(by_patient, attack=name) for name in attacks(choice.run)}
    found = {name: _leakage(*_key(one), one)[2] for name, one in made.items()}
    return corrected_over({name: one for name, one in found.items() if one is not None})


def _key(choice: Choice) -> tuple[str, tuple, Level, str, Filters]:
    """What an answer depends on; every audited attack's file counts, since all of them judge each patient."""
    files = sorted({file for one in attacks(choice.run).values() for file in one.files})
    stamp = tuple((file, Path(file).stat().st_mtime_ns) for file in files)
    return choice.run.id, stamp, choice.level, choice.attack, choice.filters


@resources.cached_data(max_entries=256, show_spinner="Counting")
def _leakage(
    run_id: str, stamp: tuple, level: Level, attack: str, filters: Filters, _choice: Choice
) -> tuple[np.ndarray, pd.DataFrame, Trend | None]:
    """Edges of the buckets, the figures of each, and on the level of patients the trend over them."""
    found = _profiled(_choice.run, level).judged(attacks(_choice.run)[attack], level, filters, hits(_choice.run))
    edges = bucket_edges(found["log_probability"].to_numpy(), found["member"].to_numpy(), found["patient"].to_numpy())
    return edges, leakage(found, edges), trend(found, edges) if level == "patient" else None


def patients(choice: Choice, bucket: int | None, *, page: int) -> pd.DataFrame:
    """One page of the patients of a bucket (None: of all)."""
    return _patients(*_key(choice), bucket, page, choice)


@resources.cached_data(max_entries=64, show_spinner="Looking up patients")
def _patients(
    run_id: str,
    stamp: tuple,
    level: Level,
    attack: str,
    filters: Filters,
    bucket: int | None,
    page: int,
    _choice: Choice,
) -> pd.DataFrame:
    return _listing(_choice, bucket)(limit=A_PAGE, offset=(page - 1) * A_PAGE)


def every_patient(choice: Choice, bucket: int | None) -> Callable[[], pd.DataFrame]:
    """A function that looks up all patients of a bucket (None: of all), for a download.

    Downloads are made outside of the session, where nobody's own notes can be seen: what belongs to the session is
    looked up here, not in the function.
    """
    return _listing(choice, bucket)


def _listing(choice: Choice, bucket: int | None) -> Callable[..., pd.DataFrame]:
    made, within = attacks(choice.run), None
    if bucket is not None:
        ends = [-math.inf, *_leakage(*_key(choice), choice)[0], math.inf]
        within = (ends[bucket], ends[bucket + 1])
    return partial(
        _profiled(choice.run, choice.level).in_bucket,
        made[choice.attack],
        choice.level,
        within,
        choice.filters,
        attacks=list(made.values()),
        hits=hits(choice.run),
    )


def patient(run: Run, attack: str, patient_id: str, *, all_attacks: bool = True) -> dict | None:
    """One patient as an attack on a run sees them (a row of `PatientTables.in_bucket`); None if it judged them not.

    Without `all_attacks` only that attack counts among those that catch the patient.
    """
    made = attacks(run)
    if attack not in made:
        return None
    found = _profiled(run, "patient").in_bucket(
        made[attack],
        "patient",
        None,
        attacks=list(made.values()) if all_attacks else (),
        hits=hits(run),
        patient_id=patient_id,
    )
    return None if found.empty else found.iloc[0].to_dict()


def epsilon(run: Run) -> float:
    """Target ε of a run, with words of its own the total; ∞ without privacy, 0 for the public model, NaN given σ."""
    if run.spec.is_base:
        return 0.0
    if not run.spec.privacy.private:
        return math.inf
    if run.spec.vocabulary is not None:
        assert run.privacy is not None  # a private run
        return run.privacy.epsilon()
    return math.nan if run.spec.privacy.target_epsilon is None else run.spec.privacy.target_epsilon


def other_epsilons(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Runs that read the same notes with the same model at every ε there is, one each, of this run's seed if it can be.

    By rising ε. A defence of the training notes, or words of its own, would change more than ε: only runs with this
    run's stand beside it, and the public model, which reads no notes. What its own words may cost is part of ε.
    """
    alike = [
        one
        for one in runs
        if one.spec.corpus == run.spec.corpus
        and one.spec.model == run.spec.model
        and (one.spec.is_base or (one.spec.defence == run.spec.defence and _own_pieces(one) == _own_pieces(run)))
    ]
    return _one_each(run, alike, lambda one: epsilon(one))


def _own_pieces(run: Run) -> int:
    """How many entries of its own a run's word list may have; 0 for the public list alone."""
    return 0 if run.spec.vocabulary is None else run.spec.vocabulary.pieces


def comparable(attack: str, runs: Sequence[Run]) -> list[Run]:
    """The runs of which an attack says something: the ratio to the public model says nothing of that model itself."""
    return [run for run in runs if attack != RATIO or not run.spec.is_base]


def other_models(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Runs that read the same notes with the same privacy, one a kind of model, of this run's seed if it can be."""

    def given(one: Run) -> tuple:
        spec = one.spec
        return spec.corpus, spec.is_base, spec.privacy, spec.model.size, spec.defence, spec.vocabulary

    return _one_each(run, [one for one in runs if given(one) == given(run)], lambda one: one.spec.model.kind)


def _one_each(run: Run, runs: Sequence[Run], key: Callable[[Run], str | float]) -> list[Run]:
    def away(one: Run) -> tuple:
        private = one.spec.privacy.model_copy(update={"target_epsilon": None})
        own = run.spec.privacy.model_copy(update={"target_epsilon": None})
        seed, mine = one.spec.training.seed, run.spec.training.seed
        unlike = (private != own, one.spec.vocabulary != run.spec.vocabulary, seed != mine)
        return (one.id != run.id, *unlike, seed, -(one.status.finished or 0.0))

    found: dict = {}
    for one in sorted(runs, key=away):
        name = key(one)
        if not isinstance(name, float) or not math.isnan(name):
            found.setdefault(name, one)
    return [found[name] for name in sorted(found)]
