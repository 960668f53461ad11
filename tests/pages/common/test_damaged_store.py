"""A damaged file breaks no page: its run is left out and named, and every page works for the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from core.jobs.engine import Engine
from core.runs.store import Workspace
from pages.parts.common import shell
from pages.parts.session import cleanup
from tests.pages.visit import ROOT, WAIT, visit

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "truncated": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "zeros": lambda content: bytes(len(content)),
    "garbage": lambda content: b"\x93garbage\xff" * (len(content) // 9 + 1),
}
READ_BY = {  # a page that reads each of these files
    "spec.json": "train",
    "privacy.json": "ledger",
    "metrics.parquet": "tradeoff",
    "hits.parquet": "defences",
    "history.parquet": "lesson",
}
PAGES = [name for name, *_ in shell._PAGES]


@pytest.fixture(scope="module")
def audited(audited_with) -> Path:
    """The smoke runs, one of them with an audit."""
    return audited_with("loss", "zlib")


@pytest.fixture
def data(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to damage, as the app's data folder."""
    root = tmp_path / "data"
    shutil.copytree(audited, root)
    monkeypatch.setenv("PHILAB_DATA", str(root))
    monkeypatch.setattr(Engine, "warm", lambda self: None)  # nothing is trained
    return root


def damage(path: Path, how: str) -> None:
    path.write_bytes(DAMAGE[how](path.read_bytes()))


def told(app: AppTest) -> str:
    """What the page says about damage, without Markdown's backslashes."""
    notices = [box for box in app.expander if "Left out on this page" in box.label]
    return "\n".join(text.value.replace("\\", "") for box in notices for text in box.markdown)


def opened(page: str) -> AppTest:
    app = visit(page)
    refused = [error.value for error in app.error if page != "report" or "audit" not in error.value]
    assert not app.exception and not refused, "a report keeps silent about no attack: it is refused, in a sentence"
    return app


def test_whole_stores_have_nothing_to_tell(data: Path) -> None:
    assert told(opened("tradeoff")) == "" and Workspace(data, shared=()).problems() == []


@pytest.mark.parametrize("file", READ_BY)
def test_a_damaged_file_of_a_run_is_named_and_the_page_works(data: Path, smoke_specs, file: str) -> None:
    run = data / "runs" / smoke_specs["dp"].run_id
    (path,) = run.rglob(file)
    damage(path, list(DAMAGE)[list(READ_BY).index(file) % len(DAMAGE)])
    notice = told(opened(READ_BY[file]))
    assert run.name in notice and file in notice and notice.count("Run ") == 1
    assert smoke_specs["plain"].run_id not in notice


@pytest.mark.parametrize("how", DAMAGE)
def test_every_file_of_a_store_is_noticed_whatever_happened_to_it(data: Path, smoke_specs, how: str) -> None:
    """Each file in turn; those that no page reads, or that are read line by line, need not be noticed by a page.

    Classes and queues, which another test's page may have left here, are no part of the store.
    """
    unread = {"README.md", "events.jsonl", "checksums.json", "attacks.json"}
    missed = []
    for path in sorted(path for path in data.rglob("*") if path.is_file() and path.name not in unread):
        if (
            path.parent.name in ("audits", "work", "classes", "jobs")
            or path.name == "spec.json"
            and path.parents[1].name == "corpora"
        ):
            continue
        whole = path.read_bytes()
        damage(path, how)
        workspace = Workspace(data, shared=(), viewer="somebody")
        named = [problem for problem in workspace.problems() if path.name in problem]
        if len(named) != 1 or len(workspace.runs()) < 2:
            missed.append((str(path.relative_to(data)), named))
        path.write_bytes(whole)
    assert missed == [] and Workspace(data, shared=()).problems() == []


@pytest.mark.parametrize("page", PAGES)
def test_every_page_works_beside_a_run_and_an_audit_and_a_record_that_are_damaged(
    data: Path, smoke_specs, page: str
) -> None:
    """One damaged run (all its tables), every audit table, the audit's list of another run, and an upload's record."""
    run = data / "runs" / smoke_specs["dp"].run_id
    for number, path in enumerate(sorted(run.rglob("*.*"))):
        if path.is_file() and path.name != "spec.json":
            damage(path, list(DAMAGE)[number % len(DAMAGE)])
    attacked = data / "audits" / smoke_specs["plain"].run_id
    for path in attacked.rglob("*.parquet"):
        damage(path, "truncated")
    shutil.copytree(attacked, data / "audits" / smoke_specs["base"].run_id)
    damage(data / "audits" / smoke_specs["base"].run_id / "attacks.json", "truncated")
    (data / "uploads").mkdir(exist_ok=True)
    (data / "uploads" / "abcdefabcdef.json").write_bytes(b"")
    notice = told(opened(page))
    assert f"Run {run.name}" in notice and "attacks.json" in notice and "loss.parquet" in notice


def test_what_a_damaged_file_leaves_out_is_back_when_the_file_is(data: Path, smoke_specs) -> None:
    path = data / "runs" / smoke_specs["dp"].run_id / "tables" / "metrics.parquet"
    whole = path.read_bytes()
    damage(path, "zeros")
    assert told(opened("tradeoff"))
    path.write_bytes(whole)
    assert told(opened("tradeoff")) == ""


def test_a_damaged_synthetic_cohort_is_made_again(data: Path, smoke_specs) -> None:
    spec = smoke_specs["plain"].corpus
    notes = data / "corpora" / spec.digest() / "notes.parquet"
    whole = notes.read_bytes()
    damage(notes, "garbage")
    app = opened("patients")
    assert not app.exception and notes.read_bytes() == whole


def test_a_damaged_record_stops_neither_pages_nor_deletion(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleanup, "start_thread", lambda root, workspace: cleanup.clear_out(workspace))  # without one
    folder = data / "uploads"
    folder.mkdir(exist_ok=True)
    (folder / "abcdefabcdef.json").write_bytes(b"")
    (folder / "aaaaaaaaaaaa.json").write_text('{"a field of": "another version"}')
    AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    assert sorted(path.name for path in (folder / "damaged").iterdir()) == ["aaaaaaaaaaaa.json", "abcdefabcdef.json"]
