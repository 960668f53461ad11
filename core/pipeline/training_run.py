"""The pipeline of a run: spec → cohort → training → attacks → tables → metrics.

Every stage stores its result in the run's work folder, so an interrupted run resumes where it was: training from its
checkpoint, the attacks from the first missing table.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from core.common.errors import Cancelled
from core.common.files import make_folder, replace_text, settle
from core.common.formatting import setting_text
from core.common.randomness import PublicSeed, Randomness
from core.corpus.tables import Corpus
from core.pipeline.derived import control_tables, write_derived
from core.pipeline.epochs.evaluation import evaluator
from core.pipeline.epochs.sample import writer
from core.pipeline.quick_audit import Report, Stop, attacks_of
from core.runs import noise_key
from core.runs.events import (
    CANCEL_FILE,
    EpochRecord,
    Event,
    EventLog,
    InStepRecord,
    Listener,
    Sample,
    State,
    Status,
    StepRecord,
    asked_to_cancel,
    read_status,
    still_submitted,
    write_status,
)
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.remote.sharing import fetched, leased, publish, shared, store_of
from core.runs.remote.store import Store, StoreUnusable
from core.runs.run import PRIVACY_FILE, Run, write_trained_by, write_vocabulary
from core.runs.store import Workspace
from core.runs.tables import write_table
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.models.build import LanguageModel
    from core.models.dp_vocabulary import OwnWords
    from core.training.events import EpochEvaluation, EpochEvent


class RunBusy(Exception):
    """Another process is making this run. The message is a sentence."""


def execute(
    spec: RunSpec,
    workspace: Workspace,
    *,
    wait: bool = True,
    on_event: Listener | None = None,
    should_stop: Callable[[], bool] | None = None,
    asked_again: Callable[[], bool] | None = None,
) -> Run:
    """Make the run of `spec`, or return it at once if it exists with all its tables.

    Its base control is made as well if it is missing.

    Resumes from the work folder of an interrupted run. If another process is making the same run, waits for it.

    Args:
        spec: Everything that determines the run.
        workspace: Where runs are stored.
        wait: False raises RunBusy, instead of waiting, if another process is making this run.
        on_event: Called with every event that is appended to the run's `events.jsonl` (docs/reference/events.md).
        should_stop: Polled between batches; True cancels the run. By default a cancel file in its work folder does,
            as the Cancel button of a page writes it.
        asked_again: Asked when the run was cancelled or is there. True if it was submitted again since: then its work
            folder, which has that submission's state, is left for it to resume from.

    Raises:
        Cancelled: `should_stop` returned True; nothing is left of the run unless `asked_again`.
        RunBusy: Another process, or a machine with the same store, is making the run, and `wait` is False.
        StoreUnusable: $PHILAB_STORE does not answer, or what it has of the run is damaged.
        DiskFull, ModelNotFound, ValueError: With a sentence; the work folder stays, marked `failed`, and can be
            resumed.
    """
    work = workspace.work(spec.run_id)
    stop = should_stop or asked_to_cancel(work)
    builder = RunBuilder(spec, workspace, on_event, stop, asked_again or (lambda: False))
    store = store_of(spec)
    if (finished := _complete(spec, workspace)) is not None:
        if store is not None and not finished.shipped:
            publish(store, finished, workspace)
        if work.exists():  # it was begun here, and the finished run came from elsewhere
            with held(workspace.lock_file(spec.run_id), should_stop=lambda: True) as nobody_at_it:
                if nobody_at_it:
                    builder.leave_nothing()
        return finished
    with held(workspace.lock_file(spec.run_id), should_stop=stop if wait else lambda: True) as holding:
        if not holding and not stop():
            raise RunBusy(f"Run {spec.run_id} is being made by another process.")
        if not holding:
            raise Cancelled(f"Run {spec.run_id} was cancelled while another process was making it.")
        if should_stop is None:
            (work / CANCEL_FILE).unlink(missing_ok=True)  # meant for an earlier process, which ended before it looked
        if (finished := _complete(spec, workspace)) is not None:
            builder.leave_nothing()
            return finished
        if store is None:
            return builder.run()
        try:
            return _shared_run(builder, store, wait=wait)
        except StoreUnusable as error:
            builder.note_failure(str(error))
            raise


def _shared_run(builder: RunBuilder, store: Store, *, wait: bool) -> Run:
    """The run, made by this or another machine that has the same store. Raises as `execute`, and StoreUnusable."""
    spec, workspace = builder.spec, builder.workspace
    lease = leased(store, spec.run_id, wait=wait, stop=builder.stop)
    try:
        finished = fetched(store, spec, workspace)
    except BaseException:
        if lease is not None:  # else other machines would wait until it counts as abandoned
            with suppress(StoreUnusable):  # the first error says more
                lease.release()
        raise
    if finished is not None:
        if lease is not None:
            lease.release()
        builder.leave_nothing()
        return finished
    if lease is None and builder.stop():
        builder.leave_nothing()
        raise Cancelled(f"Run {spec.run_id} was cancelled while another machine was making it.")
    if lease is None:
        raise RunBusy(f"Run {spec.run_id} is being made by another machine.")
    with shared(store, lease, spec, workspace):
        run = builder.run()
        publish(store, run, workspace)
        return run


def _complete(spec: RunSpec, workspace: Workspace) -> Run | None:
    """The finished run of `spec`; None if it is not there or is made again."""
    found = workspace.find(spec)
    return None if found is None or found.made_again else found


@dataclass(frozen=True)
class RunBuilder:
    """Makes one run, stage by stage."""

    spec: RunSpec
    workspace: Workspace
    on_event: Listener | None
    stop: Stop
    asked_again: Stop

    def run(self) -> Run:
        """Run all stages, keeping the run's state on disk whatever happens."""
        work = self.workspace.begin(self.spec)
        log = EventLog(work, self.on_event)
        try:
            with full_disk_as_sentence(f"run {work.name}", work):
                self._mark(work, "running")
                self._stages(work, log)
                self._mark(work, "done")
                log.emit({"event": "done", "message": "The run is complete."})
            return self.workspace.complete(work)
        except Cancelled as cancelled:
            if self.asked_again():
                self._mark(work, "queued")
            else:
                log.emit({"event": "cancelled", "message": str(cancelled)})
                self.workspace.discard(work)
            raise
        except Exception as error:
            self._failed(work, log, error)
            raise

    def leave_nothing(self) -> None:
        """Remove the work folder of a run that need not be made here, unless it was submitted again."""
        if (work := self.workspace.work(self.spec.run_id)).exists() and not self.asked_again():
            self.workspace.discard(work)

    def note_failure(self, message: str) -> None:
        """Record why the run was not begun, if somebody waits for it."""
        if (work := self.workspace.work(self.spec.run_id)).exists():
            self._mark(work, "failed", message)

    def _stages(self, work: Path, log: EventLog) -> None:
        log.stage("corpus", _reading_message(self.spec))
        corpus = self.workspace.corpus(self.spec.corpus).without(self.spec.without)
        self._check_stop()
        lm = self._trained(work, corpus, log)
        base = None if self.spec.is_base else self._base_control(log)
        self._attacks(work, lm, corpus, log)
        log.stage("saving", "Computing the figures and saving the run")
        self._summary(work, corpus, base)
        shutil.rmtree(work / "checkpoint", ignore_errors=True)

    # Training ----------------------------------------------------------------------------------------------------

    def _trained(self, work: Path, corpus: Corpus, log: EventLog) -> LanguageModel:
        """The trained model: loaded if an interrupted run had finished training, else trained now."""
        from core.corpus.transforms.defences import defended
        from core.models.build import load, load_folder

        if self.spec.is_base:
            write_table(work / "tables", "history", pd.DataFrame())
            return load(self.spec.model)
        if (work / "tables" / "history.parquet").exists():
            noise_key.destroy(work)
            return load_folder(work / "model")
        lm = load(self.spec.model)
        randomness = noise_key.obtain(work) if self.spec.secret_noise else PublicSeed(self.spec.training.seed)
        notes = defended(corpus.training_notes(self.spec.note_cap), self.spec.defence)
        words = self._own_words(lm, notes, randomness, work, log)
        log.stage("training", _training_message(self.spec))
        history = self._train(lm, notes, words, randomness, work, corpus, log)
        self._save_model(lm, work)
        write_table(work / "tables", "history", pd.DataFrame(history))  # last: it marks the end of training
        noise_key.destroy(work)
        return lm

    def _own_words(
        self, lm: LanguageModel, notes: pd.DataFrame, randomness: Randomness, work: Path, log: EventLog
    ) -> OwnWords | None:
        """New vocabulary entries from the notes, added before training (Hoory 2021, §3.2); None: public vocabulary."""
        from core.models.dp_vocabulary import extend, own_words

        asked = self.spec.vocabulary
        if asked is None:
            return None
        how = "without noise" if asked.epsilon is None else f"with noise, ε = {asked.epsilon:g}"
        log.stage("vocabulary", f"Counting the words of the notes {how}, and adding those kept to the vocabulary")
        words = own_words(lm, notes, asked, self.spec.privacy.unit, randomness)
        log.stage(
            "vocabulary",
            f"{words.kept:,} of {words.counted:,} unknown words are kept and give {len(words.entries):,} new entries",
        )
        write_vocabulary(work, words.entries)
        extend(lm, words.entries)
        return words

    def _train(
        self,
        lm: LanguageModel,
        notes: pd.DataFrame,
        words: OwnWords | None,
        randomness: Randomness,
        work: Path,
        corpus: Corpus,
        log: EventLog,
    ) -> list[dict[str, Any]]:
        from core.training.trainer import train

        evaluate, write = evaluator(corpus, self.spec), writer(corpus, self.spec.audit)
        if not (work / "checkpoint").exists():  # an interrupted run has its first text already
            log.emit({"event": "sample", "epoch": 0, "step": 0, **write(lm)})
        written: list[Sample] = []  # from the evaluation of an epoch to its event

        def look(model: LanguageModel) -> EpochEvaluation:
            written.append(write(model))
            return evaluate(model)

        def end_epoch(event: EpochEvent) -> None:
            log.emit(cast(EpochRecord, {"event": "epoch", **asdict(event)}))
            log.emit({"event": "sample", "epoch": event.epoch, "step": event.step, **written.pop()})

        result = train(
            lm,
            notes,
            self.spec.training,
            self.spec.privacy,
            on_step=lambda event: log.emit(cast(StepRecord, {"event": "step", **asdict(event)})),
            on_epoch=end_epoch,
            on_progress=lambda event: log.emit(cast(InStepRecord, {"event": "progress_in_step", **asdict(event)})),
            should_stop=self.stop,
            checkpoint=work / "checkpoint",
            evaluate=look,
            randomness=randomness,
        )
        if result.stopped:
            raise self._cancelled()
        if result.mechanism is not None:
            noise = None if words is None else words.noise
            mechanism = result.mechanism if noise is None else result.mechanism.with_vocabulary(noise)
            replace_text(work / PRIVACY_FILE, mechanism.to_json())
        if result.versions:
            write_trained_by(work, result.versions)
        return result.history

    @staticmethod
    def _save_model(lm: LanguageModel, work: Path) -> None:
        shutil.rmtree(work / "model", ignore_errors=True)
        lm.save(make_folder(work / "model"))
        settle(work / "model")  # before the table that marks the end of training

    # The control, the attacks and the figures --------------------------------------------------------------------

    def _base_control(self, log: EventLog) -> Run:
        """The public base model's run on the same cohort; its stages are reported as progress of this run."""
        log.stage("base control", "Running the same attacks on the public base model, which read none of the notes")

        def tell(event: Event) -> None:
            if event["event"] == "stage":
                log.stage("base control", f"Control: {event['message']}")
            elif event["event"] == "progress":
                log.progress(event["done"], event["total"])

        base = self.spec.base_spec()
        own_job = still_submitted(self.workspace.work(base.run_id))  # a job on the control does not end with this run
        return execute(base, self.workspace, on_event=tell, should_stop=self.stop, asked_again=own_job)

    def _attacks(self, work: Path, lm: LanguageModel, corpus: Corpus, log: EventLog) -> None:
        """The quick audit. Tables left by an interrupted run are not made again."""
        for attack in attacks_of(self.spec):
            if all((work / "tables" / f"{name}.parquet").exists() for name in attack.tables):
                continue
            log.stage(attack.stage, attack.message)
            frames = attack.make(lm, corpus, self.spec, self._progress(log), self.stop)
            for name, frame in zip(attack.tables, frames, strict=True):
                write_table(work / "tables", name, frame)

    def _summary(self, work: Path, corpus: Corpus, base: Run | None) -> None:
        """Write the metrics table and the model card."""
        write_derived(work, corpus, None if base is None else control_tables(base))

    # State and stopping ------------------------------------------------------------------------------------------

    def _progress(self, log: EventLog) -> Report:
        def report(done: int, total: int) -> None:
            self._check_stop()
            log.progress(done, total)

        return report

    def _check_stop(self) -> None:
        if self.stop():
            raise self._cancelled()

    def _cancelled(self) -> Cancelled:
        return Cancelled(f"Run {self.spec.run_id} was cancelled.")

    @staticmethod
    def _mark(work: Path, state: State, message: str = "") -> None:
        """Change the run's state on disk, keeping the times of submission and start."""
        now, old = time.time(), read_status(work) or Status(state="queued")
        times: dict[str, float | None] = {"started": old.started or now, "finished": None}
        if state == "queued":  # it waits again
            times["started"] = None
        elif state != "running":  # it ended; a run that was made by a command was never submitted
            times = {"submitted": old.submitted or old.started or now, "finished": now}
        write_status(work, old.model_copy(update={"state": state, "message": message, **times}))

    def _failed(self, work: Path, log: EventLog, error: Exception) -> None:
        """Record a failure. What was trained stays, so starting the run again resumes from there."""
        try:
            self._mark(work, "failed", str(error))
            log.emit({"event": "failed", "message": str(error)})
        except OSError:  # the disk has no room even for that: leave nothing behind that looks like a run
            self.workspace.discard(work)


