"""Archives that are damaged or forged: refused with a sentence before anything of them becomes visible."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file

from core.runs.backup.archive import ArchiveBroken
from core.runs.backup.exporting import export
from core.runs.backup.importing import import_archive
from core.runs.store import Workspace
from core.spec import RunSpec
from tests.runs.backup.conftest import SMOKE, contents, rewritten

Forge = Callable[[dict[str, bytes]], None]


@pytest.fixture(scope="module")
def archive(full_folder: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of one run with its cohort, control and audit."""
    path = tmp_path_factory.mktemp("archive") / "a.zip"
    export(Workspace(full_folder, shared=()), path, runs=[smoke_specs["dp"].run_id])
    return path


def with_entry(archive: Path, to: Path, entry: zipfile.ZipInfo | str, content: bytes) -> Path:
    """A copy of an archive with one more entry, which its manifest does not name."""
    shutil.copy(archive, to)
    with zipfile.ZipFile(to, "a") as zipped:
        zipped.writestr(entry, content)
    return to


def refused(workspace: Workspace, path: Path, sentence: str) -> None:
    """Nothing of the archive is imported, and the sentence is one."""
    for dry_run in (True, False):
        with pytest.raises(ArchiveBroken, match=sentence) as error:
            import_archive(workspace, path, dry_run=dry_run)
        assert str(error.value).endswith(".") and str(path) in str(error.value)
    assert not workspace.root.exists()


