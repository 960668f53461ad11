"""Shadow models for LiRA (`core.attacks.membership.shadow_models`): trained as a run was, on other patients' notes.

Only what each model says of the notes is kept, one small file a model, so that a stopped command goes on where it was
and two processes share the work. The files depend on the cohort and the recipe, not on the run's training seed: runs
that differ in the seed alone share them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from core.attacks.membership.decision import LOSS
from core.attacks.registry import MASKED
from core.common.errors import Cancelled
from core.common.files import make_folder, replaced
from core.common.randomness import PublicSeed
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import TableMissing
from core.runs.uploads.deletion import until_deleted
from core.spec import RunSpec

if TYPE_CHECKING:
    from core.attacks.membership.shadow_scores import ShadowScores
    from core.attacks.registry import Target
    from core.evaluation.membership.lira_stability import Stability

FIRST_SEED = 1_000  # of the shadow models' training, away from the seeds of runs
ModelReport = Callable[[int, int, int], None]  # (number of the model, step, steps)


def folder_name(spec: RunSpec) -> str:
    """The name of the folder of a run's shadow models: their kind and everything they depend on."""
    training = spec.training.model_copy(update={"seed": 0})
    return f"shadows-{spec.model.kind}-{spec.model_copy(update={'training': training}).digest()}"


def folders(spec: RunSpec, workspace: Workspace) -> list[Path]:
    """Where shadow models of runs like this one are looked for: here first, then among the shipped ones."""
    here = workspace.references(spec.corpus)
    return [here / folder_name(spec), *(one / "references" / folder_name(spec) for one in workspace.shared)]


def made(spec: RunSpec, workspace: Workspace) -> dict[int, Path]:
    """The files of all shadow models that there are, by the model's number."""
    found: dict[int, Path] = {}
    for folder in folders(spec, workspace):
        for file in sorted(folder.glob("[0-9][0-9][0-9][0-9].safetensors")):
            found.setdefault(int(file.stem), file)
    return dict(sorted(found.items()))


def scores(target: Target, files: dict[int, Path]) -> ShadowScores:
    """What the shadow models say of the audit's evaluation notes.

    Raises:
        ValueError: a file cannot be read, or is about other notes.
    """
    from core.attacks.evaluation_set import evaluation_notes

    return stored_scores(evaluation_notes(target), files)


def stored_scores(notes: pd.DataFrame, files: dict[int, Path]) -> ShadowScores:
    """What the shadow models say of `notes`, the audit's evaluation notes in their order (columns note_id and text).

    Raises:
        ValueError: a file cannot be read, or is about other notes.
    """
    from core.attacks.membership.shadow_scores import ShadowScores

    about, rows = _fingerprint(notes), []
    for file in files.values():
        try:
            with safe_open(file, "numpy") as stored:
                told, row = stored.metadata(), (stored.get_tensor("likelihoods"), stored.get_tensor("inside"))
        except (OSError, SafetensorError) as error:
            raise ValueError(f"The shadow model's file {file} cannot be read. Delete it and train it again.") from error
        if told.get("notes") != about:
            raise ValueError(f"The shadow model's file {file} is about other notes. Delete it and train it again.")
        rows.append(row)
    empty = np.empty((0, len(notes)))
    return ShadowScores(
        likelihoods=np.stack([one.astype(float) for one, _ in rows]) if rows else empty,
        inside=np.stack([one.astype(bool) for _, one in rows]) if rows else empty.astype(bool),
    )


