"""Small stores that the checks of faults are made on: a tiny hospital and runs of seconds."""

from __future__ import annotations

from pathlib import Path

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.pipeline.training_run import execute
from core.runs.ledger.entries import Ledger
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.uploads.deletion import keep
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, PrivacySpec, RunSpec, TrainingSpec

AUDIT = AuditSpec(samples_per_prompt=2, new_tokens=16, mask_draws=1, bootstrap=20)
OTHERS_WORD = "Qzadasecret7261"  # stands in every note of the other owner


def spec_of(corpus: CorpusSpec, epsilon: float | None = None) -> RunSpec:
    """The spec of a run of seconds."""
    return RunSpec(
        corpus=corpus,
        privacy=PrivacySpec(target_epsilon=epsilon, delta=1e-3),
        training=TrainingSpec(epochs=1, batch_size=16, max_tokens=64),
        audit=AUDIT,
    )


def make_runs(root: Path) -> list[Run]:
    """A run without and one with privacy on the `smoke` hospital, the latter released."""
    workspace = Workspace(root, shared=())
    return [execute(spec_of(CORPUS_PRESETS["smoke"], epsilon), workspace) for epsilon in (None, 8.0)]


def enter_release(root: Path, run: Run) -> None:
    """Enter a run in the ledger of its cohort."""
    ledger = Ledger.of(Workspace(root, shared=()), run.spec.corpus)
    ledger.enter(ledger.draft_run(run, "a test of kills"))


def upload_of(root: Path, beside: Path, owner: str) -> Run:
    """Notes that `owner` uploaded, each with OTHERS_WORD in it, and a run on them."""
    cohort = build(CORPUS_PRESETS["smoke"].model_copy(update={"seed": 77}))
    notes, patients = cohort.notes.copy(), cohort.patients.copy()
    notes["text"] = notes["text"] + f" {OTHERS_WORD}"  # at the end: places of identifiers stay
    assert cohort.spec is not None  # a synthetic cohort has one
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id(owner)})
    beside.mkdir(parents=True)
    Corpus(spec, patients, notes, cohort.canaries).write(beside)
    workspace = Workspace(root, shared=())
    kept = keep(workspace, beside, owner=owner, name=f"{OTHERS_WORD}.csv")
    return execute(spec_of(kept.spec), workspace)
