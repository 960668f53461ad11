"""`Run`: one finished run, read from its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import pandas as pd
from pydantic import Field, TypeAdapter

from core.common.files import replace_text
from core.common.randomness import NoiseSource
from core.corpus.tables import Corpus
from core.runs.events import Event, Status, read_events, read_status
from core.runs.figures_only import NEEDED, schemas_of
from core.runs.integrity.replacements import note_replacement
from core.runs.integrity.whole import (
    MECHANISM,
    FolderIdentity,
    folder_identity,
    json_problem,
    model_problems,
    table_problem,
)
from core.runs.note_cap import was_capped
from core.runs.tables import FIGURES_ONLY_FILE, read_table
from core.spec import ModelKind, RunSpec
from core.spec.schema import SCHEMA, SpecTooNew, SpecUnreadable, StoredSpec
from core.spec.schema import read as read_settings

if TYPE_CHECKING:
    from core.models.build import LanguageModel
    from core.training.accounting.mechanism import Mechanism

RUN_ID = re.compile(rf"(?:{'|'.join(get_args(ModelKind))})-[0-9a-f]{{12}}")
SPEC_FILE = "spec.json"
PRIVACY_FILE = "privacy.json"
VOCABULARY_FILE = "vocabulary.json"
TRAINED_BY_FILE = "trained-by.json"
WEIGHTS_FILE = "model/model.safetensors"
REMEDY = "`python -m core verify --repair` moves it to damaged/ or rebuilds what it can."


class RunNotFound(LookupError):
    """No complete run has this id. The message is a sentence."""


class RunBroken(ValueError):
    """A run's folder has a missing or damaged file. The message is a sentence that names both."""


class RunUnread(RunBroken, OSError):
    """The system could not read a run at this moment, whatever its files are (no permission, for example)."""


def check_run_id(run_id: str) -> str:
    """Return `run_id` if it has the form of a run id (`gpt2-3f2a9c01d4e7`), so that no path passes.

    Raises:
        RunNotFound: It does not.
    """
    if not RUN_ID.fullmatch(run_id):
        raise RunNotFound(
            f"“{run_id[:60]}” is not a run id. Run ids look like gpt2-3f2a9c01d4e7; `python -m core runs` lists them."
        )
    return run_id


def read_spec(folder: Path) -> RunSpec:
    """The spec in a run's folder, in its current meaning. Raises RunBroken as `read_stored_spec` does."""
    return read_stored_spec(folder).spec


