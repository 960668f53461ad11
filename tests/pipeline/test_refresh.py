"""`python -m core refresh`: outdated figures are made again from stored tables, and nothing else changes."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from core.__main__ import main
from core.demo.export import export_run
from core.evaluation import registry
from core.phi.fields import FIELDS
from core.pipeline.full_audit import audit, open_figures
from core.pipeline.prune import plan, prune
from core.pipeline.refresh import refresh
from core.pipeline.repair import repair
from core.pipeline.utility import add
from core.runs.integrity.checksums import Checksums, take
from core.runs.integrity.verify import damages
from core.runs.lock import held
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import table_version, write_table
from core.spec import CorpusSpec

METRICS = "tables/metrics.parquet"


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The smoke runs, whose figures may be made again."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> int:
    """Figures are made as of a version that is one higher."""
    version = registry.version() + 1
    monkeypatch.setattr("core.evaluation.registry.version", lambda imported=False: version)
    return version


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def version_of(folder: Path) -> int:
    return table_version(folder / "tables", "metrics")


def told(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_what_is_up_to_date_is_left_alone(workspace, smoke_specs, capsys):
    before = {run.id: files(run.folder) for run in workspace.runs()}
    assert main(["refresh", "--json"]) == 0
    said = told(capsys)
    assert {one["state"] for one in said["runs"]} == {"up to date"} and len(said["runs"]) == 3
    assert said["version"] == registry.version() and said["version_imported"] == registry.version(imported=True)
    assert {run.id: files(run.folder) for run in workspace.runs()} == before


def test_outdated_figures_are_made_again_and_everything_else_stays(workspace, smoke_specs, newer, capsys):
    dp = workspace.run(smoke_specs["dp"].run_id)
    before, metrics = files(dp.folder), dp.metrics
    assert version_of(dp.folder) == newer - 1
    assert main(["refresh", dp.id]) == 0
    text = capsys.readouterr().out
    assert text == f"{dp.id}: Made again: metrics and model card (version {newer - 1} before, {newer} now).\n"
    after = files(dp.folder)
    assert version_of(dp.folder) == newer and dp.metrics.equals(metrics), "the arithmetic is the same"
    assert {name for name in before | after if before.get(name) != after.get(name)} == {METRICS, "checksums.json"}
    assert list(damages(workspace)) == [], "the checksums are those of the new files"
    others = [run for run in workspace.runs() if run.id != dp.id]
    assert [version_of(run.folder) for run in others] == [newer - 1] * 2
    assert main(["refresh"]) == 0 and {version_of(run.folder) for run in workspace.runs()} == {newer}
    capsys.readouterr()
    assert main(["refresh", "--json"]) == 0 and {one["state"] for one in told(capsys)["runs"]} == {"up to date"}


def test_a_run_with_figures_only_stays_as_it_is(workspace, smoke_specs, newer, tmp_path):
    """The folder of such a run stands in the workspace itself, so that it is not read-only because it was shipped."""
    for kind in ("base", "dp"):
        export_run(workspace, smoke_specs[kind], tmp_path / "out")
    own = Workspace(tmp_path / "out", shared=())
    dp = own.run(smoke_specs["dp"].run_id)
    before = files(dp.folder)
    assert dp.figures_only and not dp.shipped
    done = refresh(dp, own)
    assert (done.state, done.version) == ("read-only", newer - 1)
    assert done.sentence.startswith("It has figures only, so they cannot be computed again")
    assert files(dp.folder) == before


def test_what_was_interrupted_goes_on(workspace, smoke_specs, newer, monkeypatch):
    """The process ends after the metrics, and before the card and the checksums, are written."""
    dp = workspace.run(smoke_specs["dp"].run_id)
    with monkeypatch.context() as patched:
        patched.setattr("core.pipeline.derived.write_card", _ended)
        with pytest.raises(KeyboardInterrupt):
            refresh(dp, workspace)
    assert version_of(dp.folder) == newer and list(damages(workspace)), "metrics are whole, and checksums older"
    assert refresh(dp, workspace).state == "made again" and list(damages(workspace)) == []
    assert refresh(dp, workspace).state == "up to date"


def test_weights_are_not_pruned_under_a_refresh(workspace, smoke_specs, newer, monkeypatch):
    """Both write the run's checksums: the last ones must not name weights that the other has deleted."""
    plain = workspace.run(smoke_specs["plain"].run_id)
    (planned,) = (one for one in plan(workspace, ["weights"], days=0) if one.name == plain.id)
    deleted, write = [], Checksums.write

    def between(taken: Checksums, folder: Path) -> None:
        if not deleted:  # the refresh has read every file
            deleted.append(None)
            deleted.extend(prune(workspace, [planned]))
        write(taken, folder)

    monkeypatch.setattr(Checksums, "write", between)
    assert refresh(plain, workspace).state == "made again"
    assert list(damages(workspace)) == [] and deleted == [None], "the weights are in use"
    assert prune(workspace, [planned]) == [planned] and list(damages(workspace)) == []


