"""Machines that share nothing but a store: each run made once, resumed elsewhere, the same as on one machine."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from core.common.errors import Cancelled
from core.demo.export import copy_run
from core.pipeline.training_run import RunBusy, execute
from core.runs.events import read_status
from core.runs.remote import lease as leases
from core.runs.remote import sharing
from core.runs.remote.lease import Lease
from core.runs.remote.store import Store, StoreUnusable
from core.runs.store import Workspace
from core.spec import RunSpec

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("asks_few_claims")]

ROOT = Path(__file__).resolve().parents[3]
WEIGHTS = "model/model.safetensors"
# A machine that dies in training: in the second epoch, when the first one's checkpoint is in the store.
DYING = """
import os, signal, sys, time
from core.pipeline import training_run
from core.runs.remote import sharing
from core.runs.remote.store import Store
from core.runs.store import Workspace
from core.spec import RunSpec
sharing.RENEW_SECONDS = 0.05
spec = RunSpec.model_validate_json(sys.argv[1])
def watch(event):
    if event["event"] == "step" and event["epoch"] == 2:
        while Store.of_environment().manifest("checkpoints", spec.run_id) is None:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
training_run.execute(spec, Workspace(sys.argv[2], shared=()), on_event=watch)
"""


@pytest.fixture
def store(address: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of all machines of a test."""
    monkeypatch.setenv("PHILAB_STORE", f" {address} ")
    return Store(address)


def machine(tmp_path: Path, name: str, smoke_workspace: Path, base: RunSpec) -> Workspace:
    """A data folder of its own, with the control, so that a test trains one model only."""
    root = tmp_path / name
    shutil.copytree(smoke_workspace / "runs" / base.run_id, root / "runs" / base.run_id)
    return Workspace(root, shared=())


