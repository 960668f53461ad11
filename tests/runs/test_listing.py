"""Listing the runs of a large store again and again: what changes is noticed, and little is read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from bench.load._store import fill
from core.runs import listing, queries
from core.runs.integrity.replacements import replacements
from core.runs.integrity.verify import damages
from core.runs.integrity.whole import note_damage
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import SCHEMAS

RUNS, CHECKED = 9, 2


@pytest.fixture
def store(smoke_workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Nine runs, of which a listing checks two."""
    monkeypatch.setattr(listing, "CHECKED", CHECKED)
    assert len(set(fill(tmp_path / "data", RUNS, source=smoke_workspace))) == RUNS
    workspace = Workspace(tmp_path / "data", shared=())
    assert len(workspace.runs()) == RUNS
    return workspace


@pytest.fixture
def looked_at(store: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose files were looked at."""
    found: list[str] = []
    real = Run.open

    def spy(folder: Path, *, shipped: bool = False) -> Run:
        found.append(folder.name)
        return real(folder, shipped=shipped)

    monkeypatch.setattr(Run, "open", spy)
    return found


def test_a_listing_looks_at_a_few_runs_and_all_of_them_have_their_turn(store, looked_at) -> None:
    for _ in range(5):
        before = len(looked_at)
        assert len(store.runs()) == RUNS and len(looked_at) - before == CHECKED
    assert len(set(looked_at)) == RUNS


def test_runs_that_come_and_go_are_noticed_at_once(store, looked_at) -> None:
    gone, *others = store.runs()
    shutil.move(gone.folder, store.root / "elsewhere")
    assert [run.id for run in store.runs()] == [run.id for run in others]
    shutil.move(store.root / "elsewhere", gone.folder)
    before = len(looked_at)
    assert len(store.runs()) == RUNS and gone.id in looked_at[before:]


def test_other_files_under_the_id_of_a_run_are_counted_and_nothing_else(store, tmp_path: Path) -> None:
    """Pages keep figures by the ids of runs and this count."""
    one, other, third, *_ = store.runs()

    def counted(change) -> int:
        before = replacements()
        change()
        store.runs()
        store.run(one.id)
        return replacements() - before

    assert counted(lambda: None) == 0
    assert counted(lambda: note_damage(other.folder / "tables/scores.parquet", SCHEMAS["scores"].names, "is odd")) == 0
    again = pd.read_parquet(one.folder / "tables/metrics.parquet").assign(value=0.5)
    assert counted(lambda: again.to_parquet(one.folder / "tables/metrics.parquet")) == 1, "figures computed again"
    assert store.run(one.id).metrics["value"].eq(0.5).all()
    assert counted(lambda: shutil.copytree(other.folder, tmp_path / "kept")) == 0
    assert counted(lambda: shutil.rmtree(other.folder)) == 1
    assert counted(lambda: shutil.copytree(tmp_path / "kept", other.folder)) == 1, "made again under its id"
    shipped = Workspace(tmp_path / "data", shared=(tmp_path / "shipped",))
    shutil.copytree(third.folder, tmp_path / "shipped/runs" / third.id)
    assert counted(shipped.runs) >= 1, "one hides the other"
    assert counted(lambda: shutil.rmtree(third.folder)) == 1 and shipped.run(third.id).shipped


def test_damage_is_found_in_turn_and_at_once_if_a_reader_reports_it(store) -> None:
    first, second, *_ = store.runs()
    (first.folder / "tables" / "hits.parquet").write_bytes(b"PAR1 nonsense")
    for _ in range(RUNS // CHECKED + 1):
        left = {run.id for run in store.runs()}
    assert first.id not in left and len(left) == RUNS - 1
    note_damage(second.folder / "tables" / "hits.parquet", SCHEMAS["hits"].names, "is damaged (a reader found it)")
    assert second.id not in {run.id for run in store.runs()}
    assert len(store.problems()) == 2


def test_an_unreadable_place_and_strange_names_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".building-1").mkdir()
    (tmp_path / "runs" / "file").touch()
    assert listing.opened(tmp_path / "runs", shipped=False) == {}
    assert listing.opened(tmp_path / "none", shipped=False) == listing.opened(tmp_path / "runs/file", shipped=False)


def test_what_follows_from_runs_is_computed_once_until_a_run_changes(store) -> None:
    asked = []
    number = listing.OfRuns(lambda runs: asked.append(runs) or len(runs))
    runs = store.runs()
    assert number(runs) == number(list(runs)) == RUNS and len(asked) == 1
    assert number(runs[1:]) == RUNS - 1 and number(runs) == RUNS and len(asked) == 2
    (runs[0].folder / "status.json").touch()
    changed = store.run(runs[0].id)
    assert changed == runs[0] and number([changed, *runs[1:]]) == RUNS and len(asked) == 3, "another object"
    listing.forget(store.root)
    assert number(runs) == RUNS and len(asked) == 3, "nothing of it is imported"


def test_runs_on_imported_notes_are_forgotten(store) -> None:
    asked = []
    number = listing.OfRuns(lambda runs: asked.append(runs) or len(runs))
    run = store.runs()[0]
    corpus = run.spec.corpus.model_copy(update={"imported": "0" * 12})
    runs = [replace(run, spec=run.spec.model_copy(update={"corpus": corpus}))]
    assert number(runs) == number(runs) == 1 and len(asked) == 1
    listing.forget(store.root)
    assert number(runs) == 1 and len(asked) == 2


def test_what_was_forgotten_meanwhile_is_not_remembered(store) -> None:
    asked = []

    def slow(runs) -> int:
        asked.append(runs)
        listing.forget(store.root)  # a cohort is deleted while this computes
        return len(runs)

    number = listing.OfRuns(slow)
    assert number(store.runs()) == number(store.runs()) == RUNS and len(asked) == 2


def test_tables_of_asked_runs_alone_are_read(store, monkeypatch) -> None:
    read: list[str] = []
    real = queries.settings
    monkeypatch.setattr(queries, "settings", lambda runs: read.extend(run.id for run in runs) or real(runs))
    wanted = {run.id for run in store.runs()[:2]}
    found = queries.metrics(store, wanted)
    assert set(read) == wanted == set(found["run_id"])
    every = queries.metrics(store)
    assert len(set(every["run_id"])) == RUNS
    rows = every[every["run_id"].isin(wanted)]
    order = ["run_id", "metric", "arm"]
    pd.testing.assert_frame_equal(
        found.sort_values(order, ignore_index=True), rows.sort_values(order, ignore_index=True)
    )
    assert queries.metrics(store, []).empty


def test_runs_by_id_and_those_with_audits(store) -> None:
    runs = store.runs()
    assert store.runs_of([runs[2].id, runs[0].id]) == [runs[2], runs[0]]
    with pytest.raises(LookupError):
        store.runs_of(["gpt2-000000000000"])
    assert store.audited() == set()
    (store.root / "audits" / runs[0].id).mkdir(parents=True)
    assert store.audited() == {runs[0].id}


def test_copies_are_whole_runs_with_ids_of_their_own(store, smoke_specs) -> None:
    assert list(damages(store)) == []
    copies = [run for run in store.runs() if run.spec.training.seed >= 1_000]
    assert len(copies) == RUNS - len(smoke_specs)
    assert all(run.id == run.spec.run_id and not run.has_model for run in copies)
    fill(store.root, RUNS + 2, source=store.root.parent / "nowhere")
    assert len(store.runs()) == RUNS, "without a source there is nothing to copy"
