"""Every run says whose notes it is of, in each state that its files can be in, and goes with an upload of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.integrity.checksums import take
from core.runs.store import Workspace
from core.runs.uploads.deletion import delete, delete_orphans, keep
from core.runs.uploads.ownership import UPLOADED, cohort_of, marked_cohort
from core.runs.uploads.records import due
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

LONG_AGO = 1e9  # Unix seconds: older than any upload may become


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def brought() -> Corpus:
    cohort = build(CORPUS_PRESETS["smoke"])
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id("ada")})
    return Corpus(spec, cohort.patients, cohort.notes, cohort.canaries)


@pytest.fixture
def uploaded(workspace: Workspace, brought: Corpus, tmp_path: Path) -> CorpusSpec:
    (tmp_path / "made").mkdir()
    brought.write(tmp_path / "made")
    return keep(workspace, tmp_path / "made", owner="ada", name="ward.csv").spec


def newer(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99, "colour": "green"}))


def reseeded(path: Path) -> None:
    settings = json.loads(path.read_text())
    settings["corpus"]["seed"] += 1
    path.write_text(json.dumps(settings))


DAMAGE = {"none": lambda path: None, "empty": lambda path: path.write_bytes(b""), "gone": Path.unlink}
DAMAGE |= {"a newer version's": newer, "another cohort's": reseeded}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_half_made_run_on_an_upload_goes_with_it_whatever_its_spec_has_become(workspace, uploaded, how):
    work = workspace.begin(RunSpec(corpus=uploaded))
    DAMAGE[how](work / "spec.json")
    assert cohort_of(work) == (uploaded.digest(), True)
    assert delete(workspace, uploaded.digest()) and not work.exists()


@pytest.mark.parametrize("how", DAMAGE)
def test_a_run_says_its_cohort_by_its_checksums_where_the_spec_does_not(workspace, brought, how):
    work = workspace.begin(RunSpec(corpus=brought.spec))
    take(work, brought.spec)
    DAMAGE[how](work / "spec.json")
    assert marked_cohort(work) is None and cohort_of(work) == (brought.spec.digest(), True)


@pytest.mark.parametrize("how", DAMAGE)
def test_runs_on_notes_of_the_command_line_are_never_deleted_by_age(workspace, brought, how):
    workspace.add(brought)
    work = workspace.begin(RunSpec(corpus=brought.spec))
    DAMAGE[how](work / "spec.json")
    finished = workspace.root / "runs" / work.name
    finished.parent.mkdir()
    os.rename(work, finished)
    work = workspace.begin(RunSpec(corpus=brought.spec))
    DAMAGE[how](work / "spec.json")
    for folder in (work, finished, workspace.root / "corpora" / brought.spec.digest()):
        os.utime(folder, (LONG_AGO, LONG_AGO))
    assert not (work / UPLOADED).exists() and due(workspace.root) == [] and delete_orphans(workspace) == []
    assert work.exists() and finished.exists() and workspace.corpus_folder(brought.spec)


def test_a_run_goes_also_where_record_and_cohort_of_its_upload_are_lost(workspace, uploaded):
    digest = uploaded.digest()
    work = workspace.begin(RunSpec(corpus=uploaded))
    (workspace.root / "uploads" / f"{digest}.json").unlink()
    os.rename(workspace.root / "corpora" / digest, workspace.root / "corpora" / "elsewhere")
    assert due(workspace.root) == []
    os.utime(work, (LONG_AGO, LONG_AGO))
    assert due(workspace.root) == [digest] and delete(workspace, digest) and not work.exists()
    assert due(workspace.root) == []


def test_a_viewer_is_told_of_a_damaged_run_that_nobody_can_place_but_of_no_upload(workspace, brought, uploaded):
    """Also where its folder was made private since: nobody could say that it is synthetic."""
    unplaced, others = (workspace.begin(RunSpec(corpus=spec)) for spec in (CORPUS_PRESETS["smoke"], uploaded))
    (workspace.root / "runs").mkdir()
    for work in (unplaced, others):
        (work / "spec.json").write_bytes(b"{")
        work.chmod(0o700)
        os.rename(work, workspace.root / "runs" / work.name)
    (told,) = Workspace(workspace.root, (), viewer="bob").problems()
    assert unplaced.name in told and "spec.json" in told
    assert others.name in str(Workspace(workspace.root, (), viewer="ada").problems())
