"""What the Patients page asks, kept while nothing changes: aggregates and single patients, never whole tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import streamlit as st

from core.attacks.decision import LOSS, OWN_THRESHOLDS
from core.corpus.code_words import words_of
from core.corpus.conditions import catalogue
from core.evaluation.patient_leakage import Measure, leakage
from core.evaluation.rarity import number_of_buckets
from core.runs.disease_profiles import Level
from core.runs.patient_queries import Filters, PatientTables, Scored
from core.runs.run import Run
from pages.parts import shell

A_PAGE = 15  # patients listed at once


@dataclass(frozen=True)
class Choice:
    """What is looked at: a run, the attack that judges, what it judges, the figure, who is let through."""

    run: Run
    attack: str
    level: Level
    measure: Measure
    filters: Filters


def tables(run: Run) -> PatientTables:
    """The patients of a run's cohort. The cohort is made (and stored) if it is not on disk."""
    space = shell.workspace()
    folder = space.corpus_folder(run.spec.corpus)
    if folder is None:
        space.corpus(run.spec.corpus)
        folder = space.corpus_folder(run.spec.corpus)
    return _tables(str(folder))


@st.cache_resource(max_entries=4, show_spinner=False)
def _tables(folder: str) -> PatientTables:
    return PatientTables(Path(folder) / "patients.parquet", Path(folder) / "notes.parquet")


def wordings(run: Run) -> dict[str, str]:
    """What the codes of the run's cohort are called: code → words."""
    return _wordings(None if run.spec.corpus.imported is None else str(tables(run).patients), tables(run))


def has_codes(run: Run) -> bool:
    """Does anybody of the run's cohort have an ICD code? Notes that were brought may come without any."""
    return run.spec.corpus.imported is None or _has_codes(str(tables(run).patients), tables(run))


@st.cache_data(max_entries=16, show_spinner=False)
def _has_codes(folder: str, _tables: PatientTables) -> bool:
    return bool(_tables.codes())


@st.cache_resource(max_entries=4, show_spinner=False)
def _wordings(brought: str | None, _tables: PatientTables) -> dict[str, str]:
    if brought is None:
        return {condition.code: condition.wording for condition in catalogue().conditions}
    return words_of(_tables.codes(), _tables.described())


def attacks(run: Run) -> dict[str, Scored]:
    """Every attack that judged patients of a run, from its full audit where there is one, by name; the loss first."""
    found = {LOSS: Scored(LOSS, hits(run).with_name("scores.parquet"))}
    for name, path in shell.workspace().audit(run.id).files("scores").items():
        found[name] = Scored(name, path, OWN_THRESHOLDS.get(name))
    return found


def hits(run: Run) -> Path:
    """Where the run's finds stand."""
    return run.folder / "tables" / "hits.parquet"


def buckets_of(run: Run, level: Level) -> int:
    """How many buckets the run's cohort allows on this level; 0 when nobody of it has a profile."""
    return _profiled(run, level)[1]


def _profiled(run: Run, level: Level) -> tuple[PatientTables, int]:
    """The patients of a run's cohort with their profiles on this level made, and how many buckets these allow."""
    there = tables(run)
    return _with_profiles(str(there.patients), level, there, wordings(run))


# One entry holds the patients and their count: profiles live inside the former, so the two must not be forgotten apart.
@st.cache_resource(max_entries=8, show_spinner="Reading disease profiles")
def _with_profiles(
    patients: str, level: Level, _tables: PatientTables, _wordings: dict[str, str]
) -> tuple[PatientTables, int]:
    _tables.profile("patient")
    found = _tables.profile(level, _wordings)
    return _tables, number_of_buckets(found["place"], found["patient"]) if len(found["place"]) else 0


def bucket_table(choice: Choice) -> pd.DataFrame:
    """The leakage of each bucket (core.evaluation.patient_leakage.COLUMNS)."""
    return _bucket_table(*_key(choice), choice.measure, choice)