def read_stored_spec(folder: Path) -> StoredSpec[RunSpec]:
    """The spec in a run's folder.

    The folder's name is the digest of the settings as they were stored, by whichever version.

    Raises:
        RunBroken: The spec is missing, damaged, from a newer version, or that of another run.
    """
    try:
        stored = read_settings((folder / SPEC_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunBroken(f"Run {folder.name} has no file {SPEC_FILE}. {REMEDY}") from None
    except UnicodeDecodeError:
        raise RunBroken(f"Run {folder.name}: its file {SPEC_FILE} is damaged (not text). {REMEDY}") from None
    except SpecUnreadable as error:
        remedy = "" if isinstance(error, SpecTooNew) else f" {REMEDY}"
        raise RunBroken(f"Run {folder.name}: its file {SPEC_FILE} {error}.{remedy}") from None
    if folder.name not in (stored.run_id, stored.spec.run_id):
        raise RunBroken(f"The folder {folder.name} contains the {SPEC_FILE} of run {stored.run_id}. {REMEDY}")
    return stored


@dataclass(frozen=True)
class Run:
    """A complete run. `shipped` runs came with the software and are read-only.

    `schema` is that of its stored spec (`core.spec.schema`). A run with an older schema keeps its name, so use `id`,
    never `spec.run_id`, for the name of a run.
    """

    folder: Path
    spec: RunSpec
    status: Status
    shipped: bool
    schema: int = SCHEMA

    @classmethod
    def open(cls, folder: Path, *, shipped: bool = False) -> Run:
        """Open a run's folder. Raises RunBroken, which names the missing or damaged file.

        A run whose files are the same as the last time is not read again: pages list all runs many times.
        """
        try:
            identity = folder_identity(folder)
        except OSError:
            if _opened.pop((folder, shipped), None) is not None:
                note_replacement()
            return cls._read(folder, shipped)  # says what is wrong
        known = _opened.get((folder, shipped))
        if known is not None and known[0] == identity:
            return known[1]
        _opened.pop((folder, shipped), None)
        if known is not None and known[0][1] != identity[1]:  # else a reader reported damage, perhaps in another run
            note_replacement()
        run = cls._read(folder, shipped)
        _opened[folder, shipped] = (identity, run)
        return run

    @staticmethod
    def forget_opened(root: Path) -> None:
        """Drop what is remembered of runs on imported notes in this data folder: they may have been deleted."""
        for folder, shipped in [place for place, (_, run) in list(_opened.items()) if run.spec.corpus.imported]:
            if folder.is_relative_to(root):
                _opened.pop((folder, shipped), None)

    @classmethod
    def _read(cls, folder: Path, shipped: bool) -> Run:
        stored = read_stored_spec(folder)
        status = read_status(folder)
        if status is None:
            raise RunBroken(f"Run {folder.name} cannot be used: its file status.json is missing or damaged. {REMEDY}")
        for name, problem in file_problems(folder, stored.spec):
            if problem == "is missing":
                raise RunBroken(f"Run {folder.name} has no file {name}. {REMEDY}")
            raise RunBroken(f"Run {folder.name} cannot be used: its file {name} {problem}. {REMEDY}")
        return cls(folder=folder, spec=stored.spec, status=status, shipped=shipped, schema=stored.schema)

    @cached_property
    def id(self) -> str:
        """Name of the run, for example `gpt2-3f2a9c01d4e7`."""
        return self.folder.name

    def events(self) -> list[Event]:
        """The run's event log, oldest event first."""
        return read_events(self.folder)

    def table(self, name: str) -> pd.DataFrame:
        """One of the tables in core.runs.tables. Raises TableMissing, a sentence naming run and file."""
        return read_table(self.folder / "tables", name, self.id)

    def has_table(self, name: str) -> bool:
        """Whether the run has this table: runs of earlier versions lack those in core.runs.tables.ADDED."""
        return (self.folder / "tables" / f"{name}.parquet").exists()

    @cached_property
    def figures_only(self) -> bool:
        """Whether the run's large tables were left out (`core.runs.figures_only`)."""
        return (self.folder / FIGURES_ONLY_FILE).exists()

    @property
    def made_again(self) -> bool:
        """Whether the run is made again, with all its tables, when somebody asks for it: shipped with figures only."""
        return self.shipped and self.figures_only

    @property
    def metrics(self) -> pd.DataFrame:
        """The run's metrics table: metric, arm, value, low, high, n, note."""
        return self.table("metrics")

    @property
    def privacy(self) -> Mechanism | None:
        """The mechanism of a private run; None without privacy. Raises RunBroken if its file is damaged."""
        if not self.spec.privacy.private:
            return None
        return read_promise(self.folder, self.spec, self.schema)

    @property
    def capped(self) -> bool:
        """Whether a cap may have left notes out of a training with a promise per note (`core.runs.note_cap`)."""
        return was_capped(self.folder, self.spec, self.schema)

    @property
    def keeps_target(self) -> bool:
        """Whether the run guarantees exactly the target ε it was asked for."""
        return self.spec.target_is_guaranteed and not self.capped

    @cached_property
    def epsilon(self) -> float | None:
        """The ε that a private run guarantees as a whole; None without privacy.

        The target if the run keeps it, so that the accountants are not loaded; else what its mechanism gives, which is
        more for most runs planned by GDP, with a vocabulary from the notes, or with a cap. Raises RunBroken.
        """
        if self.keeps_target:
            return self.spec.privacy.target_epsilon
        mechanism = self.privacy
        return None if mechanism is None else mechanism.epsilon()

    @property
    def note_cap(self) -> int | None:
        """Largest number of notes of one patient that this run's training read; None means all."""
        return self.spec.training.max_notes_per_patient if self.capped else self.spec.note_cap

    def as_read(self, corpus: Corpus) -> Corpus:
        """The cohort as this run read it: without the patients it leaves out, and the notes that a cap kept from it."""
        corpus = corpus.without(self.spec.without)
        return replace(corpus, notes=corpus.evaluation_notes(self.note_cap)) if self.capped else corpus

    @property
    def noise_source(self) -> NoiseSource | None:
        """Source of a private run's noise, read without loading the accountants; None without privacy.

        A file without the setting is from a version that had public seeds only. Raises RunBroken.
        """
        if not self.spec.privacy.private:
            return None
        try:
            stored = json.loads((self.folder / PRIVACY_FILE).read_text(encoding="utf-8"))
            return "secret" if stored.get("noise_source") == "secret" else "public seed"
        except (OSError, ValueError, AttributeError, RecursionError):
            raise RunBroken(
                f"Run {self.id}: its file {PRIVACY_FILE} is missing or damaged, so its ε cannot be computed. {REMEDY}"
            ) from None

    @property
    def training(self) -> str | None:
        """Which training a run with secret noise is of: its id alone does not tell. None for any other, and older ones.

        With a public seed the same settings always give the same weights.
        """
        return training_among([self.folder.parent.parent], self.id)

    @property
    def trained_by(self) -> list[dict[str, str]] | None:
        """The versions of this program and its packages that trained the weights; None: not recorded, or not trained.

        Several, in turn, if another one resumed the training; an empty one was not recorded. Raises RunBroken.
        """
        return read_trained_by(self.folder)

    @property
    def vocabulary(self) -> tuple[str, ...] | None:
        """Vocabulary entries from the run's notes, in the order they were learned; None: public vocabulary only."""
        return None if self.spec.vocabulary is None else read_vocabulary(self.folder)

    @property
    def weights_identity(self) -> tuple[int, ...] | None:
        """What stays the same while the run's weights do: inode, size and time of their file. None without weights."""
        try:
            there = (self.folder / WEIGHTS_FILE).stat()
        except OSError:
            return None
        return there.st_ino, there.st_size, there.st_mtime_ns

    @cached_property
    def has_model(self) -> bool:
        """Whether the run can answer prompts: its weights are kept, or it is the public base model itself."""
        return self.spec.is_base or self._keeps_weights()

    def _keeps_weights(self) -> bool:
        return (self.folder / WEIGHTS_FILE).exists()

    def model(self) -> LanguageModel:
        """Load the run's weights (for a control run, the public base model's). Raises RunBroken if none are kept."""
        from core.models.build import load, load_folder

        if self.spec.is_base:
            return load(self.spec.model)
        if not self._keeps_weights():  # asked anew: they may have been pruned
            raise RunBroken(f"Run {self.id} has tables but no weights ({WEIGHTS_FILE}), so it cannot be prompted.")
        return load_folder(self.folder / "model")


_opened: dict[tuple[Path, bool], tuple[FolderIdentity, Run]] = {}
_Versions = TypeAdapter(Annotated[list[dict[str, str]], Field(min_length=1)])


def read_promise(folder: Path, spec: RunSpec, schema: int = SCHEMA) -> Mechanism:
    """The promise of a private run's folder: its mechanism, with the neighbours that its notes allow.

    Raises RunBroken as `read_privacy` does.
    """
    mechanism = read_privacy(folder)
    return mechanism.replacing() if was_capped(folder, spec, schema) else mechanism


def file_problems(folder: Path, spec: RunSpec) -> Iterator[tuple[str, str]]:
    """(file, what is wrong with it) for a run's files that cannot be used, except its spec and status."""
    checks: list[tuple[str, Callable[[Path], str | None]]] = [
        (f"tables/{name}.parquet", partial(table_problem, columns=schema.names))
        for name, schema in schemas_of(folder, spec).items()
    ]
    if (folder / FIGURES_ONLY_FILE).exists():
        checks.append((FIGURES_ONLY_FILE, partial(json_problem, keys=NEEDED)))
    if spec.privacy.private:
        checks.append((PRIVACY_FILE, partial(json_problem, keys=MECHANISM)))
    if spec.vocabulary is not None:
        checks.append((VOCABULARY_FILE, json_problem))
    if (folder / TRAINED_BY_FILE).exists():  # runs of older versions lack it
        checks.append((TRAINED_BY_FILE, _trained_by_problem))
    for name, check in checks:
        if (problem := check(folder / name)) is not None:
            yield name, problem
    yield from model_problems(folder / "model")  # most shipped runs have none


def read_privacy(folder: Path) -> Mechanism:
    """The mechanism in a folder's `privacy.json`. Raises RunBroken."""
    from core.training.accounting.mechanism import Mechanism

    try:
        return Mechanism.from_json((folder / PRIVACY_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunBroken(
            f"Run {folder.name} has no file {PRIVACY_FILE}, so its ε cannot be computed. {REMEDY}"
        ) from None
    except ValueError:
        raise RunBroken(
            f"Run {folder.name}: its file {PRIVACY_FILE} is damaged, so its ε cannot be computed. {REMEDY}"
        ) from None


def training_among(roots: Iterable[Path], run_id: str) -> str | None:
    """`Run.training` of the run with this id in the first of these data folders that has it; None if it is unknown."""
    folder = next((one for root in roots if (one := root / "runs" / run_id).is_dir()), None)
    try:
        stored = None if folder is None else json.loads((folder / PRIVACY_FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    found = stored.get("training") if isinstance(stored, dict) else None
    return found if isinstance(found, str) else None


def write_vocabulary(folder: Path, entries: Sequence[str]) -> None:
    """Write the new entries of a run's vocabulary to `vocabulary.json`, a JSON list."""
    replace_text(folder / VOCABULARY_FILE, json.dumps(list(entries), ensure_ascii=False, indent=0))


def read_vocabulary(folder: Path) -> tuple[str, ...]:
    """The entries in a folder's `vocabulary.json`. Raises RunBroken."""
    try:
        entries = json.loads((folder / VOCABULARY_FILE).read_text(encoding="utf-8"))
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise ValueError
    except FileNotFoundError:
        raise RunBroken(f"Run {folder.name} has no file {VOCABULARY_FILE}. {REMEDY}") from None
    except (ValueError, RecursionError):
        raise RunBroken(f"Run {folder.name}: its file {VOCABULARY_FILE} is damaged. {REMEDY}") from None
    return tuple(entries)


def write_trained_by(folder: Path, versions: Sequence[Mapping[str, str]]) -> None:
    """Write the versions that trained a run's weights, in turn, to `trained-by.json`, a JSON list of objects."""
    replace_text(folder / TRAINED_BY_FILE, json.dumps(list(versions), indent=1))


def _trained_by_problem(path: Path) -> str | None:
    """Why a `trained-by.json` cannot be used, or None."""
    try:
        read_trained_by(path.parent)
    except RunBroken:
        return "is damaged"
    return None


def read_trained_by(folder: Path) -> list[dict[str, str]] | None:
    """The versions in a folder's `trained-by.json`; None without this file. Raises RunBroken."""
    try:
        return _Versions.validate_json((folder / TRAINED_BY_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        raise RunBroken(f"Run {folder.name}: its file {TRAINED_BY_FILE} is damaged. {REMEDY}") from None
