"""Whatever holds brought notes, or was made from them, can be opened by no other account of the computer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from core.attacks.membership.reference import _store
from core.cli.import_notes import write_imported
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.models.build import load
from core.pipeline.training_run import execute
from core.runs.audits import Outcome
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.runs.uploads.deletion import keep
from core.runs.uploads.scratch import Scratch
from core.spec import CORPUS_PRESETS, AuditSpec, CorpusSpec, RunSpec, TrainingSpec

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
STRANGER = 65534  # the account `nobody`
AUDIT = AuditSpec(samples_per_prompt=1, new_tokens=8, mask_draws=1, bootstrap=10)
TRAINING = TrainingSpec(epochs=2, batch_size=4, max_tokens=64)
TINY = CorpusSpec(patients=8, population=0, notes_per_patient=1, canaries=0, canary_patients=0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every account can enter (pytest's own are private), written to with the widest umask."""
    before = os.umask(0)
    made = Path(tempfile.mkdtemp(prefix="philab-store-"))
    made.chmod(0o755)
    try:
        yield made
    finally:
        os.umask(before)
        shutil.rmtree(made, ignore_errors=True)


def readable(folder: Path) -> set[Path]:
    """Files that another account can read: found by one, where this process may become it, else by their modes."""
    if os.geteuid() == 0:
        found = subprocess.run(  # noqa: S603
            ["/usr/bin/find", str(folder), "-type", "f", "-readable", "-print0"],
            capture_output=True,
            text=True,
            check=False,
            user=STRANGER,
            group=STRANGER,
            extra_groups=[],
        )
        return {Path(name) for name in found.stdout.split("\0") if name}
    return {path for path in folder.rglob("*") if path.is_file() and _open_to_others(path, folder)}


def _open_to_others(path: Path, folder: Path) -> bool:
    ways = [parent for parent in path.parents if parent.is_relative_to(folder)]
    return bool(path.stat().st_mode & 0o004) and all(parent.stat().st_mode & 0o001 for parent in ways)


def loose(folder: Path) -> list[Path]:
    """Files and folders with any permission for other accounts, whether or not they can be reached."""
    return [path for path in [folder, *folder.rglob("*")] if path.stat().st_mode & 0o077]


def imported(owner: str, spec: CorpusSpec = TINY) -> Corpus:
    cohort = build(spec)
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id(owner)})
    return Corpus(spec, cohort.patients, cohort.notes, cohort.canaries)


def test_no_other_account_reads_brought_notes_or_what_was_made_from_them(folder: Path) -> None:
    """A cohort by upload, a training at each of its moments, its run, audit, reference model, release and scratch."""
    workspace = Workspace(folder / "data", shared=())
    workspace.corpus(CORPUS_PRESETS["smoke"])
    public = readable(folder)
    assert {path.name for path in public} >= {"notes.parquet"}, "the control: a synthetic cohort is for everybody"
    cohort = imported("ada")
    scratch = Scratch(workspace.root)
    (scratch.path / "notes.csv").write_text("somebody's notes")
    (scratch.path / "cohort").mkdir()
    cohort.write(scratch.path / "cohort")
    assert readable(folder) == public
    keep(workspace, scratch.path / "cohort", owner="ada", name="ward 7")
    seen: dict[str, set[Path]] = {}
    spec = RunSpec(corpus=cohort.spec, audit=AUDIT, training=TRAINING)
    run = execute(
        spec, workspace, on_event=lambda event: seen.setdefault(str(sorted(event.items())), readable(folder) - public)
    )
    assert len(seen) > 5 and not any(seen.values()), "while it was trained"
    workspace.audit(run.id).record(Outcome("loss", "done", 1.0, "", ("scores",), 1, 0.0), {"scores": cohort.notes})
    workspace.begin_audit(run.id, spec.corpus)
    _store(load(spec.model), workspace.references(spec.corpus) / "gpt2-0", private=True)
    ledger = Ledger.of(workspace, spec.corpus)
    ledger.enter(ledger.draft_run(run, "a release"))
    assert readable(folder) == public
    data = workspace.root
    private = [
        data / "uploads",
        data / "ledger",
        data / "corpora" / spec.corpus.digest(),
        run.folder,
        data / "runs" / spec.base_spec().run_id,
        data / "references" / spec.corpus.digest(),
    ]
    assert [path for one in private for path in loose(one) if path.name != "notes.csv"] == []
    scratch.cleanup()


