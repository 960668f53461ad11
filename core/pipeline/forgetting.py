"""Taking one patient out of a trained run, and the same attacks on every model that comes of it.

The models, called arms: the run itself, three approximate unlearnings made here in seconds, the run trained again
without the patient (a run of its own, `retrain`), a private run of the same hospital, and the public model. What an arm
gives is stored as soon as it ends (`StoredAudit.forgetting`), so that a stopped comparison goes on where it was.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from core.attacks.registry import MASKED
from core.common.errors import Cancelled
from core.common.files import is_private, make_folder
from core.common.folders import building, publish
from core.corpus.tables import Corpus
from core.evaluation.forgetting import ARMS
from core.runs.audits import Outcome, StoredAudit, file_name
from core.runs.events import Listener, asked_to_cancel
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.uploads.deletion import until_deleted
from core.spec.parts import digest_of

if TYPE_CHECKING:
    from core.attacks.forgetting import Judged
    from core.attacks.registry import Report
    from core.models.build import LanguageModel
    from core.training.unlearning import UnlearningSpec

PUBLIC, ORIGINAL, *_, RETRAINED, PRIVATE = ARMS
APPROXIMATE = ARMS[2:5]  # `core.training.unlearning.METHODS`, without loading torch
SAMPLES = 50  # texts of each of the audit's prompts
VERSION = 1  # increase it when a code change alters the result
ArmReport = Callable[[str, str, int, int], None]  # (arm, what is done, done, total)


@dataclass(frozen=True)
class Comparison:
    """A run, the patient to take out of it, and the runs that exist to compare with."""

    run: Run
    patient: str
    retrained: Run | None
    private: Run | None


def comparison(run: Run, patient: str, workspace: Workspace) -> Comparison:
    """Which runs there are to compare with. Raises ValueError for a run from which nobody can be taken out."""
    if run.spec.is_base:
        raise ValueError(
            f"Run {run.id} is the public model. It was trained on no patient's notes, so there is no one to forget."
        )
    if not run.has_model:
        raise ValueError(f"Run {run.id} has no weights, so nothing can be unlearned. Choose a run with weights.")
    retrained = workspace.find(run.spec.retrained_spec(patient))
    return Comparison(run, patient, _with_model(retrained), _private(run, workspace))


def _with_model(run: Run | None) -> Run | None:
    return run if run is not None and run.has_model else None


def _private(run: Run, workspace: Workspace) -> Run | None:
    """The private run with weights most like this one: same notes and model, ε nearest 8, same seed if possible."""
    spec = run.spec
    if spec.privacy.private or spec.vocabulary is not None:  # other tokens do not compare
        return None
    alike = [
        one
        for one in workspace.runs()
        if one.spec.privacy.private
        and one.has_model
        and (one.spec.corpus, one.spec.model) == (spec.corpus, spec.model)
        and not one.spec.on_other_notes
        and one.spec.vocabulary is None
    ]

    def far(one: Run) -> tuple[float, bool, str]:
        return abs((one.spec.privacy.target_epsilon or 1e9) - 8.0), one.spec.training.seed != spec.training.seed, one.id

    return min(alike, key=far, default=None)


def retrain(run: Run, patient: str, workspace: Workspace, *, on_event: Listener | None = None) -> Run:
    """Exact unlearning: the run of the same settings and seed that never reads the patient. Made once.

    Raises as `core.pipeline.training_run.execute`, and ValueError if the patient is not a member.
    """
    from core.pipeline.training_run import execute

    if run.capped:
        raise ValueError(
            f"Run {run.id} is of an older version that left notes out of its training by a cap. Training it again "
            "without a patient would change more than that patient's notes. Train the run again first."
        )
    spec = run.spec.retrained_spec(patient)
    workspace.corpus(run.spec.corpus, store=False).without(spec.without)  # refuse before a run is begun
    return execute(spec, workspace, on_event=on_event)


def weights_folder(workspace: Workspace, run_id: str, patient: str, arm: str) -> Path:
    """Where the weights of an approximate unlearning are kept, if it was made here."""
    return workspace.audit(run_id).forgetting(patient).folder / "models" / file_name(arm)


def forget(
    run: Run,
    patient: str,
    workspace: Workspace,
    *,
    methods: Sequence[str] = APPROXIMATE,
    samples: int = SAMPLES,
    on_progress: ArmReport | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> StoredAudit:
    """Unlearn the patient by these methods, and attack each model and those that exist to compare with.

    What is stored is not made again. Tables: `standing` (`core.attacks.forgetting.NOTE_COLUMNS` and arm), `writing`
    (what `core.attacks.forgetting.written` gives, arm, run_id, seconds, steps, reached; of a run with secret noise also
    `Run.training`) and `steps` (of an unlearning).

    Raises:
        ValueError: A sentence: the run has no weights, the patient no training notes, or a method does not exist.
        Cancelled: `should_stop` returned True; arms that ended are kept.
        DiskFull: A result could not be stored.
    """
    for name in methods:
        if name not in APPROXIMATE:
            raise ValueError(f"There is no method “{name}”. The methods are: {', '.join(APPROXIMATE)}, retrain.")
    if methods and run.spec.privacy.private:
        raise ValueError(
            f"Run {run.id} is private. Unlearning would read the patient's notes again, without noise, and its ε does "
            "not cover that. Train it again without the patient (--method retrain)."
        )
    found = comparison(run, patient, workspace)
    stored = workspace.audit(run.id).forgetting(patient)
    stop = until_deleted(workspace, run.spec.corpus, should_stop, asked_to_cancel(stored.folder))
    with full_disk_as_sentence(f"the forgetting of patient {patient}", stored.folder):
        workspace.begin_audit(run.id, run.spec.corpus)
        make_folder(stored.folder.parent)
        make_folder(stored.folder)
        with held(stored.folder / ".lock", should_stop=stop) as holding:
            if not holding:
                raise Cancelled("Forgetting was cancelled while another process was working on the same patient.")
            _Forgetting(found, workspace, stored, samples, on_progress, stop).go(methods)
    return stored


class _Forgetting:
    """One comparison in progress."""

    def __init__(
        self,
        found: Comparison,
        workspace: Workspace,
        stored: StoredAudit,
        samples: int,
        on_progress: ArmReport | None,
        stop: Callable[[], bool],
    ) -> None:
        from core.attacks.forgetting import judged_notes, sides
        from core.attacks.memorisation.extraction import index_of

        self.found, self.workspace, self.stored = found, workspace, stored
        self.samples, self.on_progress, self.stop = samples, on_progress, stop
        spec = found.run.spec
        self.corpus: Corpus = found.run.as_read(workspace.corpus(spec.corpus, store=False))
        originals, read = sides(self.corpus, found.run.note_cap, spec.defence)
        self.training = read.training
        self.notes, self.level = (
            judged_notes(one.training, one.heldout, found.patient, spec.audit.seed) for one in (originals, read)
        )
        self.index = index_of(self.corpus)
        self.judged: Judged | None = None

    def go(self, methods: Sequence[str]) -> None:
        """Every arm in turn. The public model and the run itself come first: the others are compared with them."""
        self._arm(PUBLIC, self.found.run.spec.base_spec().run_id, self._public_model, self._control())
        self._arm(ORIGINAL, self.found.run.id, self.found.run.model, self.found.run)
        for name in APPROXIMATE:
            if name in methods:
                self._unlearned(name)
        for name, run in ((RETRAINED, self.found.retrained), (PRIVATE, self.found.private)):
            if run is not None:
                self._arm(name, run.id, run.model, run)

    # Arms --------------------------------------------------------------------------------------------------------

    def _public_model(self) -> LanguageModel:
        from core.models.dp_vocabulary import public_model

        return public_model(self.found.run.spec.model, self.found.run.vocabulary)

    def _control(self) -> Run | None:
        return self.workspace.find(self.found.run.spec.base_spec()) if self.found.run.spec.vocabulary is None else None

    def _arm(self, arm: str, key: str, model: Callable[[], LanguageModel], run: Run | None) -> None:
        """Attack one finished model, unless that is stored. `run`: the run whose stored texts are its own."""
        training = None if run is None or arm in (PUBLIC, ORIGINAL) else run.training  # the original's own is stored
        stamp = self._stamp(arm, key if training is None else f"{key} {training}")
        if not self._is_done(arm, stamp):
            begun = time.monotonic()
            lm = model()
            which = {} if training is None else {"training": training}
            self._record(arm, stamp, self._tables(arm, key, lm, run, which), begun)

    def _unlearned(self, arm: str) -> None:
        from core.models.build import load_folder
        from core.training.unlearning import METHODS, settings_of

        method = next(one for one in METHODS if one == arm)
        settings = settings_of(method, self.found.run.spec.training)
        stamp = self._stamp(arm, settings.digest())
        place = weights_folder(self.workspace, self.found.run.id, self.found.patient, arm)
        done = self._is_done(arm, stamp)
        if done and place.is_dir():
            return
        begun = time.monotonic()
        lm = self.found.run.model()
        steps, told = self._unlearn(arm, lm, settings)
        self._check_stop()
        self._save(lm, place)
        if done:  # shipped figures come without weights, and they are the same ones
            return
        tables = self._tables(arm, "", load_folder(place), None, told)
        self._record(arm, stamp, {**tables, "steps": steps}, begun)

    def _unlearn(self, arm: str, lm: LanguageModel, settings: UnlearningSpec) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Change `lm`. Returns its steps, and how it went: seconds, steps, reached."""
        from core.training.unlearning import unlearn

        own = self.training["patient_id"] == self.found.patient
        forget = self.training.loc[own, "text"].tolist()
        report, begun = self._reporter(arm, "unlearning"), time.monotonic()
        report(0, settings.steps)
        done = unlearn(
            lm,
            forget,
            self.training.loc[~own, "text"].tolist(),
            settings,
            stop_loss=self._stop_loss(arm, lm, forget, settings.max_tokens),
            on_step=lambda step: report(step.step, settings.steps),
            should_stop=self.stop,
        )
        self._check_stop()
        steps = pd.DataFrame([(arm, one.step, one.forget_loss, one.retain_loss) for one in done.history])
        steps = steps.reindex(columns=range(4)).set_axis(["arm", "step", "forget_loss", "retain_loss"], axis=1)
        told = {"seconds": time.monotonic() - begun, "steps": len(done.history), "reached": done.reached}
        return steps.astype({"forget_loss": "float64", "retain_loss": "float64"}), told

    def _stop_loss(self, arm: str, lm: LanguageModel, forget: list[str], max_tokens: int) -> float:
        """Of the texts that unlearning reads, `forget` and others. `lm`: the run's model, not yet changed."""
        from core.attacks.forgetting import never_seen_loss, public_means, standing
        from core.training.unlearning import patient_loss

        public = self._public_model()
        if self.found.run.spec.defence is None:
            before = self.stored.table_of(ORIGINAL, "standing")
            assert before is not None  # the run itself was attacked first
        else:
            audit, report = self.found.run.spec.audit, self._reporter(arm, "reading notes")
            before = standing(lm, public_means(public, self.level, audit, report), audit, report)
        return never_seen_loss(patient_loss(public, forget, max_tokens), before)

    @staticmethod
    def _save(lm: LanguageModel, place: Path) -> None:
        private = is_private(make_folder(place.parent))
        with building(place.parent, private=private) as unfinished:
            lm.save(unfinished)
            publish(unfinished, place, lambda folder: False)  # the newest replaces an older one

    # Attacks -----------------------------------------------------------------------------------------------------

    def _tables(
        self, arm: str, key: str, lm: LanguageModel, run: Run | None, told: dict[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """The two attacks on one model."""
        from core.attacks import forgetting

        audit = self.found.run.spec.audit
        notes = forgetting.standing(lm, self._judged(), audit, self._reporter(arm, "reading notes"))
        never_seen = notes.loc[~notes["forgotten"], "patient_id"].unique().tolist()
        members = self.corpus.patients.loc[self.corpus.patients["split"] == "member", "patient_id"].tolist()
        texts = self._texts(arm, lm, run)
        shared = self.corpus.shared_values
        row = forgetting.written(texts, self.index, self.found.patient, never_seen, members, shared)
        made = {"arm": arm, "run_id": key, "seconds": None, "steps": None, "reached": None, **told}
        types = {"seconds": "float64", "steps": "Int64", "reached": "boolean", "patient_texts": "Int64"}
        writing = pd.DataFrame([{**made, **row}]).astype(types)
        return {"standing": notes.assign(arm=arm), "writing": writing}

    def _texts(self, arm: str, lm: LanguageModel, run: Run | None) -> pd.DataFrame:
        """The audit's texts: those that the run has stored, if they are as many and drawn alike; else written now."""
        from core.attacks import forgetting

        audit = self.found.run.spec.audit
        if (
            run is not None
            and not run.figures_only
            and run.spec.audit == audit
            and audit.samples_per_prompt >= self.samples
        ):
            return forgetting.first_texts(run.table("generations"), self.samples)
        return forgetting.writing(lm, audit, self.samples, self._reporter(arm, "writing texts"))

    def _judged(self) -> Judged:
        """The judged notes with the public model's means; read again in a comparison that goes on."""
        from core.attacks.forgetting import public_means

        if self.judged is None:
            report = self._reporter(PUBLIC, "reading notes")
            self.judged = public_means(self._public_model(), self.notes, self.found.run.spec.audit, report)
        return self.judged

    # State -------------------------------------------------------------------------------------------------------

    def _stamp(self, arm: str, key: str) -> str:
        """What an arm's result depends on; another stamp means that it has to be made again."""
        judged = [self.notes] if self.found.run.spec.defence is None else [self.notes, self.level]
        rows = "\0".join(pd.concat([one["note_id"] + "\1" + one["text"] for one in judged]))
        notes = hashlib.sha256(rows.encode("utf-8", "surrogatepass")).hexdigest()
        audit = self.found.run.spec.audit.model_dump(mode="json")
        on = {"arm": arm, "key": key, "samples": self.samples, "audit": audit, "notes": notes}
        if arm in APPROXIMATE and self.found.run.spec.model.kind in MASKED:
            on["stop"] = "the same masks"  # before, a masked model's stop rule compared losses under different ones
        return digest_of(on)

    def _is_done(self, arm: str, stamp: str) -> bool:
        one = self.stored.outcomes().get(arm)
        return one is not None and (one.state, one.version, one.message) == ("done", VERSION, stamp)

    def _record(self, arm: str, stamp: str, tables: dict[str, pd.DataFrame], begun: float) -> None:
        self._check_stop()
        seconds = round(time.monotonic() - begun, 3)
        self.stored.record(Outcome(arm, "done", seconds, stamp, tuple(tables), VERSION, time.time()), tables)

    def _reporter(self, arm: str, doing: str) -> Report:
        def report(done: int, total: int) -> None:
            self._check_stop()
            if self.on_progress is not None:
                self.on_progress(arm, doing, done, total)

        return report

    def _check_stop(self) -> None:
        if self.stop():
            raise Cancelled("Forgetting was cancelled; what had been measured is kept.")