def test_a_finished_run_is_fetched_with_its_cohort(
    store: Store, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    spec, events = smoke_specs["dp"], []
    here = Workspace(shutil.copytree(smoke_workspace, tmp_path / "here"), shared=())
    execute(spec, here)  # made before there was a store
    there = Workspace(tmp_path / "there", shared=())
    work = there.begin(spec)  # as the queue does
    run = execute(spec, there, on_event=events.append)
    assert run.folder == tmp_path / "there" / "runs" / spec.run_id and events == []
    assert (run.folder / WEIGHTS).read_bytes() == (smoke_workspace / "runs" / run.id / WEIGHTS).read_bytes()
    assert not work.exists() and there.corpus_folder(spec.corpus) is not None and store.list("leases") == []


def test_a_run_and_a_cohort_that_are_damaged_here_are_fetched_again(
    store: Store, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    spec, full = smoke_specs["dp"], Workspace(smoke_workspace, shared=())
    sharing.publish(store, full.run(spec.run_id), full)
    here = Workspace(shutil.copytree(smoke_workspace, tmp_path / "here"), shared=())
    for damaged in (here.root / "runs" / spec.run_id / "spec.json", here.corpus_folder(spec.corpus) / "notes.parquet"):
        damaged.write_bytes(b"damaged")
    run = execute(spec, here)
    assert (run.folder / WEIGHTS).read_bytes() == (smoke_workspace / "runs" / run.id / WEIGHTS).read_bytes()
    assert here.corpus_folder(spec.corpus) is not None and store.list("leases") == []


def test_a_run_that_is_shipped_with_figures_only_is_fetched_with_its_tables(
    store: Store, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    spec, full = smoke_specs["dp"], Workspace(smoke_workspace, shared=())
    sharing.publish(store, full.run(spec.run_id), full)
    copy_run(full.run(spec.run_id), tmp_path / "shipped" / "runs" / spec.run_id, weights=False, tables=False)
    here = Workspace(tmp_path / "here", shared=(tmp_path / "shipped",))
    assert here.run(spec.run_id).made_again
    run = sharing.brought(store, spec, here)
    assert not run.shipped and not run.figures_only and run.has_table("scores")


def test_a_run_that_another_machine_makes_is_not_made_twice(
    store: Store, tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    here, spec = machine(tmp_path, "here", smoke_workspace, smoke_specs["base"]), smoke_specs["dp"]
    held = Lease.take(store, spec.run_id)
    with pytest.raises(RunBusy, match="by another machine"):
        execute(spec, here, wait=False)
    here.begin(spec)
    until = time.monotonic() + 1
    with pytest.raises(Cancelled):
        execute(spec, here, should_stop=lambda: time.monotonic() > until)
    assert not here.work(spec.run_id).exists() and held.renew()


@pytest.mark.parametrize("store_is_gone", [False, True])
def test_a_lease_is_released_when_what_the_store_has_cannot_be_fetched(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch, store_is_gone: bool
) -> None:
    spec, here = smoke_specs["dp"], Workspace(tmp_path / "here", shared=())
    work, released = here.begin(spec), []

    def damaged(*_: object) -> None:
        raise StoreUnusable("corpora/x in the store is damaged.")

    def release(lease: Lease) -> None:
        released.append(lease.path)
        if store_is_gone:
            raise StoreUnusable("The store does not answer.")
        original(lease)

    original = Lease.release
    monkeypatch.setattr("core.pipeline.training_run.fetched", damaged)
    monkeypatch.setattr(Lease, "release", release)
    with pytest.raises(StoreUnusable, match="is damaged"):
        execute(spec, here)
    assert len(released) == 1 and "is damaged" in read_status(work).message
    assert store_is_gone or store.list("leases") == []


def test_another_machine_resumes_what_a_killed_one_began(
    store: Store,
    tmp_path: Path,
    smoke_workspace: Path,
    smoke_specs: dict[str, RunSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec, base = smoke_specs["dp"], smoke_specs["base"]
    first, second = (machine(tmp_path, name, smoke_workspace, base) for name in ("first", "second"))
    died = subprocess.run(  # noqa: S603
        [sys.executable, "-c", DYING, spec.model_dump_json(), str(first.root)], cwd=ROOT, check=False
    )
    assert died.returncode == -9 and store.names("checkpoints") == [spec.run_id] and store.names("runs") == []
    monkeypatch.setattr(leases, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(sharing, "LOOK_SECONDS", 0.1)
    steps = []
    run = execute(
        spec, second, on_event=lambda event: steps.append(event.get("step")) if event["event"] == "step" else 0
    )
    original = Workspace(smoke_workspace, shared=()).run(spec.run_id)
    assert steps and min(steps) > 1, "it went on from the checkpoint"
    assert (run.folder / WEIGHTS).read_bytes() == (original.folder / WEIGHTS).read_bytes()
    assert run.privacy == original.privacy and run.privacy is not None
    assert spec.run_id in store.names("runs") and store.names("checkpoints") == store.list("leases") == []


@pytest.mark.parametrize("begun", ["not", "queued", "with a checkpoint", "trained"])
def test_the_stored_checkpoint_comes_to_a_run_that_has_none_here(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], begun: str
) -> None:
    """Whoever waits for the run in the app has made its folder already, with its spec and its state."""
    spec, here, stored = smoke_specs["dp"], Workspace(tmp_path / "here", shared=()), tmp_path / "there"
    for file in sharing.STATE:
        (stored / file).parent.mkdir(parents=True, exist_ok=True)
        (stored / file).write_text("stored")
    store.publish("checkpoints", spec.run_id, stored)
    work = here.work(spec.run_id)
    if begun != "not":
        here.begin(spec)
        kept = [(work / file).read_bytes() for file in ("spec.json", "status.json")]
    if begun in ("with a checkpoint", "trained"):
        own = work / (sharing.STATE[0] if begun == "with a checkpoint" else "tables/history.parquet")
        own.parent.mkdir()
        own.write_text("own")
    lease = Lease.take(store, spec.run_id)
    assert lease is not None
    with sharing.shared(store, lease, spec, here):
        comes = begun in ("not", "queued")
        found = [(work / file).read_text() if (work / file).exists() else None for file in sharing.STATE]
        assert found == (["stored", "stored"] if comes else ["own" if begun == "with a checkpoint" else None, None])
        if begun != "not":
            assert kept == [(work / file).read_bytes() for file in ("spec.json", "status.json")]
        assert [path.name for path in work.parent.iterdir()] == [spec.run_id]


def test_a_checkpoint_that_is_being_stored_when_its_run_is_done_does_not_stay(
    store: Store,
    tmp_path: Path,
    smoke_workspace: Path,
    smoke_specs: dict[str, RunSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec, here, made = smoke_specs["dp"], Workspace(tmp_path / "here", shared=()), Workspace(smoke_workspace, shared=())
    for file in sharing.STATE:
        (here.work(spec.run_id) / file).parent.mkdir(parents=True, exist_ok=True)
        (here.work(spec.run_id) / file).write_text("state")
    begun, go_on, really = threading.Event(), threading.Event(), Store.publish

    def slow(self: Store, kind: str, *more: Any) -> None:
        if kind == "checkpoints":
            begun.set()
            assert go_on.wait(60)
        really(self, kind, *more)

    monkeypatch.setattr(Store, "publish", slow)
    monkeypatch.setattr(sharing, "RENEW_SECONDS", 0.01)
    lease = Lease.take(store, spec.run_id)
    assert lease is not None
    with sharing.shared(store, lease, spec, here):
        assert begun.wait(60)
        sharing.publish(store, made.run(spec.run_id), made)
        go_on.set()
    assert store.names("runs") == [spec.run_id] and store.names("checkpoints") == store.list("leases") == []


def test_secret_noise_and_imported_notes_stay_here(
    store: Store, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_specs["dp"]
    secret = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"noise_source": "secret"})})
    corpus = spec.corpus.model_copy(update={"imported": "0" * 64})
    assert secret.secret_noise and sharing.store_of(secret) is None
    assert sharing.store_of(spec.model_copy(update={"corpus": corpus})) is None
    assert sharing.store_of(spec) is not None
    monkeypatch.setenv("PHILAB_STORE", " ")
    assert sharing.store_of(spec) is None


def test_a_store_that_is_gone_is_said_before_anything_is_trained(
    tmp_path: Path, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PHILAB_STORE", (tmp_path / "file" / "store").as_uri())
    here, spec = Workspace(tmp_path / "here", shared=()), smoke_specs["dp"]
    with pytest.raises(StoreUnusable, match="does not give or take"):
        execute(spec, here)
    assert not here.work(spec.run_id).exists()
    work = here.begin(spec)  # as somebody who waits for it in the app
    with pytest.raises(StoreUnusable):
        execute(spec, here)
    status = read_status(work)
    assert status.state == "failed" and "Check PHILAB_STORE" in status.message
