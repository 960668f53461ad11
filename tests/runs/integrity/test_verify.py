"""`python -m core verify`: every changed byte is found; what can be derived is rebuilt, the rest is put aside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from core.__main__ import main
from core.pipeline.full_audit import audit
from core.pipeline.repair import repair
from core.runs.audits import Outcome
from core.runs.integrity.checksums import FILE, Checksums
from core.runs.integrity.verify import damages
from core.runs.store import Workspace
from core.runs.uploads.deletion import delete, delete_orphans
from core.spec import PrivacySpec, RunSpec
from core.spec.schema import written

HOUR = 3600.0


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """The smoke runs, to be damaged."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def dp(workspace: Workspace, smoke_specs: dict[str, RunSpec]) -> Path:
    return workspace.run(smoke_specs["dp"].run_id).folder


def flip(path: Path) -> None:
    """Change one bit in the middle of a file, as a disk may."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_one_changed_bit_in_any_file_is_found_and_named(workspace: Workspace, dp: Path, smoke_specs) -> None:
    assert list(damages(workspace)) == []
    cohort = workspace.corpus_folder(smoke_specs["dp"].corpus)
    files = [path for folder in (dp, cohort) for path in folder.rglob("*") if path.is_file()]
    assert {"spec.json", "status.json", "privacy.json", "model.safetensors", "README.md", "notes.parquet"} <= {
        path.name for path in files
    }
    for path in files:
        whole = path.read_bytes()
        flip(path)
        (found,) = damages(workspace)
        folder = dp if path.is_relative_to(dp) else cohort
        if path.name != "checksums.json":  # a changed sum speaks of another file
            assert (found.name, list(found.files)) == (folder.name, [str(path.relative_to(folder))])
        path.write_bytes(whole)


def test_metrics_and_card_are_computed_again(workspace: Workspace, dp: Path) -> None:
    for name in ("tables/metrics.parquet", "README.md"):
        whole = (dp / name).read_bytes()
        (dp / name).write_bytes(b"")
        (found,) = damages(workspace)
        assert "is identical to what was written" in repair(found, workspace)
        assert (dp / name).read_bytes() == whole and list(damages(workspace)) == []


def test_metrics_are_not_made_of_damaged_tables(workspace: Workspace, dp: Path) -> None:
    for name in ("metrics", "scores"):
        (dp / "tables" / f"{name}.parquet").write_bytes(b"")
    (found,) = damages(workspace)
    assert "Moved to" in repair(found, workspace) and not dp.exists()


@pytest.mark.parametrize("file", ["tables/hits.parquet", "spec.json", "privacy.json", "model/model.safetensors"])
def test_what_cannot_be_derived_is_put_aside_and_never_invented(workspace: Workspace, dp: Path, file: str) -> None:
    flip(dp / file)
    kept = {path.relative_to(dp): path.read_bytes() for path in dp.rglob("*") if path.is_file()}
    (found,) = damages(workspace)
    assert "Moved to" in repair(found, workspace)
    (aside,) = (workspace.root / "damaged" / "runs").iterdir()
    assert aside.name.startswith(f"{dp.name}.") and not dp.exists()
    assert {path.relative_to(aside): path.read_bytes() for path in aside.rglob("*") if path.is_file()} == kept
    assert list(damages(workspace)) == [] and len(workspace.runs()) == 2


def test_new_checksums_do_not_vouch_for_a_run_that_cannot_be_used(workspace: Workspace, dp: Path) -> None:
    (dp / FILE).write_bytes(b"")
    (dp / "status.json").unlink()
    (found,) = damages(workspace)
    assert set(found.files) == {FILE, "status.json"}
    assert "Moved to" in repair(found, workspace) and not dp.exists()


def test_a_diary_is_put_aside_alone(workspace: Workspace, dp: Path) -> None:
    flip(dp / "events.jsonl")
    (found,) = damages(workspace)
    assert "works without it" in repair(found, workspace)
    assert workspace.run(dp.name).events() == [] and list(damages(workspace)) == []


def test_a_synthetic_cohort_is_made_again(workspace: Workspace, smoke_specs) -> None:
    folder = workspace.corpus_folder(smoke_specs["dp"].corpus)
    whole = (folder / "notes.parquet").read_bytes()
    flip(folder / "notes.parquet")
    (found,) = damages(workspace)
    assert "made again from its spec" in repair(found, workspace)
    assert (folder / "notes.parquet").read_bytes() == whole and list(damages(workspace)) == []


def test_an_audit_is_put_aside(workspace: Workspace, smoke_specs) -> None:
    run = workspace.run(smoke_specs["plain"].run_id)
    stored = audit(run, workspace, attacks=["loss"])
    (stored.folder / "tables" / "scores" / "loss.parquet").write_bytes(b"PAR1")
    (found,) = damages(workspace)
    assert found.kind == "audit" and "Audit the run again" in repair(found, workspace)
    assert workspace.audit(run.id).outcomes() == {} and list(damages(workspace)) == []


@pytest.mark.parametrize(("source", "goes"), [("secret", True), (None, False)])
def test_a_model_that_cannot_be_made_again_takes_its_audit_along(
    tmp_path: Path, source: str | None, goes: bool
) -> None:
    """Trained again with another key, the run would get the old model's results. A public seed gives the same model."""
    workspace = Workspace(tmp_path / "data", shared=())
    spec = RunSpec(privacy=PrivacySpec(target_epsilon=8.0, noise_source=source))
    folder = workspace.root / "runs" / spec.run_id
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text(written(spec))  # and nothing else is left
    workspace.begin_audit(spec.run_id, spec.corpus)
    workspace.audit(spec.run_id).record(Outcome("loss", "done", 1.0, "", (), 1, 1.0), {})
    (found,) = damages(workspace)
    assert ("Its audit is about this model alone" in repair(found, workspace)) == goes
    assert (workspace.audit(spec.run_id).outcomes() == {}) == goes and not folder.exists()
    assert (workspace.root / "damaged" / "audits").exists() == goes


