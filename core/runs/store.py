"""`Workspace`: where runs and cohorts live on disk.

A run is made in `work/<id>/` and renamed to `runs/<id>/` only when it is complete and synced, so every folder under a
final name is complete. Shipped runs and cohorts (assets/demo) are found as well and never written.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pyarrow as pa

from core.common.files import is_private, make_folder, replace_text
from core.common.folders import building, publish, remove
from core.common.program import ASSETS, DATA
from core.corpus.tables import CANARIES, DIAGNOSES, NOTES, PATIENTS, Corpus
from core.runs import audits, listing, noise_key
from core.runs.audits import StoredAudit
from core.runs.events import CANCEL_FILE, Status, read_status, write_status
from core.runs.integrity.checksums import take as take_checksums
from core.runs.integrity.disk import error_sentence, full_disk_as_sentence
from core.runs.integrity.upkeep import DIGEST, look_after
from core.runs.integrity.whole import note_damage, table_problem
from core.runs.run import RUN_ID, SPEC_FILE, Run, RunBroken, RunNotFound, check_run_id, read_spec, training_among
from core.runs.uploads.ownership import UPLOADED, cohort_of, mark_run, marked_cohort
from core.runs.uploads.records import damaged_records, may_see, sees_upload
from core.spec import CorpusSpec, RunSpec
from core.spec.schema import SCHEMA, written

DEMO = ASSETS / "demo"
CORPORA_IN_MEMORY = 4
COHORT_TABLES = {"patients": PATIENTS, "notes": NOTES, "canaries": CANARIES}

_corpora: OrderedDict[tuple[Path, str], Corpus] = OrderedDict()
_corpora_making: dict[tuple[Path, str], threading.Lock] = {}
_corpora_forgotten: dict[tuple[Path, str], int] = {}  # number of times that each cohort was deleted
_corpora_lock = threading.Lock()


class DataFolderUnusable(OSError):
    """The data folder is a file, or this account may not open it. The message is a sentence."""


def data_folder(given: Path | str | None = None) -> Path:
    """The folder of runs and cohorts: `given`, else $PHILAB_DATA, else data/ beside the program. Blank means not given.

    Of an installed program it is data/ in the working directory.

    Raises:
        DataFolderUnusable: The path is a file or leads through one, or the folder cannot be opened.
    """
    asked = next((text for text in (given, os.environ.get("PHILAB_DATA")) if text and str(text).strip()), None)
    root = Path(asked or DATA).resolve()
    try:
        os.listdir(root)
    except FileNotFoundError:
        pass  # the folder is made when something is stored
    except OSError as error:
        raise DataFolderUnusable(f"The data folder cannot be used. {error_sentence(error)}") from None
    return root


class CohortGone(ValueError):
    """Imported notes are not (or no longer) here, or belong to somebody else. The message is a sentence."""


class Workspace:
    """Runs and cohorts under `root` (see `data_folder`), and the read-only ones in `shared`.

    `shared` defaults to the folder in $PHILAB_SHIPPED, else to assets/demo. For a `viewer` (a browser session or a
    signed-in user), cohorts that others uploaded are hidden, and so are all runs on them (core.runs.uploads.records).
    Without a viewer, as for commands and the job engine, everything is visible.
    """

    def __init__(
        self, root: Path | str | None = None, shared: Sequence[Path] | None = None, *, viewer: str | None = None
    ) -> None:
        shipped = Path(os.environ.get("PHILAB_SHIPPED") or DEMO)
        self.root = data_folder(root)
        self.shared = (shipped,) if shared is None else tuple(Path(folder) for folder in shared)
        self.viewer = viewer
        look_after(self.root, (*self.shared, shipped))

    def shows(self, spec: CorpusSpec) -> bool:
        """Whether the viewer may see this cohort and the runs on it."""
        return self.viewer is None or may_see(self.root, spec, self.viewer)

    # Cohorts -----------------------------------------------------------------------------------------------------

    def corpus(self, spec: CorpusSpec, *, store: bool = True) -> Corpus:
        """The cohort of `spec`: from memory, from disk, or built now and stored. Do not modify its frames in place.

        With `store=False` nothing is written, for looking at a cohort before deciding on it.

        Raises:
            CohortGone: The spec is of imported notes, and they are not here.
        """
        key = (self.root, spec.digest())
        with _corpora_lock:
            making = _corpora_making.setdefault(key, threading.Lock())
            forgotten = _corpora_forgotten.get(key, 0)
        with making:  # two sessions do not build the same cohort twice, and different cohorts do not wait
            folder = self.corpus_folder(spec)
            if spec.imported is not None and (folder is None or not self.shows(spec)):
                if folder is None:
                    self.forget(spec.digest())
                raise CohortGone(
                    "The notes of this cohort are not here: they were deleted, are damaged or belong to someone else, "
                    f"or are in another data folder than {self.root}. Import them again."
                )
            corpus = _corpora.get(key) or _read_or_build(folder, spec)
            if folder is None and store:
                self._store_corpus(corpus, spec)
        self._remember(key, corpus, forgotten)
        return corpus

    def _remember(self, key: tuple[Path, str], corpus: Corpus, forgotten: int) -> None:
        """Keep a cohort in memory, unless it was deleted while it was being read."""
        with _corpora_lock:
            if _corpora_forgotten.get(key, 0) != forgotten:
                raise CohortGone("The notes of this cohort have just been deleted.")
            _corpora[key] = corpus
            _corpora.move_to_end(key)
            while len(_corpora) > CORPORA_IN_MEMORY:
                _corpora.popitem(last=False)

    def add(self, corpus: Corpus) -> None:
        """Store an imported cohort, so that `corpus(spec)` finds it by its spec."""
        assert corpus.spec is not None  # an import gives its cohort one
        if self.corpus_folder(corpus.spec) is None:
            self._store_corpus(corpus, corpus.spec)

    def adopt(self, made: Path, spec: CorpusSpec) -> None:
        """Move a folder on this disk with a complete cohort to where `corpus(spec)` finds it."""
        if self.corpus_folder(spec) is None:
            final = self.root / "corpora" / spec.digest()
            with full_disk_as_sentence("the cohort", final.parent):
                take_checksums(made, spec)
                publish(made, final, is_whole_cohort)

    def forget(self, digest: str) -> None:
        """Drop a deleted cohort from this process's memory, also if it is being read at this moment."""
        self._forget([digest])

    def forget_imported(self, *, gone: bool = False) -> None:
        """Drop this data folder's imported cohorts from memory; with `gone`, only those no longer on disk.

        Another process may delete them and cannot change this one's memory.
        """
        with _corpora_lock:
            held = [corpus.spec for (root, _), corpus in _corpora.items() if root == self.root and corpus.spec]
        imported = [spec for spec in held if spec.imported is not None]
        self._forget([spec.digest() for spec in imported if not (gone and self.corpus_folder(spec))])

    def _forget(self, digests: Sequence[str]) -> None:
        """Drop these cohorts, and whatever else this process keeps of imported notes: every such cache belongs here."""
        listing.forget(self.root)
        audits.forget(self.root)
        with _corpora_lock:
            for key in ((self.root, digest) for digest in digests):
                _corpora_forgotten[key] = _corpora_forgotten.get(key, 0) + 1
                _corpora.pop(key, None)

    def corpus_folder(self, spec: CorpusSpec) -> Path | None:
        """The folder that holds the cohort of `spec` as Parquet, for queries; None if it is not on disk."""
        folders = (root / "corpora" / spec.digest() for root in (self.root, *self.shared))
        return next(filter(is_whole_cohort, folders), None)

    def _store_corpus(self, corpus: Corpus, spec: CorpusSpec) -> None:
        final = self.root / "corpora" / spec.digest()
        private = spec.imported is not None
        with full_disk_as_sentence("the cohort", final.parent), building(final.parent, private=private) as beside:
            corpus.write(beside)
            take_checksums(beside, spec)
            publish(beside, final, is_whole_cohort)

    # Complete runs -----------------------------------------------------------------------------------------------

    def _opened(self) -> Iterator[tuple[Path, Run | str]]:
        """Every run's folder, with the run or a sentence; a run in the data folder hides a shipped one of its id."""
        found: dict[str, tuple[Path, Run | str]] = {}
        for root in (self.root, *self.shared):
            for name, one in listing.opened(root / "runs", shipped=root != self.root).items():
                found.setdefault(name, one)
        yield from found.values()

    def runs(self) -> list[Run]:
        """Every complete run, newest first. Broken folders are left out; `problems` reports them."""
        runs = [run for _, run in self._opened() if isinstance(run, Run) and self.shows(run.spec.corpus)]
        return sorted(runs, key=lambda run: run.status.finished or 0.0, reverse=True)

    def runs_of(self, run_ids: Iterable[str]) -> list[Run]:
        """The runs with these ids, in their order. Raises RunNotFound or RunBroken, each with a sentence."""
        known = {run.id: run for run in self.runs()}
        return [known.get(run_id) or self.run(run_id) for run_id in run_ids]

    def problems(self) -> list[str]:
        """One sentence for everything that cannot be used: runs, audits, cohorts, and records of uploads.

        A viewer sees only problems of what they may see, and none about folders that merely look like a run's.
        """
        found = [one for folder, one in self._opened() if isinstance(one, str) and self._may_name(folder)]
        for stored in self._audits():
            found += [f"The audit of run {stored.run_id}: {one}" for one in stored.problem_sentences()]
        for folder in self._cohorts():
            found += [f"Cohort {folder.name}: its file {name} {what}." for name, what in unreadable_tables(folder)]
        return found if self.viewer is not None else [*found, *damaged_records(self.root)]

    def _may_name(self, folder: Path) -> bool:
        """Whether the viewer may learn of a run's folder that cannot be used.

        This includes folders whose cohort cannot be determined, unless it was an upload: the sentence contains the
        run's name and the file's, and nothing of the file's content.
        """
        if self.viewer is None:
            return True
        about = cohort_of(folder)
        if about is None:
            return folder.is_dir() and bool(RUN_ID.fullmatch(folder.name)) and marked_cohort(folder) is None
        return not about[1] or sees_upload(self.root, about[0], self.viewer)

    def _audits(self) -> Iterator[StoredAudit]:
        for root in (self.root, *self.shared):
            for folder in sorted((root / "audits").glob("*/")):
                runs = [one / "runs" / folder.name for one in (self.root, *self.shared)]
                if RUN_ID.fullmatch(folder.name) and any(run.is_dir() and self._may_name(run) for run in runs):
                    yield StoredAudit(folder.name, folder)

    def _cohorts(self) -> Iterator[Path]:
        for root in (self.root, *self.shared):
            for folder in sorted((root / "corpora").glob("*/")):
                public = self.viewer is None or not is_private(folder)
                if DIGEST.fullmatch(folder.name) and (public or sees_upload(self.root, folder.name, self.viewer or "")):
                    yield folder

    def run(self, run_id: str) -> Run:
        """The run with that id. Raises RunNotFound, RunBroken or RunUnread, each with a sentence."""
        check_run_id(run_id)
        for root in (self.root, *self.shared):
            run = listing.one(root / "runs" / run_id, shipped=root != self.root)
            if run is not None and self.shows(run.spec.corpus):
                return run
        raise RunNotFound(f"There is no run {run_id} in {self.root}. `python -m core runs` lists the runs there are.")

    def find(self, spec: RunSpec) -> Run | None:
        """The complete run of this spec, if there is a usable one; an older version may have given it another name.

        Raises RunUnread, so that a run that may be sound is not made again.
        """
        for run_id in chain([spec.run_id], self._renamed(spec)):  # try today's name before reading every spec
            try:
                return self.run(run_id)
            except (RunNotFound, RunBroken) as error:
                if isinstance(error, OSError):  # RunUnread
                    raise
        return None

    def control(self, spec: RunSpec) -> Run:
        """The run that a run of this spec is compared with. Raises RunNotFound or RunBroken if it cannot be used."""
        base = spec.base_spec()
        return self.find(base) or self.run(base.run_id)

    def _renamed(self, spec: RunSpec) -> Iterator[str]:
        """Names that older versions gave to the run of this spec."""
        for _, run in self._opened():
            if isinstance(run, Run) and run.schema < SCHEMA and run.id != spec.run_id and run.spec == spec:
                yield run.id

    # Audits ------------------------------------------------------------------------------------------------------

    def audit(self, run_id: str) -> StoredAudit:
        """Results of a run's audits so far, here and among the shipped ones; there may be none yet."""
        check_run_id(run_id)
        roots = (self.root, *self.shared)
        own, *others = (root / "audits" / run_id for root in roots)
        training = training_among(roots, run_id)
        return StoredAudit(run_id, own, tuple(others), lenient=self.viewer is not None, training=training)

    def audited(self) -> set[str]:
        """Ids of the runs that have a folder for audits, here or among the shipped ones; all others have no audit.

        Names of folders only, of all runs: ask about runs that the viewer may see.
        """
        places = [root / "audits" for root in (self.root, *self.shared)]
        return {entry.name for place in places if place.is_dir() for entry in os.scandir(place)}

    def begin_audit(self, run_id: str, corpus: CorpusSpec) -> Path:
        """Make the folder for the audit of a run on `corpus`, if it does not exist; private for imported notes."""
        return make_folder(self.audit(run_id).folder, private=corpus.imported is not None)

    def audit_lock_file(self, run_id: str) -> Path:
        """The lock file that a process holds while it audits this run (core.runs.lock)."""
        return self.root / "audits" / f".{check_run_id(run_id)}.lock"

    def references(self, spec: CorpusSpec) -> Path:
        """The folder of the attacks' reference models, which depend on the cohort and not on the run under attack.

        Those trained on imported notes have a separate folder, which is deleted with the notes.
        """
        folder = self.root / "references"
        return folder if spec.imported is None else folder / spec.digest()

    # Runs being made ---------------------------------------------------------------------------------------------

    def work(self, run_id: str) -> Path:
        """The folder in which the run with that id is made (whether or not it exists)."""
        return self.root / "work" / check_run_id(run_id)

    def lock_file(self, run_id: str) -> Path:
        """The lock file that a process holds while it makes this run (core.runs.lock)."""
        return self.root / "work" / f".{check_run_id(run_id)}.lock"

    def works(self) -> list[Path]:
        """Folders of runs in progress, queued, interrupted or failed, in the order they were submitted."""
        there = (self.root / "work").glob("*/")
        found = [path for path in there if RUN_ID.fullmatch(path.name) and (path / SPEC_FILE).exists()]
        return sorted(found, key=lambda path: (getattr(read_status(path), "submitted", None) or 0.0, path.name))

    def begin(self, spec: RunSpec) -> Path:
        """Make the work folder of `spec` with its spec and a `queued` status, or return the one of a stopped run."""
        work = self.work(spec.run_id)
        for last in (False, False, True):  # the worker of the same run, just cancelled, may remove the folder meanwhile
            try:
                with full_disk_as_sentence(f"run {spec.run_id}", self.root):
                    make_folder(work, private=spec.corpus.imported is not None)
                    if not (work / SPEC_FILE).exists():
                        replace_text(work / SPEC_FILE, written(spec))
                    if (self.root / "corpora" / spec.corpus.digest() / UPLOADED).exists():
                        mark_run(work, spec.corpus.digest())
                    if read_status(work) is None:
                        write_status(work, Status(state="queued"))  # not submitted: who begins it makes it
                break
            except OSError as error:
                if last or not isinstance(error, FileNotFoundError):
                    if read_status(work) is None:  # half made
                        self.discard(work)
                    raise
        return work

    def complete(self, work: Path) -> Run:
        """Sync a finished work folder to disk and rename it to its place among the runs."""
        final = self.root / "runs" / work.name
        noise_key.destroy(work)  # training destroyed it at its end; make sure that no copy is kept with the run
        with full_disk_as_sentence(f"run {work.name}", final.parent):
            take_checksums(work, read_spec(work).corpus)
            if not publish(work, final, listing.is_whole):
                self.discard(work)
        (final / CANCEL_FILE).unlink(missing_ok=True)  # it came too late, perhaps at the last moment
        return Run.open(final)

    def discard(self, work: Path) -> None:
        """Remove a work folder and everything in it, starting with the key of its noise.

        Its name is free at once: the same run may be submitted again meanwhile, and nothing of that is removed.
        """
        noise_key.destroy(work)
        remove(work)