def _reading_message(spec: RunSpec) -> str:
    """Imported notes are never generated, and come from no hospital of this program."""
    if spec.corpus.imported is not None:
        return "Reading the imported notes"
    return "Reading the hospital's notes (generating them first if necessary)"


def _training_message(spec: RunSpec) -> str:
    how = "without privacy"
    if spec.privacy.target_epsilon is not None:
        name = "target ε" if spec.privacy.accountant == "gdp" else "ε"  # GDP under-reports: the guarantee is another
        epsilon = setting_text(spec.privacy.target_epsilon)
        how = f"with differential privacy, {name} = {epsilon} for one {spec.privacy.unit}"
    elif spec.privacy.noise_multiplier is not None:
        how = f"with differential privacy, σ = {spec.privacy.noise_multiplier:g}"
        if spec.privacy.risk_limit is not None:
            how += f" ({spec.privacy.risk_limit.label})"
    elif spec.training.clip_norm is not None:
        how = "without privacy, clipped as with DP but without noise"
    if spec.without is not None:
        how += f", without the notes of {', '.join(spec.without)}"
    if spec.vocabulary is not None and spec.vocabulary.epsilon is not None:
        how += f"; its vocabulary has spent another ε = {spec.vocabulary.epsilon:g}"
    return f"Training {spec.model.kind} {how}"
