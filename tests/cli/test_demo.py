"""The shipped demonstration: what is exported of finished runs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from core import demo
from core.evaluation.defences.side_by_side import lineup
from core.evaluation.sweep.sweeps import Sweep
from core.pipeline.full_audit import audit
from core.runs.events import EVENTS_FILE
from core.runs.store import Workspace
from core.spec import RunSpec


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """A workspace of its own with the smoke runs."""
    return Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())


def test_export_ships_all_tables_and_the_weights_and_audit_of_chosen_runs(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, private = smoke_specs["plain"], smoke_specs["dp"]
    monkeypatch.setattr(demo, "demo_specs", lambda: [plain])
    monkeypatch.setattr(demo, "defended_specs", lambda: [private])
    monkeypatch.setattr(demo, "weighted_specs", lambda: [plain])
    card = workspace.run(private.run_id).folder / "README.md"
    card.write_text(card.read_text().replace("Reproducible: ε is shown, not promised.", ""), encoding="utf-8")
    for spec in (plain, private):
        audit(workspace.run(spec.run_id), workspace, attacks=["zlib"])
    out = tmp_path / "shipped" / "demo"
    out.mkdir(parents=True)
    (out / "stale").touch()

    ids = demo.export(workspace, out)

    assert set(ids) == {spec.run_id for spec in smoke_specs.values()}, "the public base model is the runs' control"
    assert not (out / "stale").exists()
    shipped = Workspace(tmp_path / "elsewhere", shared=(out,))
    for name, spec in smoke_specs.items():
        assert (out / "runs" / spec.run_id / "model").exists() == (name == "plain")
        assert not (out / "runs" / spec.run_id / EVENTS_FILE).exists()
        assert shipped.run(spec.run_id).table("metrics").equals(workspace.run(spec.run_id).table("metrics"))
    assert "Reproducible: ε is shown, not promised." in (out / "runs" / private.run_id / "README.md").read_text()
    assert list(shipped.audit(plain.run_id).outcomes())[:1] == ["zlib"]
    assert not shipped.audit(private.run_id).outcomes()
    assert shipped.corpus(plain.corpus).notes.equals(workspace.corpus(plain.corpus).notes)


def test_the_demonstration_is_the_sweep_that_the_trade_off_is_judged_on() -> None:
    specs = demo.demo_specs()
    assert len({spec.run_id for spec in specs}) == len(specs) == 2 * 7 * 3
    assert {spec.run_id for spec in demo.weighted_specs()} <= {spec.run_id for spec in specs}
    assert {spec.privacy.target_epsilon for spec in specs} == {None, 0.5, 1.0, 2.0, 5.0, 8.0, 10.0}


def test_the_defences_open_with_every_row_measured() -> None:
    """The line-up of the page is made of runs that are shipped."""
    plain, private = demo.demo_spec("gpt2", None, 0), demo.demo_spec("gpt2", 8.0, 0)
    family = Sweep(
        plain.corpus,
        plain.model,
        plain.audit,
        private.privacy.model_copy(update={"target_epsilon": None}),
        private.training,
        plain.training,
        (),
        usual=1,  # the recipe of version 0.1, which does not ask for the number of notes
    )
    shipped = {spec.run_id for spec in [*demo.demo_specs(), *demo.defended_specs()]}
    assert {defence.spec.run_id for defence in lineup(family)} <= shipped