def test_notes_brought_by_command_are_private_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = imported("", CORPUS_PRESETS["smoke"]).notes
    source = folder / "ward.csv"
    notes[notes["split"] != "canary"][["patient_id", "text"]].to_csv(source, index=False)
    source.chmod(0o600)
    write_imported(source, folder / "out", seed=0, given={}, as_json=True)
    assert readable(folder) == set() and loose(folder / "out") == []
    Workspace(folder / "data", shared=()).add(Corpus.read(folder / "out"))
    assert readable(folder) == set()


def test_a_store_of_an_earlier_version_is_tightened_when_it_is_opened(folder: Path) -> None:
    data = folder / "data"
    cohort = imported("ada")
    spec = RunSpec(corpus=cohort.spec)
    synthetic = RunSpec(corpus=CORPUS_PRESETS["smoke"])
    ours = [
        f"corpora/{cohort.spec.digest()}",
        f"runs/{spec.run_id}",
        f"work/{spec.run_id}",
        f"audits/{spec.run_id}",
        f"references/{cohort.spec.digest()}",
        "uploads",
        f"ledger/{cohort.spec.digest()}",
    ]
    for name in [*ours, f"runs/{synthetic.run_id}"]:
        (data / name / "deep").mkdir(parents=True)
        (data / name / "deep" / "file").write_text("a secret")
        of = synthetic if synthetic.run_id in name else spec
        (data / name / "spec.json").write_text((of.corpus if "corpora" in name else of).model_dump_json())
    (data / "uploads" / f"{cohort.spec.digest()}.json").write_text('{"owner": "session-1234"}')
    (data / f"runs/{'gpt2-' + 12 * '0'}").mkdir()
    (data / f"runs/{'gpt2-' + 12 * '0'}" / "notes").write_text("whose is unknown")
    assert len(readable(folder)) == 18
    command = [sys.executable, "-m", "core", "runs", "--data", str(data)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603
    assert {path.parent for path in readable(folder)} == {
        data / "runs" / synthetic.run_id,
        data / "runs" / synthetic.run_id / "deep",
    }
    assert [path for name in ours for path in loose(data / name)] == []


@pytest.mark.parametrize("shared", [None, ()], ids=["usual", "without shipped runs"])
def test_the_audit_of_a_shipped_run_keeps_its_permissions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, shared: tuple[Path, ...] | None
) -> None:
    """The app and its workers may run under different accounts. The run itself is not in the data folder."""
    data, run_id = folder / "data", RunSpec(corpus=CORPUS_PRESETS["smoke"]).run_id
    shipped = folder / "shipped" / "runs" / run_id
    for place in (shipped, data / "audits" / run_id, data / "audits" / f"gpt2-{12 * '0'}"):
        place.mkdir(parents=True)
        (place / "attacks.json").write_text("[]")
    (shipped / "spec.json").write_text(RunSpec(corpus=CORPUS_PRESETS["smoke"]).model_dump_json())
    monkeypatch.setenv("PHILAB_SHIPPED", str(folder / "shipped"))
    Workspace(data, shared=shared)
    assert loose(data / "audits" / run_id) and not loose(data / "audits" / f"gpt2-{12 * '0'}")


def test_a_report_on_brought_notes_is_private(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from core.cli.report import _write

    for private in (True, False):
        _write(folder / f"{private}.html", b"<html>", private=private)
    assert readable(folder) == {folder / "False.html"}


def test_tables_written_into_a_private_folder_are_private(folder: Path) -> None:
    from core.runs.tables import write_table

    work = Workspace(folder / "data", shared=()).begin(RunSpec(corpus=imported("ada").spec))
    write_table(work / "tables", "hits", pd.DataFrame())
    assert loose(work) == []