def unreadable_tables(folder: Path) -> Iterator[tuple[str, str]]:
    """(file, what is wrong with it) for a cohort's tables that cannot be used."""
    tables = dict(COHORT_TABLES)
    if (folder / "diagnoses.parquet").exists():
        tables["diagnoses"] = DIAGNOSES
    for name, schema in tables.items():
        if (problem := table_problem(folder / f"{name}.parquet", schema.names)) is not None:
            yield f"{name}.parquet", problem


def is_whole_cohort(folder: Path) -> bool:
    """Whether the cohort in this folder can be used."""
    return next(unreadable_tables(folder), None) is None


def _read_or_build(folder: Path | None, spec: CorpusSpec) -> Corpus:
    """The cohort of `spec` from its folder, or built: there is none, or it was pruned at this moment. As `_read`."""
    from core.corpus.synthetic.hospital import build

    try:
        return build(spec) if folder is None else _read(folder)
    except CohortGone:
        if spec.imported is not None or folder is None or folder.is_dir():
            raise
    return build(spec)


def _read(folder: Path) -> Corpus:
    """A cohort from its folder. Raises CohortGone for damage found only now, and notes it for the next call."""
    try:
        return Corpus.read(folder)
    except (OSError, pa.ArrowException) as error:
        for name, schema in COHORT_TABLES.items():
            if (problem := table_problem(folder / f"{name}.parquet", to_the_end=True)) is not None:
                note_damage(folder / f"{name}.parquet", schema.names, problem)
        raise CohortGone(f"The cohort in {folder} cannot be read: a table is damaged ({error}). Try again.") from error