def test_a_run_of_another_training_has_no_results_of_the_first(workspace: Workspace, smoke_specs) -> None:
    run = workspace.run(smoke_specs["dp"].run_id)
    for training in ("a" * 16, "b" * 16):
        privacy = run.privacy.model_copy(update={"training": training})
        (run.folder / "privacy.json").write_text(privacy.to_json(), encoding="utf-8")
        assert run.training == training and workspace.audit(run.id).outcomes() == {}
        workspace.audit(run.id).record(Outcome("loss", "done", 1.0, "", (), 1, 1.0), {})
        assert list(workspace.audit(run.id).outcomes()) == ["loss"]


def test_shipped_runs_are_checked_and_never_changed(workspace: Workspace, dp: Path, tmp_path: Path) -> None:
    for old in workspace.root.rglob("checksums.json"):  # as shipped ones are
        old.unlink()
    (dp / "tables" / "scores.parquet").write_bytes(b"nonsense")
    other = Workspace(tmp_path / "own", shared=[workspace.root])
    (found,) = damages(other)
    assert found.shipped and "read-only" in repair(found, other) and dp.exists()


def test_the_command_tells_repairs_and_says_by_its_exit_code(
    workspace: Workspace, dp: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(workspace.root))
    assert main(["verify"]) == 0 and "Nothing is damaged" in capsys.readouterr().out
    flip(dp / "tables" / "hits.parquet")
    (workspace.root / "uploads").mkdir()
    (workspace.root / "uploads" / "abcdefabcdef.json").write_bytes(b"")
    assert main(["verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["damaged"]
    assert dp.name in str(found) and "tables/hits.parquet" in str(found) and "abcdefabcdef.json" in str(found)
    assert main(["verify", "--repair"]) == 0
    said = capsys.readouterr().out
    assert "Moved to" in said and "Damaged: 2; left: 0" in said
    assert main(["verify"]) == 0


def test_a_private_run_goes_with_its_notes_also_when_its_spec_is_damaged_or_it_was_put_aside(
    workspace: Workspace, smoke_specs, tmp_path: Path
) -> None:
    from core.corpus.tables import Corpus
    from core.runs.integrity.checksums import take
    from core.runs.uploads.deletion import keep
    from core.runs.uploads.ownership import mark_run

    cohort = workspace.corpus(smoke_specs["plain"].corpus)
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id("ada")})
    (tmp_path / "made").mkdir()
    Corpus(spec, cohort.patients, cohort.notes, cohort.canaries).write(tmp_path / "made")
    upload = keep(workspace, tmp_path / "made", owner="ada", name="x")
    run = smoke_specs["plain"].model_copy(update={"corpus": spec})
    folders = [workspace.root / "runs" / run.run_id, workspace.root / "damaged" / "runs" / f"{run.run_id}.2026"]
    for folder in folders:
        shutil.copytree(workspace.run(smoke_specs["plain"].run_id).folder, folder)
        folder.chmod(0o700)
        (folder / "spec.json").write_text(run.model_dump_json())
        take(folder, spec)
        flip(folder / "spec.json")
        (folder / "spec.json").write_bytes(b"")
    marked, lost, of_a_command = (workspace.root / "runs" / f"gpt2-{12 * number}" for number in "123")
    for folder in (marked, lost, of_a_command):
        shutil.copytree(folders[0], folder)
        (folder / "checksums.json").write_bytes(b"")
    mark_run(marked, upload.digest)
    mark_run(lost, "")
    assert delete(workspace, upload.digest)
    assert not any(folder.exists() for folder in (*folders, marked))
    assert delete_orphans(workspace) == [], "nothing can be said about it, and its time is not over"
    long_ago = lost.stat().st_mtime - 25 * HOUR
    for folder in (lost, of_a_command):
        os.utime(folder, (long_ago, long_ago))
    assert delete_orphans(workspace) == [lost] and not lost.exists() and len(workspace.runs()) == 3
    assert of_a_command.exists(), "without a mark it may be of notes that a command brought"


@pytest.mark.parametrize("file", ["model/config.json", "privacy.json", "model/model.safetensors"])
def test_json_that_is_nested_too_deeply_is_a_damaged_file(workspace: Workspace, dp: Path, file: str) -> None:
    text = b"[" * 100_000
    header = len(text).to_bytes(8, "little") if file.endswith(".safetensors") else b""
    (dp / file).write_bytes(header + text)
    assert dp.name in {one.name for one in damages(workspace)}
    assert len(workspace.runs()) <= 4, "and no page fails for it"


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/spec.json", "tables/../../x", r"spec\u0000.json"])
def test_checksums_name_no_file_outside_their_folder(tmp_path: Path, name: str) -> None:
    given = Checksums(corpus="0" * 64, imported=False, sha256={"spec.json": "0" * 64})
    (tmp_path / FILE).write_text(given.model_dump_json().replace("spec.json", name), encoding="utf-8")
    assert Checksums.read(tmp_path) is None
    given.write(tmp_path)
    assert Checksums.read(tmp_path) == given


def test_a_pipe_in_place_of_a_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "spec.json")
    given = Checksums(corpus="0" * 64, imported=False, sha256={"spec.json": "0" * 64})
    assert given.damaged(tmp_path) == {"spec.json": "is not a regular file"}