def test_a_truncated_archive_is_refused(archive, empty, tmp_path) -> None:
    content = archive.read_bytes()
    for length in (0, 1, 100, len(content) // 2, len(content) - 1):
        path = tmp_path / "cut.zip"
        path.write_bytes(content[:length])
        refused(empty, path, "not an archive .*, or its end is missing")


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(archive, full_folder, empty, tmp_path) -> None:
    content, draw = archive.read_bytes(), random.Random(1)
    with zipfile.ZipFile(archive) as zipped:
        start = zipped.start_dir
    places = [draw.randrange(start) for _ in range(30)] + [draw.randrange(start, len(content)) for _ in range(60)]
    stopped, path = 0, tmp_path / "flipped.zip"
    original = contents(full_folder)
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            done = import_archive(empty, path)
        except ArchiveBroken:
            stopped += 1
            assert not empty.root.exists()
        else:  # a bit of a date or of another field that nothing reads
            assert {one.outcome for one in done} == {"imported"}
            assert contents(empty.root).items() <= original.items()
            shutil.rmtree(empty.root)
    assert stopped > 45, "all content and most of the list of files is covered"


def test_every_file_s_content_is_covered(archive, empty, tmp_path) -> None:
    content, path = archive.read_bytes(), tmp_path / "flipped.zip"
    with zipfile.ZipFile(archive) as zipped:
        entries = [entry for entry in zipped.infolist() if entry.file_size and entry.filename != "manifest.json"]
    assert len(entries) > 25
    for entry in entries:
        damaged = bytearray(content)
        name = entry.filename.encode()
        first = content.index(name, entry.header_offset) + len(name) + entry.file_size // 2
        damaged[first] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(ArchiveBroken, match="is damaged: the checksum of"):
            import_archive(empty, path)
    assert not empty.root.exists()


@pytest.mark.parametrize(
    "name",
    ["../outside.json", "/outside.json", "runs/../../outside.json", "runs/gpt2-0123456789ab/../../x", "corpora\\x"],
)
def test_a_path_that_leaves_the_folder_is_refused(archive, empty, tmp_path, name: str) -> None:
    refused(empty, with_entry(archive, tmp_path / "a.zip", name, b"{}"), "does not fit")
    assert not list(tmp_path.glob("**/outside.json"))


def test_a_path_that_leaves_the_folder_is_refused_in_the_manifest_too(archive, empty, tmp_path, smoke_specs) -> None:
    run = f"runs/{smoke_specs['dp'].run_id}"

    def forge(entries: dict[str, bytes]) -> None:
        entries[f"{run}/../../outside.json"] = b"{}"

    refused(empty, rewritten(archive, tmp_path / "a.zip", forge), "which nothing in the store has")


def test_a_link_is_refused(archive, empty, tmp_path) -> None:
    link = zipfile.ZipInfo("runs/gpt2-0123456789ab/spec.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(empty, with_entry(archive, tmp_path / "a.zip", link, b"/etc/passwd"), "not a plain stored file")


def test_a_compressed_entry_is_refused(archive, empty, tmp_path) -> None:
    """A small archive cannot fill the disk."""
    shutil.copy(archive, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip", "a", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("runs/gpt2-0123456789ab/events.jsonl", b"\0" * 1_000_000)
    refused(empty, tmp_path / "a.zip", "not a plain stored file")


@pytest.mark.parametrize("file", ["weights.pkl", "model/pytorch_model.bin", ".hidden", "model/code.py", "noise.key"])
def test_a_file_that_no_run_has_is_refused(archive, empty, tmp_path, smoke_specs, file: str) -> None:
    path = f"runs/{smoke_specs['dp'].run_id}/{file}"
    refused(empty, with_entry(archive, tmp_path / "a.zip", path, b"x"), "does not fit")
    forged = rewritten(archive, tmp_path / "b.zip", lambda entries: entries.update({path: b"x"}))
    refused(empty, forged, "which nothing in the store has")


def test_a_pickle_under_another_name_is_refused(archive, empty, tmp_path, smoke_specs) -> None:
    run = f"runs/{smoke_specs['dp'].run_id}"

    def forge(entries: dict[str, bytes]) -> None:
        del entries[f"{run}/checksums.json"]
        entries[f"{run}/model/model.safetensors"] = pickle.dumps({"weights": [1.0]})

    forged = rewritten(archive, tmp_path / "a.zip", forge)
    before = import_archive(empty, forged, dry_run=True)
    done = import_archive(empty, forged)
    assert done == before
    (odd,) = [one for one in done if one.outcome == "refused" and one.path == run]
    assert "model.safetensors is damaged" in odd.why
    assert not (empty.root / run).exists() and not list(empty.root.rglob("*building*"))
    assert {one.outcome for one in done if one.path.startswith("corpora")} == {"imported"}
    (audit,) = [one for one in done if one.path.startswith("audits")]
    assert audit.outcome == "refused" and "about the archive's run, which was not imported" in audit.why


def renamed(entries: dict[str, bytes], old: str, new: str) -> None:
    for name in [name for name in entries if name.startswith(f"{old}/")]:
        entries[name.replace(old, new)] = entries.pop(name)


def as_another_run(archive: Path, to: Path, run_id: str, other: str) -> Path:
    """The archive with a run under another run's name, also in its manifest."""
    with zipfile.ZipFile(archive) as zipped:
        entries = {name: zipped.read(name) for name in zipped.namelist()}
    entries["manifest.json"] = entries["manifest.json"].replace(run_id.encode(), other.encode())
    renamed(entries, f"runs/{run_id}", f"runs/{other}")
    renamed(entries, f"audits/{run_id}", f"audits/{other}")
    with zipfile.ZipFile(to, "w") as zipped:
        for name, content in entries.items():
            zipped.writestr(name, content)
    return to


def test_a_run_cannot_claim_another_run_s_id(archive, empty, tmp_path, smoke_specs) -> None:
    dp, plain = smoke_specs["dp"].run_id, smoke_specs["plain"].run_id
    forged = as_another_run(archive, tmp_path / "a.zip", dp, plain)
    refused(empty, forged, f"runs/{plain} has the settings of {dp}")


def test_a_cohort_cannot_claim_another_cohort_s_id(archive, empty, tmp_path) -> None:
    path = f"corpora/{SMOKE.digest()}/spec.json"

    def forge(entries: dict[str, bytes]) -> None:
        entries[path] = SMOKE.model_copy(update={"seed": 5}).model_dump_json().encode()

    refused(empty, rewritten(archive, tmp_path / "a.zip", forge), f"corpora/{SMOKE.digest()} has the settings of")


def test_other_notes_under_a_synthetic_cohort_s_id_are_refused(archive, empty, tmp_path, full_folder) -> None:
    """The notes are generated again from the settings and compared, so checksums that fit do not help."""
    folder = f"corpora/{SMOKE.digest()}"

    def forge(entries: dict[str, bytes]) -> None:
        from core.corpus.tables import Corpus

        corpus = Corpus.read(full_folder / folder)
        corpus.notes.loc[0, "text"] = "Another text."
        corpus.write(tmp_path)
        entries[f"{folder}/notes.parquet"] = (tmp_path / "notes.parquet").read_bytes()
        del entries[f"{folder}/checksums.json"]

    done = import_archive(empty, rewritten(archive, tmp_path / "a.zip", forge))
    (odd,) = [one for one in done if one.path == folder]
    assert odd.outcome == "refused" and "not those that its settings give" in odd.why


def test_weights_that_are_not_the_run_s_own_are_refused(archive, empty, tmp_path, smoke_specs, full_folder) -> None:
    """The run's own checksums name its weights: changing them takes a change of those, too."""
    run = f"runs/{smoke_specs['dp'].run_id}"

    def forge(entries: dict[str, bytes]) -> None:
        tensors = load_file(full_folder / run / "model" / "model.safetensors")
        save_file({name: tensor * 0 for name, tensor in tensors.items()}, tmp_path / "w.safetensors")
        entries[f"{run}/model/model.safetensors"] = (tmp_path / "w.safetensors").read_bytes()

    done = import_archive(empty, rewritten(archive, tmp_path / "a.zip", forge))
    (odd,) = [one for one in done if one.path == run]
    assert odd.outcome == "refused" and "is not what was written" in odd.why


def test_other_files_are_no_archives(empty, tmp_path) -> None:
    (tmp_path / "a.zip").write_text("hello", encoding="utf-8")
    refused(empty, tmp_path / "a.zip", "is not an archive")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr("hello.txt", "hello")
    refused(empty, tmp_path / "b.zip", "it has no manifest.json")
    for said in (
        {"format": "other"},
        [],
        {"format": "phi-leak-lab backup", "version": 2, "weights": True, "items": []},
    ):
        with zipfile.ZipFile(tmp_path / "c.zip", "w") as zipped:
            zipped.writestr("manifest.json", json.dumps(said))
        refused(empty, tmp_path / "c.zip", "its list of files is not valid")
