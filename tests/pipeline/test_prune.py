"""`store prune`: the dry run names exactly what is deleted, and nothing that cannot be made again goes unasked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from core.__main__ import main
from core.attacks.membership.reference import reference_names
from core.corpus.synthetic.hospital import build
from core.jobs.queues.shared import SharedQueue
from core.jobs.work import Work
from core.pipeline.full_audit import audit, target_of
from core.pipeline.prune import EVERYTHING, USUAL, plan, prune
from core.pipeline.shadows import folder_name, train_shadows
from core.runs.integrity.checksums import Checksums, take
from core.runs.integrity.verify import damages
from core.runs.ledger.entries import Ledger, LedgerBroken
from core.runs.ledger.totals import promised
from core.runs.lock import held
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, RunSpec

SMOKE = CORPUS_PRESETS["smoke"]
OTHER = SMOKE.model_copy(update={"seed": 3})
OTHER_RUN = RunSpec(corpus=OTHER)


@pytest.fixture(scope="module")
def original(made_once, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], mark_secret) -> Path:
    """Smoke runs (one is released), needed and unneeded models, an unused cohort, two works in progress; all old."""

    def make(root: Path) -> None:
        shutil.copytree(smoke_workspace, root, dirs_exist_ok=True)
        workspace, dp = Workspace(root, shared=()), smoke_specs["dp"]
        mark_secret(root, dp)
        take(root / "runs" / dp.run_id, dp.corpus)
        audit(workspace.run(dp.run_id), workspace, attacks=["ratio population"])
        train_shadows(target_of(workspace.run(smoke_specs["plain"].run_id), workspace), workspace, 1)
        for name in ("gpt2-0123456789ab", "shadows-gpt2-0123456789ab"):
            shutil.copytree(next((root / "references").glob(f"{name[:5]}*")), root / "references" / name)
        ledger = Ledger.of(workspace, dp.corpus)
        ledger.enter(ledger.draft_run(workspace.run(dp.run_id), "for a class"))
        workspace.add(build(OTHER))
        for seed in (7, 8):
            training = dp.training.model_copy(update={"seed": seed})
            work = workspace.begin(dp.model_copy(update={"training": training}))
            (work / "checkpoint").mkdir()
            (work / "checkpoint" / "state.safetensors").write_bytes(b"s" * 1000)
            (work / "noise.key").write_bytes(b"k" * 32)
        (work / "tables").mkdir()
        shutil.copy(root / "runs" / dp.run_id / "tables" / "history.parquet", work / "tables")

    return made_once("prune", make)


@pytest.fixture
def workspace(original: Path, tmp_path: Path) -> Workspace:
    copied = Workspace(shutil.copytree(original, tmp_path / "data"), shared=())
    age(copied.root)
    return copied


def age(folder: Path) -> None:
    """Make everything in a folder two months old."""
    for path in [folder, *folder.rglob("*")]:
        then = path.stat().st_mtime - 60 * 86_400
        os.utime(path, (then, then))


def files(root: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}


def asked(capsys: pytest.CaptureFixture[str], root: Path, *options: str, code: int = 0) -> dict:
    assert main(["store", "prune", "--data", str(root), "--json", *options]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("what", [USUAL, EVERYTHING, *((one,) for one in EVERYTHING)], ids="-".join)
def test_the_dry_run_names_exactly_what_is_deleted_and_how_much_that_frees(workspace, what, capsys) -> None:
    options = [part for one in what for part in ("--what", one)]
    before = files(workspace.root)
    said = asked(capsys, workspace.root, *options, "--dry-run")
    assert files(workspace.root) == before and said["deleted"] == [] and said["planned"]
    done = asked(capsys, workspace.root, *options, "--yes")
    assert done["deleted"] == done["planned"] == said["planned"] and done["bytes"] == said["bytes"]
    after = files(workspace.root)
    gone = {path: size for path, size in before.items() if path not in after}
    named = [Path(one["folder"]) for one in said["planned"]]
    unnamed = [path for path in gone if not any(path.is_relative_to(folder) for folder in named)]
    assert all(path.name == "noise.key" for path in unnamed), "a key goes with its checkpoint"
    assert sum(size for path, size in gone.items() if path not in unnamed) == said["bytes"] > 0
    assert {path for path in after if any(path.is_relative_to(folder) for folder in named)} == set()
    assert list(damages(workspace)) == []
    assert asked(capsys, workspace.root, *options)["planned"] == []


def test_what_is_needed_stays(workspace, smoke_specs) -> None:
    dp, plain = (workspace.run(smoke_specs[name].run_id) for name in ("dp", "plain"))
    total = promised(Ledger.of(workspace, SMOKE).releases(), "note")
    names = reference_names(target_of(dp, workspace)) | {folder_name(plain.spec)}
    metrics = {run.id: run.metrics for run in workspace.runs()}
    prune(workspace, plan(workspace, EVERYTHING))
    assert {path.name for path in (workspace.root / "references").glob("[gs]*")} <= names
    assert len(list((workspace.root / "references").glob("[gs]*"))) == 2
    assert workspace.corpus_folder(SMOKE) is not None and workspace.corpus_folder(OTHER) is None
    assert promised(Ledger.of(workspace, SMOKE).releases(), "note") == total
    assert workspace.run(dp.id).has_model and not workspace.run(plain.id).has_model, "the released one stays"
    assert all(workspace.run(run_id).metrics.equals(frame) for run_id, frame in metrics.items())
    assert workspace.works() == []


def test_weights_go_only_if_they_are_named(workspace, smoke_specs, capsys) -> None:
    assert main(["store", "prune", "--yes", "--data", str(workspace.root)]) == 0
    assert "Not chosen: 1 of the kind weights" in capsys.readouterr().out
    assert workspace.run(smoke_specs["plain"].run_id).has_model


def test_a_cohort_with_a_ledger_stays_without_runs(workspace) -> None:
    shutil.rmtree(workspace.root / "runs")
    shutil.rmtree(workspace.root / "work")
    assert [one.name for one in plan(workspace, ["cohorts"])] == [OTHER.digest()]
    shutil.rmtree(workspace.root / "ledger")
    assert {one.name for one in plan(workspace, ["cohorts"])} == {OTHER.digest(), SMOKE.digest()}


def test_imported_notes_stay_whatever_uses_them(workspace) -> None:
    corpus = workspace.corpus(OTHER)
    spec = OTHER.model_copy(update={"imported": corpus.content_id()})
    workspace.add(type(corpus)(spec, corpus.patients, corpus.notes, corpus.canaries))
    age(workspace.root / "corpora")
    assert spec.digest() not in {one.name for one in plan(workspace, EVERYTHING)}


def test_what_is_new_or_in_use_stays(workspace, smoke_specs) -> None:
    assert [one.what for one in plan(workspace, EVERYTHING, days=90)] == ["checkpoints"], "of no use at any age"
    (one, other) = workspace.works()
    with held(workspace.lock_file(one.name), should_stop=lambda: False):
        assert [found.name for found in plan(workspace, ["work"])] == [other.name]
    planned = plan(workspace, ["work"])
    with held(workspace.lock_file(one.name), should_stop=lambda: False):
        assert [found.name for found in prune(workspace, planned)] == [other.name], "it was begun meanwhile"
    assert (one / "noise.key").exists() and not other.exists()


def test_what_waits_at_a_server_that_lives_stays(workspace, capsys) -> None:
    (one, other) = workspace.works()
    server = SharedQueue(workspace.root)
    server.publish([(one.name, None)])
    options = ("--what", "work")
    assert [found["name"] for found in asked(capsys, workspace.root, *options)["planned"]] == [other.name]
    server.close()
    planned = asked(capsys, workspace.root, *options)["planned"]
    assert {found["name"] for found in planned} == {one.name, other.name}


def test_a_damaged_ledger_stops_everything(workspace) -> None:
    (entry,) = (workspace.root / "ledger").glob("*/0001.json")
    entry.write_text("{}", encoding="utf-8")
    before = files(workspace.root)
    with pytest.raises(LedgerBroken, match="Restore the file"):
        plan(workspace, USUAL)
    assert main(["store", "prune", "--yes", "--data", str(workspace.root)]) == 2 and files(workspace.root) == before


def test_what_another_process_deletes_or_finishes_meanwhile_stops_nothing(workspace, monkeypatch) -> None:
    planned = plan(workspace, EVERYTHING)
    assert prune(workspace, planned) == planned == prune(workspace, planned), "as two commands at once do"
    assert list(damages(workspace)) == []
    real, gone = Path.rglob, []

    def moved(folder: Path, pattern: str):
        for path in real(folder, pattern):
            yield path
            if folder.parent.name == "work" and folder.exists():
                gone.append(folder)
                shutil.rmtree(folder)

    work = workspace.begin(OTHER_RUN)
    monkeypatch.setattr(Path, "rglob", moved)
    assert plan(workspace, ["work"], days=0) == [] and gone == [work]


def test_weights_that_go_while_they_are_verified_are_no_damage(workspace, smoke_specs, monkeypatch) -> None:
    plain = workspace.run(smoke_specs["plain"].run_id)
    (planned,) = (one for one in plan(workspace, ["weights"]) if one.name == plain.id)
    real = Checksums.damaged

    def meanwhile(taken: Checksums, folder: Path) -> dict[str, str]:
        if folder == plain.folder:
            prune(workspace, [planned])
        return real(taken, folder)

    monkeypatch.setattr(Checksums, "damaged", meanwhile)
    assert list(damages(workspace)) == [] and not planned.folder.exists()
    (plain.folder / "README.md").unlink()
    assert [one.files for one in damages(workspace)] == [{"README.md": "is missing"}]


def test_what_comes_into_use_between_the_plan_and_the_deletion_stays(tmp_path: Path) -> None:
    """Interrupted work may be submitted again, and a reference model that no run needed may be wanted by a new one."""
    workspace = Workspace(tmp_path, shared=())
    work, reference = workspace.begin(OTHER_RUN), tmp_path / "references" / "gpt2-0123456789ab"
    reference.mkdir(parents=True)
    age(tmp_path)
    planned = plan(workspace, ["work", "references"])
    assert [one.folder for one in planned] == [work, reference]
    submitted = Work(workspace, OTHER_RUN.run_id).queue(OTHER_RUN)
    with held(reference / ".training.lock", should_stop=lambda: True):
        assert prune(workspace, planned) == []
    status = Work(workspace, OTHER_RUN.run_id).status()
    assert status is not None and status.submitted == submitted and reference.exists()
    age(tmp_path)
    assert [one.folder for one in prune(workspace, plan(workspace, ["work", "references"]))] == [work, reference]
