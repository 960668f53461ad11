"""A run made by one of several machines: fetched if another finished it, resumed if another began it, published.

Imported notes, and everything made from them, stay in the data folder: nothing of them goes to the store. Nor do runs
with secret noise: made again elsewhere, such a run has other weights under the same id.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.common.files import make_folder
from core.common.folders import building
from core.runs import listing
from core.runs.integrity.disk import error_sentence
from core.runs.remote.lease import RENEW_SECONDS, Lease
from core.runs.remote.store import Store
from core.runs.run import Run
from core.runs.store import Workspace, is_whole_cohort
from core.spec import RunSpec

LOOK_SECONDS = 2.0  # between two looks at a run that another machine makes
STATE = ("checkpoint/state.safetensors", "events.jsonl")

log = logging.getLogger(__name__)
Stop = Callable[[], bool]


def stays_here(spec: RunSpec) -> str | None:
    """Why nothing of a run may go to a store, as a sentence; None if it may."""
    if spec.corpus.imported is not None:
        return "Imported notes never go to a store."
    if spec.secret_noise:
        return "A run with secret noise never goes to a store."
    return None


def store_of(spec: RunSpec) -> Store | None:
    """The store for a run of this spec: none without $PHILAB_STORE, for imported notes or with secret noise."""
    return None if stays_here(spec) is not None else Store.of_environment()


def fetched(store: Store, spec: RunSpec, workspace: Workspace) -> Run | None:
    """The finished run, fetched from the store if it is there, also to replace a damaged one here.

    Raises StoreUnusable, RunBroken.
    """
    run_id, digest = spec.run_id, spec.corpus.digest()
    if workspace.corpus_folder(spec.corpus) is None:
        store.fetch("corpora", digest, workspace.root / "corpora" / digest, is_whole_cohort)
    if not store.fetch("runs", run_id, workspace.root / "runs" / run_id, listing.is_whole):
        return None
    return workspace.run(run_id)


def brought(store: Store, spec: RunSpec, workspace: Workspace) -> Run:
    """A run that another machine made, with its control if the store has it, unless they are here with all tables.

    Raises StoreUnusable, RunBroken; RunNotFound if the store has no such run.
    """
    for one in dict.fromkeys((spec.base_spec(), spec)):
        if (found := workspace.find(one)) is None or found.made_again:
            fetched(store, one, workspace)
    return workspace.run(spec.run_id)


def leased(store: Store, run_id: str, *, wait: bool, stop: Stop) -> Lease | None:
    """The lease of a run. None if another machine finished the run meanwhile, or holds the lease and `wait` is false.

    Also None if `stop()` says so while waiting. Raises StoreUnusable.
    """
    pause = threading.Event()
    while store.manifest("runs", run_id) is None and not stop():
        lease = Lease.take(store, run_id)
        if lease is not None or not wait:
            return lease
        pause.wait(LOOK_SECONDS)
    return None


def publish(store: Store, run: Run, workspace: Workspace) -> None:
    """Store a finished run and its cohort, unless they are there. Raises StoreUnusable."""
    digest, cohort = run.spec.corpus.digest(), workspace.corpus_folder(run.spec.corpus)
    if cohort is not None and store.manifest("corpora", digest) is None:
        store.publish("corpora", digest, cohort)
    if store.manifest("runs", run.id) is None:  # the first one stays
        store.publish("runs", run.id, run.folder)
    _drop_checkpoint(store, run.id)


def _drop_checkpoint(store: Store, run_id: str) -> None:
    """Remove the stored checkpoint of a finished run."""
    if (state := _stored_state(store, run_id)) is not None:
        store.remove(f"checkpoints/{run_id}.json")
        store.remove(state)


def _stored_state(store: Store, run_id: str) -> str | None:
    """The object with the state in a run's stored checkpoint, which no other folder has; None if there is none."""
    manifest = store.manifest("checkpoints", run_id) or {}
    return f"objects/{manifest[STATE[0]]['sha256']}" if STATE[0] in manifest else None


@contextmanager
def shared(store: Store, lease: Lease, spec: RunSpec, workspace: Workspace) -> Iterator[None]:
    """Resume from the stored checkpoint, publish new ones while the block makes the run, then release the lease."""
    work, ended = workspace.work(spec.run_id), threading.Event()
    keeper = threading.Thread(target=_keep, args=(store, lease, spec.run_id, work, ended), daemon=True)
    try:
        with _logged(spec.run_id):  # without its checkpoint the run begins again
            _resume(store, spec.run_id, work)
        keeper.start()
        yield
    finally:
        ended.set()
        if keeper.is_alive():
            keeper.join()
        with _logged(spec.run_id):
            if store.manifest("runs", spec.run_id) is not None:  # the keeper may have stored one after that
                _drop_checkpoint(store, spec.run_id)
        with _logged(spec.run_id):
            lease.release()


def _resume(store: Store, run_id: str, work: Path) -> None:
    """Fetch the stored checkpoint, unless the work folder has one of its own or what is written after training.

    The app makes the folder when a run is submitted, so a folder without a checkpoint is usual.
    """
    if (work / STATE[0]).exists() or (work / "tables" / "history.parquet").exists():
        return
    with building(work.parent, private=False) as beside:
        # A fetched folder is published under its parent's lock, and `beside` has one.
        stored = beside / "fetched" / run_id
        if store.fetch("checkpoints", run_id, stored):
            make_folder(work)
            for file in reversed(STATE):  # the state last: without it, the run starts again
                make_folder((work / file).parent)
                os.replace(stored / file, work / file)


def _keep(store: Store, lease: Lease, run_id: str, work: Path, ended: threading.Event) -> None:
    """Renew the lease and publish each new checkpoint until `ended`."""
    published = 0
    while not ended.wait(RENEW_SECONDS):
        with _logged(run_id):
            if not lease.renew():
                log.warning("Run %s: another machine began it too. This one goes on; both give the same run.", run_id)
                return
            newest = _changed(work / STATE[0])
            if newest > published:
                before = _stored_state(store, run_id)
                store.publish("checkpoints", run_id, work, list(STATE))
                published = newest
                if before is not None and before != _stored_state(store, run_id):
                    store.remove(before)


def _changed(path: Path) -> int:
    """Time of the last change of a file in nanoseconds; 0 if there is none."""
    return path.stat().st_mtime_ns if path.exists() else 0


@contextmanager
def _logged(run_id: str) -> Iterator[None]:
    """Log a failure of the store, which a run that is being made survives."""
    try:
        yield
    except OSError as error:
        log.warning("Run %s: %s", run_id, error_sentence(error))