def test_a_run_that_another_process_works_on_is_not_refreshed(workspace, smoke_specs, newer):
    dp = workspace.run(smoke_specs["dp"].run_id)
    before = files(dp.folder)
    with held(workspace.audit_lock_file(dp.id), should_stop=lambda: False):
        done = refresh(dp, workspace)
    assert (done.state, done.version) == ("failed", newer - 1) and "Try again once that has ended." in done.sentence
    assert files(dp.folder) == before and refresh(dp, workspace).state == "made again"


def _ended(*_):
    raise KeyboardInterrupt


def test_shipped_runs_are_named_and_never_changed(workspace, smoke_specs, newer, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PHILAB_SHIPPED", str(workspace.root))
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "own"))
    before = files(workspace.root)
    assert main(["refresh", "--json"]) == 0
    said = told(capsys)["runs"]
    assert len(said) == 3 and {one["state"] for one in said} == {"read-only"}
    assert all("came with the software" in one["sentence"] and one["version"] == newer - 1 for one in said)
    assert files(workspace.root) == before


def test_nothing_is_made_of_damaged_tables(workspace, smoke_specs, newer, capsys):
    dp = workspace.run(smoke_specs["dp"].run_id)
    scores = dp.table("scores")
    write_table(dp.folder / "tables", "scores", scores.iloc[:-1])  # it can be read, and is not what was written
    before = files(dp.folder)
    assert main(["refresh", "--json"]) == 1
    said = {one["run"]: one for one in told(capsys)["runs"]}
    assert said[dp.id]["state"] == "failed"
    assert "tables/scores.parquet is not what was written" in said[dp.id]["sentence"]
    assert files(dp.folder) == before and version_of(dp.folder) == newer - 1
    assert [one["state"] for name, one in said.items() if name != dp.id] == ["made again"] * 2, "one costs no other"


def test_without_the_control_nothing_is_made(workspace, smoke_specs, newer):
    plain = workspace.run(smoke_specs["plain"].run_id)
    shutil.rmtree(workspace.run(smoke_specs["base"].run_id).folder)
    done = refresh(plain, workspace)
    assert (done.state, done.version) == ("failed", newer - 1) and smoke_specs["base"].run_id in done.sentence


def test_figures_of_newer_software_are_left_alone(workspace, smoke_specs):
    dp = workspace.run(smoke_specs["dp"].run_id)
    write_table(dp.folder / "tables", "metrics", dp.metrics, version=7)
    before = files(dp.folder)
    done = refresh(dp, workspace)
    assert (done.state, done.version) == (
        "newer",
        7,
    ) and f"this software makes version {registry.version()}" in done.sentence
    assert files(dp.folder) == before


def test_figures_of_a_full_audit_follow_the_metrics(workspace, smoke_specs, newer):
    """Those that the metrics enter, and those that are outdated themselves; no attack is run again."""
    plain = workspace.run(smoke_specs["plain"].run_id)
    attacks = audit(plain, workspace, attacks=["loss"]).outcomes()
    done = refresh(plain, workspace)
    assert done.state == "made again" and "metrics and model card" in done.sentence and "“risk”" in done.sentence
    after = workspace.audit(plain.id).outcomes()
    assert after["loss"] == attacks["loss"] and after["summary: membership"] == attacks["summary: membership"]
    assert after["summary: risk"].finished > attacks["summary: risk"].finished
    assert open_figures(plain, workspace) == [] and refresh(plain, workspace).state == "up to date"