def train_shadows(
    target: Target,
    workspace: Workspace,
    count: int,
    *,
    on_progress: ModelReport | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> dict[int, Path]:
    """Train the shadow models 0 … `count` − 1 of a run that are missing. Returns the files of all that there are.

    A model that another process is training is left to it. `on_progress(number, step, steps)` is called in training.

    Raises:
        ValueError: a sentence: the run is the public model, or its settings cannot be trained.
        Cancelled: `should_stop` returned True; models that were finished are kept.
        DiskFull: A file could not be stored.
    """
    spec = target.spec
    if spec.is_base:
        raise ValueError("The public model read no patient's notes, so it has no shadow models. Choose another run.")
    folder = folders(spec, workspace)[0]
    stop = until_deleted(workspace, spec.corpus, should_stop)
    with full_disk_as_sentence(f"the shadow models of run {spec.run_id}", folder):
        private = spec.corpus.imported is not None
        make_folder(folder.parent, private=private)
        make_folder(folder, private=private)
        for number in range(count):
            if number in made(spec, workspace):
                continue
            with held(folder / f".{number:04d}.lock", should_stop=lambda: True) as holding:
                if holding and number not in made(spec, workspace):
                    _train(target, number, folder, on_progress, stop)
    return made(spec, workspace)


def _train(
    target: Target, number: int, folder: Path, on_progress: ModelReport | None, stop: Callable[[], bool]
) -> None:
    """Train one shadow model and keep what it says of the evaluation notes."""
    from core.attacks.evaluation_set import evaluation_notes, mean_log_likelihoods_under
    from core.corpus.transforms.defences import defended
    from core.training.trainer import train

    notes, spec = shadow_notes(target, number), target.spec
    training = spec.training.model_copy(update={"seed": FIRST_SEED + number})
    lm = target.public()
    train(
        lm,
        defended(notes, spec.defence),
        training,
        # The run's noise, but not the limit that it holds: these are fewer notes, and nothing is promised about them.
        spec.privacy.model_copy(update={"noise_source": None, "risk_limit": None}),
        on_step=lambda event: on_progress(number, event.step, event.steps) if on_progress is not None else None,
        should_stop=stop,
        randomness=PublicSeed(training.seed),
    )
    if stop():
        raise Cancelled("Training of shadow models was cancelled; those that were finished are kept.")
    judged = evaluation_notes(target)
    found = {
        "likelihoods": mean_log_likelihoods_under(lm, target).astype(np.float32),
        "inside": judged["note_id"].isin(set(notes["note_id"])).to_numpy().astype(np.uint8),
    }
    private = spec.corpus.imported is not None
    with replaced(folder / f"{number:04d}.safetensors", private=private) as unfinished:
        unfinished.write_bytes(save(found, metadata={"notes": _fingerprint(judged)}))


def shadow_notes(target: Target, number: int) -> pd.DataFrame:
    """The notes that shadow model `number` reads: some members' and held-out patients', and the canaries'.

    The cap on a patient's notes is the run's. So is the defence, which changes them before training; a note that
    deduplication removes counts as read, because a copy of it was.
    """
    from core.attacks.membership.shadow_models import left_out

    corpus, spec = target.corpus, target.spec
    notes = corpus.notes_of("member", "heldout", "canary")
    patients = notes.loc[notes["split"] != "canary", "patient_id"].unique().tolist()
    notes = notes[~notes["patient_id"].isin(left_out(patients, spec.audit.seed, number))]
    if spec.note_cap is not None:
        notes = notes[notes.groupby("patient_id", sort=False).cumcount() < spec.note_cap]
    return notes.reset_index(drop=True)


def _fingerprint(notes: pd.DataFrame) -> str:
    """What identifies the notes and their order."""
    rows: Iterator[str] = (f"{note}\1{text}" for note, text in zip(notes["note_id"], notes["text"], strict=True))
    return hashlib.sha256("\0".join(rows).encode("utf-8", "surrogatepass")).hexdigest()


# How much depends on them ---------------------------------------------------------------------------------------------


def of_other_seeds(run: Run, workspace: Workspace) -> list[Run]:
    """The other runs of the same shadow models, which differ from it in the training's seed alone, by seed."""
    name = folder_name(run.spec)
    alike = [
        one for one in workspace.runs() if one.id != run.id and not one.spec.is_base and folder_name(one.spec) == name
    ]
    return sorted(alike, key=lambda one: (one.spec.training.seed, one.id))


def lira_stability(run: Run, workspace: Workspace) -> Stability | None:
    """How much LiRA depends on the shadow models and the seed, from stored files; None if there are not two models.

    Besides the run it attacks every run of the same shadow models that has stored the loss of all these notes under the
    same masks: they differ from it in the training's seed alone.

    Raises:
        ValueError: a shadow model's file cannot be read, or is about other notes.
        AuditBroken: a stored audit is damaged.
    """
    from core.evaluation.membership.lira_stability import stability

    files = made(run.spec, workspace)
    losses = _losses(run, workspace)
    if len(files) < 2 or losses is None:
        return None
    texts = run.as_read(workspace.corpus(run.spec.corpus, store=False)).notes.set_index("note_id")["text"]
    scores = stored_scores(losses.assign(text=losses["note_id"].map(texts)), files)
    judged = np.asarray(scores.inside.any(axis=0))  # no model reads the population, or a patient's notes beyond the cap
    notes = losses[judged].reset_index(drop=True)
    own = {run.id: (run.spec.training.seed, notes["score"].to_numpy(dtype=float))}
    for other in of_other_seeds(run, workspace):
        found = _aligned(other, workspace, notes)
        if found is not None:
            own[other.id] = (other.spec.training.seed, found)
    audit = run.spec.audit
    return stability(notes, own, scores.of(judged), resamples=audit.bootstrap, seed=audit.seed)


def _losses(run: Run, workspace: Workspace) -> pd.DataFrame | None:
    """The loss attack's rows of the run's full audit, which has the shadow models' notes in their order."""
    found = workspace.audit(run.id).table_of(LOSS, "scores")
    return None if found is None or found.empty else found


def _aligned(run: Run, workspace: Workspace, notes: pd.DataFrame) -> np.ndarray | None:
    """The mean log-likelihoods of these notes under another run, by its audit or own table; None if one is missing.

    A masked model's own table does not count: its quick audit hid other words than the shadow models were asked for.
    """
    found = _losses(run, workspace)
    if found is None:
        if run.spec.model.kind in MASKED:
            return None
        try:
            quick = run.table("scores")
        except TableMissing:
            return None
        found = quick[quick["attack"] == LOSS]
    by_note = found.drop_duplicates("note_id").set_index("note_id")["score"]
    values = by_note.reindex(notes["note_id"]).to_numpy(dtype=float)
    return values if np.isfinite(values).all() else None
