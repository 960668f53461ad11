"""The Patients page's queries, cached while nothing changes: aggregates and single patients, never whole tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
from pages.parts.membership import data as membership_data
from pages.parts.session import owner, resources

PAGE_SIZE = 15  # patients listed at once


@dataclass(frozen=True)
class Choice:
    """The user's choice: a run, an attack, the unit that it scores, and the filters."""

    run: Run
    attack: str
    level: Level
    filters: Filters


def tables(run: Run) -> PatientTables:
    """The patients of a run's cohort. The cohort is built and stored if it is not on disk."""
    space = owner.workspace()
    folder = space.corpus_folder(run.spec.corpus)
    if folder is None:
        space.corpus(run.spec.corpus)
        folder = space.corpus_folder(run.spec.corpus)
    return _tables(str(folder))


@resources.cached_object(max_entries=4, show_spinner=False)
def _tables(folder: str) -> PatientTables:
    return PatientTables(Path(folder) / "patients.parquet", Path(folder) / "notes.parquet")


def shadow_patients(run: Run) -> pd.DataFrame:
    """How often LiRA catches each patient over the run's shadow models: read, caught, unread, accused by patient id.

    Empty without stored shadow models.
    """
    found = membership_data.shadow_patients(run)
    return found if found.empty else found.set_index("patient_id")


def wordings(run: Run) -> dict[str, str]:
    """The descriptions of the codes of the run's cohort: code → words."""
    return _wordings(None if run.spec.corpus.imported is None else str(tables(run).patients), tables(run))


def has_codes(run: Run) -> bool:
    """Whether any patient of the run's cohort has an ICD code. Uploaded notes may come without codes."""
    return run.spec.corpus.imported is None or _has_codes(str(tables(run).patients), tables(run))


def without_codes(run: Run) -> tuple[int, int]:
    """Patients of the run's cohort without any ICD code, and all. Only uploaded notes may come with some codes."""
    return (0, 0) if run.spec.corpus.imported is None else _without_codes(str(tables(run).patients), tables(run))


def identified(run: Run, patient_id: str) -> bool:
    """Whether a direct identifier of this patient is known. Uploaded notes may come without identifiers."""
    splits = resources.known_splits(run.spec.corpus, owner.workspace())
    return patient_id in splits.index and pd.notna(splits[patient_id])


@resources.cached_data(max_entries=16, show_spinner=False)
def _has_codes(folder: str, _tables: PatientTables) -> bool:
    return bool(_tables.codes())


@resources.cached_data(max_entries=16, show_spinner=False)
def _without_codes(folder: str, _tables: PatientTables) -> tuple[int, int]:
    return _tables.without_codes()


@resources.cached_object(max_entries=4, show_spinner=False)
def _wordings(imported: str | None, _tables: PatientTables) -> dict[str, str]:
    if imported is None:
        return catalogue().wordings
    return words_of(_tables.codes(), _tables.described())


def attacks(run: Run) -> dict[str, Scored]:
    """Every attack that scored patients of a run, by name: the ratio to the public model first, then the loss."""
    space = owner.workspace()
    return judges(run, space.audit(run.id), public_model(run))


def public_model(run: Run) -> Run | None:
    """The public model's run on the same notes; None if there is none, or if this is it."""
    return None if run.spec.is_base else owner.workspace().find(run.spec.base_spec())


def hits(run: Run) -> Path:
    """The file with the run's hits."""
    return run.folder / "tables" / "hits.parquet"


def tries_file(run: Run) -> Path | None:
    """The table `discoverable` of the run's full audit; None if it was not made."""
    return next(iter(owner.workspace().audit(run.id).files("discoverable").values()), None)


def _profiled(run: Run, level: Level) -> PatientTables:
    """The patients of a run's cohort, with their disease profiles on this level computed."""
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
    """Whether rarer patients leak more, by attack: tested per patient, corrected over all attacks on the run."""
    by_patient, there = replace(choice, level="patient"), attacks(choice.run)
    made = {name: replace(by_patient, attack=name) for name in there}
    found = {name: _leakage(*_key(one, there), one)[2] for name, one in made.items()}
    return corrected_over({name: one for name, one in found.items() if one is not None})


def _key(choice: Choice, there: Mapping[str, Scored] | None = None) -> tuple[str, tuple, Level, str, Filters]:
    """The cache's key. It includes every audited attack's file, since all of them score each patient.

    `there` is what `attacks` found for the run, for callers that have it: it looks at every file of the audit.
    """
    files = sorted({file for one in (there or attacks(choice.run)).values() for file in one.files})
    stamp = tuple((file, Path(file).stat().st_mtime_ns) for file in files)
    return choice.run.id, stamp, choice.level, choice.attack, choice.filters


@resources.cached_data(max_entries=256, show_spinner="Counting")
def _leakage(
    run_id: str, stamp: tuple, level: Level, attack: str, filters: Filters, _choice: Choice
) -> tuple[np.ndarray, pd.DataFrame, Trend | None]:
    """The bucket edges, the figures of each bucket, and, if the unit is the patient, the trend over buckets."""
    found = _profiled(_choice.run, level).judged(attacks(_choice.run)[attack], level, filters, hits(_choice.run))
    edges = bucket_edges(found["log_probability"].to_numpy(), found["member"].to_numpy(), found["patient"].to_numpy())
    return edges, leakage(found, edges), trend(found, edges) if level == "patient" else None