@pytest.mark.parametrize("way", ["utility", "repair"])
def test_whatever_makes_the_metrics_again_has_the_audits_figures_of_them_made_again(workspace, smoke_specs, newer, way):
    plain = workspace.run(smoke_specs["plain"].run_id)
    audit(plain, workspace, attacks=["loss"])
    before = workspace.audit(plain.id).outcomes()["summary: risk"]
    if way == "utility":
        for run in (plain, workspace.control(plain.spec)):  # as an earlier version left them
            (run.folder / "tables" / "utility.parquet").unlink()
            take(run.folder, run.spec.corpus)
        assert add(workspace.run(plain.id), workspace)
    else:
        (plain.folder / METRICS).write_bytes(b"")
        (damage,) = damages(workspace)
        assert "computed again" in repair(damage, workspace)
    assert version_of(plain.folder) == newer and list(damages(workspace)) == []
    assert [one.name for one in open_figures(workspace.run(plain.id), workspace)] == ["risk"]
    assert refresh(workspace.run(plain.id), workspace).sentence == "Made again: “risk” of the full audit."
    assert workspace.audit(plain.id).outcomes()["summary: risk"].finished > before.finished


@pytest.fixture
def imported(workspace, smoke_specs) -> Run:
    """A run on imported notes of which five members' names are known, with the figures that version 2 made.

    That version divided by all members, as it does for a synthetic hospital.
    """
    base = workspace.run(smoke_specs["base"].run_id)
    hospital = workspace.corpus(base.spec.corpus)
    members = hospital.patients.loc[hospital.patients["split"] == "member", "patient_id"]
    patients = hospital.patients.assign(**{field.name: None for field in FIELDS})
    named = hospital.patients["full_name"].where(patients["patient_id"].isin(members[:5]))
    spec = CorpusSpec(imported="0" * 16)
    workspace.add(replace(hospital, patients=patients.assign(full_name=named), spec=spec))
    work = workspace.begin(base.spec.model_copy(update={"corpus": spec}))
    write_table(work / "tables", "metrics", base.metrics, version=2)
    for path in base.folder.rglob("*"):
        copy = work / path.relative_to(base.folder)
        if path.is_file() and path.name not in ("spec.json", "checksums.json", "metrics.parquet"):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
    return workspace.complete(work)


def test_figures_of_imported_notes_with_an_old_denominator_are_made_again(workspace, imported, capsys):
    """Their version is that of their kind of run: the others, which are counted as before, stay current."""
    before = {run.id: files(run.folder) for run in workspace.runs() if run.id != imported.id}
    assert 5 not in set(imported.metrics.query("metric == 'full_name_patients'")["n"]), "all members were counted"
    assert main(["refresh", "--json"]) == 0
    states = {one["run"]: one["state"] for one in told(capsys)["runs"]}
    assert states.pop(imported.id) == "made again" and set(states.values()) == {"up to date"}
    again = workspace.run(imported.id)
    assert version_of(again.folder) == registry.version(imported=True) >= registry.version()
    names = again.metrics.query("metric == 'full_name_patients'")
    assert list(names["arm"]) == ["run"] and list(names["n"]) == [5], "no held-out patient's name is known"
    assert {run.id: files(run.folder) for run in workspace.runs() if run.id != imported.id} == before
    assert refresh(again, workspace).state == "up to date"


def test_a_run_that_is_not_there_is_bad_input(workspace, capsys):
    assert main(["refresh", "gpt2-000000000000"]) == 2
    assert "gpt2-000000000000" in capsys.readouterr().err
    assert main(["refresh", "--data", str(workspace.root / "empty"), "--json"]) == 0
    assert told(capsys)["runs"] == []
