"""Pages with runs that have figures only: they say what is missing, and nothing fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core.demo.export import copy_run
from core.jobs.engine import Engine
from core.runs.store import Workspace
from core.spec import RunSpec, recipe
from tests.pages.visit import visit

PAGES = ("home", "tradeoff", "defences", "canaries", "membership", "patients", "playground", "report", "lesson")
NEED_TABLES = ("membership", "patients")


@pytest.fixture(scope="module")
def small(smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose trained runs have figures only; the public base model has all its tables."""
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("small") / "data")
    full = Workspace(smoke_workspace, shared=())
    for name in ("plain", "dp"):
        run = full.run(smoke_specs[name].run_id)
        folder = root / "runs" / run.id
        shutil.rmtree(folder)
        copy_run(run, folder, weights=False, tables=False)
    return root


@pytest.mark.parametrize("page", PAGES)
def test_pages_open_with_runs_that_have_figures_only(
    page: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(small))
    monkeypatch.setenv("PHILAB_SHIPPED", str(tmp_path / "none"))
    app = visit(page)
    assert not app.error, [one.value for one in app.error]
    captions = "\n".join(one.value for one in app.caption)
    assert ("Not offered here: 2 runs with figures only" in captions) == (page in NEED_TABLES)


@pytest.mark.parametrize("view", ["Questions", "Risk score"])
def test_a_view_without_its_table_says_so(
    view: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(small))
    monkeypatch.setenv("PHILAB_SHIPPED", str(tmp_path / "none"))
    app = visit("canaries", view=view)
    told = "\n".join(one.value for one in app.info)
    assert not app.exception and not app.error
    assert "has figures only: its table" in told


def test_a_shipped_run_can_be_trained_again(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    spec = RunSpec(corpus=run.spec.corpus, training=recipe("gpt2"))
    folder = tmp_path / "shipped" / "runs" / spec.run_id
    copy_run(run, folder, weights=False, tables=False)
    (folder / "spec.json").write_text(spec.model_dump_json())
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("PHILAB_SHIPPED", str(tmp_path / "shipped"))
    app = visit("train", cohort="tiny", epsilon="∞")
    assert any("shipped with its figures only" in caption.value for caption in app.caption)
    app.button(key="train").click().run()
    assert not app.exception and [path.name for path in Workspace(tmp_path / "data").works()] == [spec.run_id]