def _key(choice: Choice) -> tuple:
    """What an answer depends on; every audited attack's file counts, since all of them judge each patient."""
    files = sorted(str(one.file) for one in attacks(choice.run).values())
    stamp = tuple((file, Path(file).stat().st_mtime_ns) for file in files)
    return choice.run.id, stamp, choice.level, choice.attack, choice.filters


@st.cache_data(max_entries=256, show_spinner="Counting")
def _bucket_table(
    run_id: str, stamp: tuple, level: Level, attack: str, filters: Filters, measure: Measure, _choice: Choice
) -> pd.DataFrame:
    there, count = _profiled(_choice.run, level)
    sums = there.buckets(attacks(_choice.run)[attack], level, count, filters, hits(_choice.run))
    return leakage(sums, measure)


def patients(choice: Choice, bucket: int | None, *, page: int | None = None) -> pd.DataFrame:
    """The patients of a bucket (None: all), one page of them or (page None) every one."""
    return _patients(*_key(choice), bucket, page, choice) if page is not None else _listed(choice, bucket, None)


@st.cache_data(max_entries=64, show_spinner="Looking up patients")
def _patients(
    run_id: str, stamp: tuple, level: Level, attack: str, filters: Filters, bucket: int, page: int, _choice: Choice
) -> pd.DataFrame:
    return _listed(_choice, bucket, page)


def _listed(choice: Choice, bucket: int | None, page: int | None) -> pd.DataFrame:
    there, count = _profiled(choice.run, choice.level)
    made = attacks(choice.run)
    return there.in_bucket(
        made[choice.attack], choice.level, count, bucket, choice.filters,
        attacks=list(made.values()), hits=hits(choice.run),
        limit=None if page is None else A_PAGE, offset=0 if page is None else (page - 1) * A_PAGE,
    )  # fmt: skip


def patient(run: Run, attack: str, patient_id: str, *, all_attacks: bool = True) -> dict | None:
    """One patient as an attack on a run sees them (a row of `PatientTables.in_bucket`); None if it judged them not.

    Without `all_attacks` only that attack counts among those that catch the patient.
    """
    made = attacks(run)
    if attack not in made:
        return None
    there, _ = _profiled(run, "patient")
    found = there.in_bucket(
        made[attack], "patient", 1, None, attacks=list(made.values()) if all_attacks else (), hits=hits(run),
        patient_id=patient_id,
    )  # fmt: skip
    return None if found.empty else found.iloc[0].to_dict()


def epsilon(run: Run) -> float:
    """Target ε of a run, with words of its own the total; ∞ without privacy, 0 for the public model, NaN given σ."""
    if run.spec.is_base:
        return 0.0
    if not run.spec.privacy.private:
        return math.inf
    if run.spec.vocabulary is not None:
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


def other_models(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Runs that read the same notes with the same privacy, one a kind of model, of this run's seed if it can be."""

    def given(one: Run) -> tuple:
        spec = one.spec
        return spec.corpus, spec.is_base, spec.privacy, spec.model.size, spec.defence, spec.vocabulary

    return _one_each(run, [one for one in runs if given(one) == given(run)], lambda one: one.spec.model.kind)


def _one_each(run: Run, runs: Sequence[Run], key) -> list[Run]:
    def away(one: Run) -> tuple:
        private = one.spec.privacy.model_copy(update={"target_epsilon": None})
        own = run.spec.privacy.model_copy(update={"target_epsilon": None})
        seed, mine = one.spec.training.seed, run.spec.training.seed
        unlike = (private != own, one.spec.vocabulary != run.spec.vocabulary, seed != mine)
        return (one.id != run.id, *unlike, seed, -(one.status.finished or 0.0))

    found: dict = {}
    for one in sorted(runs, key=away):
        if not isinstance(key(one), float) or not math.isnan(key(one)):
            found.setdefault(key(one), one)
    return [found[name] for name in sorted(found)]
