"""Folders in a store: whole or not there, never damaged unnoticed, on a disk and in a bucket alike."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from core.runs.remote import lease as leases
from core.runs.remote.lease import Lease
from core.runs.remote.store import Store, StoreUnusable

RUN = "gpt2-0123456789ab"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two files of the same content and one larger than a piece."""
    made = tmp_path / "made"
    (made / "model").mkdir(parents=True)
    (made / "a.json").write_text("same")
    (made / "model" / "b.json").write_text("same")
    (made / "model" / "large").write_bytes(bytes(range(256)) * 9_000)
    return made


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_back_as_it_was(address: str, folder: Path, tmp_path: Path) -> None:
    store, to = Store(address), tmp_path / "machine" / "runs" / RUN
    assert not store.fetch("runs", RUN, to) and not to.exists() and store.names("runs") == []
    store.publish("runs", RUN, folder)
    assert Store(address).names("runs") == [RUN] and len(store.list("objects")) == 2
    assert store.fetch("runs", RUN, to) and content(to) == content(folder)
    assert not store.fetch("runs", RUN, to), "what is there stays"


def test_a_damaged_folder_is_replaced(address: str, folder: Path, tmp_path: Path) -> None:
    store, to = Store(address), tmp_path / "machine" / RUN
    store.publish("runs", RUN, folder)
    to.mkdir(parents=True)
    (to / "a.json").write_text("damaged")

    def whole(there: Path) -> bool:
        return (there / "a.json").read_text() == "same"

    assert store.fetch("runs", RUN, to, whole) and content(to) == content(folder)
    assert not store.fetch("runs", RUN, to, whole) and [path.name for path in to.parent.iterdir()] == [RUN]


def test_without_its_manifest_a_folder_is_not_there(address: str, folder: Path, tmp_path: Path) -> None:
    """All content was uploaded, and the machine died before the manifest."""
    store = Store(address)
    store.publish("runs", RUN, folder)
    store.remove(f"runs/{RUN}.json")
    assert store.names("runs") == [] and not store.fetch("runs", RUN, tmp_path / RUN)


@pytest.mark.parametrize("damage", ["changed", "missing"])
def test_damage_is_a_sentence_and_leaves_nothing(address: str, folder: Path, tmp_path: Path, damage: str) -> None:
    store, to = Store(address), tmp_path / "machine" / RUN
    store.publish("runs", RUN, folder)
    sha256 = store.manifest("runs", RUN)["model/large"]["sha256"]
    if damage == "changed":
        store.write(f"objects/{sha256}", b"other")
    else:
        store.remove(f"objects/{sha256}")
    said = "the checksum of large differs" if damage == "changed" else "large is missing"
    with pytest.raises(StoreUnusable, match=f"runs/{RUN} in the store .* is damaged .* {said}"):
        store.fetch("runs", RUN, to)
    assert not to.exists() and not list(to.parent.iterdir())


@pytest.mark.parametrize("name", ["../outside", "/etc/outside"])
def test_a_manifest_cannot_name_a_file_outside(address: str, tmp_path: Path, name: str) -> None:
    store = Store(address)
    store.write(f"runs/{RUN}.json", json.dumps({"files": {name: {"sha256": "0" * 64, "size": 1}}}).encode())
    for text in (None, b"[]", b"not json"):
        if text is not None:
            store.write(f"runs/{RUN}.json", text)
        with pytest.raises(StoreUnusable, match="its list of files cannot be read"):
            store.fetch("runs", RUN, tmp_path / RUN)


def test_of_many_writers_one_creates_an_object(address: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        won = list(threads.map(lambda number: Store(address).write("leases/one", b"%d" % number, new=True), range(8)))
    assert sum(won) == 1 and Store(address).read("leases/one") == b"%d" % won.index(True)


def test_a_bucket_that_does_not_answer_is_a_sentence(bucket: tuple[str, ThreadedMotoServer], folder: Path) -> None:
    address, server = bucket
    server.stop()
    with pytest.raises(StoreUnusable, match=f"The store {address} does not give or take runs/{RUN}"):
        Store(address).publish("runs", RUN, folder)


def test_an_address_of_no_known_kind_is_a_sentence() -> None:
    with pytest.raises(StoreUnusable, match="The store nowhere://x cannot be used"):
        Store("nowhere://x")


def test_a_lease_has_one_holder_until_it_is_released(address: str) -> None:
    store = Store(address)
    held = Lease.take(store, RUN)
    assert held is not None and Lease.take(store, RUN) is None and held.renew()
    held.release()
    again = Lease.take(store, RUN)
    assert again is not None and not held.renew(), "another machine has it now"
    held.release()
    assert again.renew()


def test_a_lease_that_nobody_renews_is_taken_over(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, clock = Store(address), [0.0]
    monkeypatch.setattr(leases, "monotonic", lambda: clock[0])
    dead = Lease.take(store, RUN)
    assert Lease.take(store, RUN) is None
    clock[0] += leases.LEASE_SECONDS - 1
    assert dead.renew() and Lease.take(store, RUN) is None
    clock[0] += leases.LEASE_SECONDS + 1
    heir = Lease.take(store, RUN)
    assert heir is not None and heir.path.endswith(".1") and not dead.renew()
    assert store.list("leases") == [f"{RUN}.1"]