def patients(
    choice: Choice, bucket: int | None, *, page: int, tries: Path | None = None, by_tries: bool = False
) -> pd.DataFrame:
    """One page of the patients of a bucket (None: of all), by the attack's score or by the tries to extract a value.

    `tries` is the run's `tries_file`, from which the columns about tries are made.
    """
    stamp = None if tries is None else (str(tries), tries.stat().st_mtime_ns)
    return _patients(*_key(choice), bucket, page, by_tries, stamp, choice)


@resources.cached_data(max_entries=64, show_spinner="Looking up patients")
def _patients(
    run_id: str,
    stamp: tuple,
    level: Level,
    attack: str,
    filters: Filters,
    bucket: int | None,
    page: int,
    by_tries: bool,
    tries: tuple[str, int] | None,
    _choice: Choice,
) -> pd.DataFrame:
    file = None if tries is None else Path(tries[0])
    return every_patient(_choice, bucket, file, by_tries)(limit=PAGE_SIZE, offset=(page - 1) * PAGE_SIZE)


def easiest_first(choice: Choice, bucket: int | None, tries: Path) -> pd.DataFrame:
    """All patients of a bucket (None: of all buckets), those whose values take fewest tries first."""
    return _easiest_first(*_key(choice), bucket, (str(tries), tries.stat().st_mtime_ns), choice)


@resources.cached_data(max_entries=16, show_spinner=False)
def _easiest_first(
    run_id: str,
    stamp: tuple,
    level: Level,
    attack: str,
    filters: Filters,
    bucket: int | None,
    tries: tuple[str, int],
    _choice: Choice,
) -> pd.DataFrame:
    found = every_patient(_choice, bucket, Path(tries[0]), True)(attacks=())
    return found[["patient_id", "split", "notes", "easiest", "one_in"]]


def every_patient(
    choice: Choice, bucket: int | None, tries: Path | None = None, by_tries: bool = False
) -> Callable[..., pd.DataFrame]:
    """A function that looks up all patients of a bucket (None: of all buckets), for a download.

    Downloads are made outside of the session, where uploaded notes cannot be accessed. So everything that belongs to
    the session is looked up here, not in the function.
    """
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
        tries=tries,
        by_tries=by_tries,
        shared=resources.shared_values(choice.run.spec.corpus, owner.workspace()),
    )


def patient(run: Run, attack: str, patient_id: str, *, all_attacks: bool = True) -> dict | None:
    """One patient as scored by an attack on a run.

    Args:
        run: The run.
        attack: The attack's name.
        patient_id: The patient's ID.
        all_attacks: Whether to count all attacks that catch the patient; otherwise only this one.

    Returns:
        The row of `PatientTables.in_bucket`; None if the attack has no score for the patient.
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
    """ε of a run that was asked for one, as it guarantees it (`Run.epsilon`), vocabulary included.

    ∞ without privacy, 0 for the public model, NaN if σ was given instead of ε, and for the same training without noise.
    """
    if run.spec.is_base:
        return 0.0
    if run.spec.training.clip_norm is not None:
        return math.nan  # a control, which must not stand for ordinary training
    if not run.spec.privacy.private:
        return math.inf
    if run.spec.privacy.target_epsilon is None and run.spec.vocabulary is None:
        return math.nan
    assert run.epsilon is not None  # a private run
    return run.epsilon


def other_epsilons(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Runs of the same model on the same notes, one per ε, in order of ε, with this run's seed if possible.

    A defence of the training notes or a vocabulary from the notes would change more than ε. So only runs with the same
    ones are compared, and the public model, which is trained on no notes. The cost of the vocabulary is part of ε.
    """
    alike = [
        one
        for one in runs
        if one.spec.corpus == run.spec.corpus
        and one.spec.model == run.spec.model
        and (one.spec.is_base or (_notes_read(one) == _notes_read(run) and _own_pieces(one) == _own_pieces(run)))
    ]
    return _one_each(run, alike, lambda one: epsilon(one))


def _notes_read(run: Run) -> tuple:
    """What a run's training notes are, besides its cohort: the same for runs that may be compared."""
    return run.spec.defence, run.spec.without


def _own_pieces(run: Run) -> int:
    """The maximum number of vocabulary entries from the notes; 0 if a run has only the public list."""
    return 0 if run.spec.vocabulary is None else run.spec.vocabulary.pieces


def comparable(attack: str, runs: Sequence[Run]) -> list[Run]:
    """The runs for which an attack is defined: the ratio to the public model is not defined for that model itself."""
    return [run for run in runs if attack != RATIO or not run.spec.is_base]


def other_models(run: Run, runs: Sequence[Run]) -> list[Run]:
    """Runs on the same notes with the same privacy, one per kind of model, with this run's seed if possible.

    Shipped base models of the same name have read the same public text. Others are named by their own folder or hub,
    so any of them may be compared.
    """

    def given(one: Run) -> tuple:
        spec = one.spec
        read = spec.model.base if spec.model.shipped else None, spec.model.size, _notes_read(one), spec.vocabulary
        return spec.corpus, spec.is_base, spec.privacy, spec.training.clip_norm, *read

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
