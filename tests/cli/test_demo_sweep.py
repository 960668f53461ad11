"""The planned demonstration sweep: what is in it, that it resumes and shares work, and what is exported."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from core.__main__ import main
from core.demo import plan, training
from core.demo.export import export_run, pack, thinned
from core.demo.work_left import WorkLeft
from core.evaluation.membership.strongest_attack import strongest
from core.evaluation.sweep.limit_measures import losses_by_patient
from core.pipeline.refresh import refresh
from core.runs.figures_only import EXAMPLES, FiguresOnly, examples, leave_out
from core.runs.integrity.verify import damages
from core.runs.lock import held
from core.runs.store import DEMO, Workspace
from core.runs.tables import FIGURES_ONLY_FILE, TableMissing, table_version, write_table
from core.spec import ModelSpec, RunSpec

MOST_BYTES = 40_000  # of a run with figures only


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """A workspace of its own with the smoke runs."""
    return Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())


def test_the_plan_has_every_size_kind_and_seed_and_no_run_twice() -> None:
    specs = [spec for part in plan.parts() for spec in part.specs]
    assert len({spec.run_id for spec in specs}) == len(specs)
    for size in plan.SIZES:
        for kind in plan.KINDS:
            for seed in plan.SEEDS:
                for epsilon in (None, 1.0, 8.0):
                    assert plan.spec_of(size, kind, epsilon, seed) in specs
    for size, kind in (("3k", "gpt2"), ("12k", "gpt2"), ("3k", "distilbert")):
        for epsilon in (0.5, 3.0, 30.0, 100.0, 1_000.0, 10_000.0):
            assert plan.spec_of(size, kind, epsilon, 0) in specs
    largest = [plan.spec_of("48k", kind, epsilon, 0) for kind, some in plan.LARGEST.items() for epsilon in some]
    assert len(largest) == 4 and all(spec in specs for spec in largest), "further ε of the largest hospital"
    for spec in specs:
        if not spec.is_base:
            assert spec.base_spec() in specs, "its control is in the plan"
        if spec.privacy.target_epsilon is not None:
            control = spec.clipped_spec() in specs
            assert control or spec.training.seed != 0, "the first seed has the same training without noise"


def test_the_defences_are_compared_on_the_hospital_that_the_pages_open_with() -> None:
    specs = {part.name: part.specs for part in plan.parts()}[plan.DEFENCES]
    assert {spec.defence.label if spec.defence else spec.privacy.unit for spec in specs} == {
        "deduplicated",
        "scrubbed (recall 95 %)",
        "patient",
    }
    main = [plan.spec_of("12k", "gpt2", epsilon, 0) for epsilon in (None, 8.0)]
    assert {spec.run_id for spec in plan.defended_specs(0)} == {spec.run_id for spec in [*specs, *main]}


def test_a_seed_is_finished_before_the_next_and_parts_keep_their_order(tmp_path: Path) -> None:
    rows = plan.planned(Workspace(tmp_path, shared=()), plan.parts((0, 1)))
    assert [row.spec.training.seed for row in rows] == sorted(row.spec.training.seed for row in rows)
    first = list(dict.fromkeys(row.part for row in rows if row.spec.training.seed == 0))
    assert first[: len(plan.ORDER)] == list(plan.ORDER)
    assert {row.state for row in rows} == {"missing"} and all(row.seconds > 0 for row in rows)
    with pytest.raises(ValueError, match="There is no part “5k-gpt2”"):
        training.chosen_parts(["5k-gpt2"], (0,))


@pytest.mark.usefixtures("asks_few_claims")
def test_what_is_missing_is_trained_and_what_another_process_makes_is_skipped(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], smoke_spec, tmp_path: Path
) -> None:
    missing, busy = smoke_spec(epochs=1, seed=5), smoke_spec(epochs=1, seed=6)
    part = plan.Part("smoke", (*smoke_specs.values(), busy, missing))
    rows = plan.planned(workspace, [part])
    assert [row.state for row in rows] == ["there", "there", "there", "missing", "missing"]
    told: list[str] = []
    with held(workspace.lock_file(busy.run_id), should_stop=lambda: True) as holding:
        assert holding
        done = training.train_missing(workspace, rows, export_to=tmp_path / "out", say=told.append)
    assert done == [missing.run_id] and workspace.find(busy) is None
    assert any("is being made by another process" in line for line in told)
    assert all(line.endswith("minutes left") for line in told if line.startswith(("4/5", "5/5")))
    assert any(line.startswith("  step ") for line in told)
    shipped = {folder.name for folder in (tmp_path / "out" / "runs").iterdir()}
    assert shipped == {spec.run_id for spec in (*smoke_specs.values(), missing)}
    again = training.train_missing(workspace, plan.planned(workspace, [part]), limit=0, say=told.append)
    assert again == [] and workspace.find(busy) is None, "a limit of 0 trains nothing"


class ToFile:
    """Appends each line to a file, from any process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {text}\n")


def test_two_runs_are_trained_at_a_time_and_one_that_fails_keeps_no_other_from_it(
    workspace: Workspace, smoke_spec, tmp_path: Path
) -> None:
    good = smoke_spec(epochs=1, seed=5)
    bad = good.model_copy(update={"model": ModelSpec(kind="gpt2", base=str(tmp_path / "no model"))})
    rows = plan.planned(workspace, [plan.Part("smoke", (bad, good))])
    say = ToFile(tmp_path / "lines")
    with pytest.raises(ValueError, match=rf"These runs failed: {bad.run_id} \(.*no model.*The same command resumes"):
        training.train_missing(workspace, rows, processes=2, say=say)
    assert workspace.find(good) is not None and workspace.find(bad) is None
    told = [line.split(" ", 1) for line in say.path.read_text(encoding="utf-8").splitlines()]
    begun = [line for process, line in told if process == str(os.getpid())]
    assert [line.split(" ")[:3] for line in begun if "seed" in line] == [
        [f"{number}/2", "smoke", row.spec.run_id] for number, row in enumerate(rows, start=1)
    ]
    trained_by = {process for process, line in told if line.startswith(f"{good.run_id}: step")}
    assert len(trained_by) == 1 and str(os.getpid()) not in trained_by
    limited = plan.planned(workspace, [plan.Part("smoke", (smoke_spec(epochs=1, seed=7),))])
    assert training.train_missing(workspace, limited, processes=2, limit=0, say=say) == []


def test_only_the_first_seed_of_the_plan_has_controls_grid_and_defences() -> None:
    """With `--seeds 1,2` seed 1 took the place of seed 0, which added some forty runs that no plan has."""
    whole = {spec.run_id for part in plan.parts() for spec in part.specs}
    for seeds in ((1,), (1, 2), (2, 1)):
        chosen = plan.parts(seeds)
        assert {spec.run_id for part in chosen for spec in part.specs} < whole
        assert {part.name for part in chosen} == {f"{size}-{kind}" for size in plan.SIZES for kind in plan.KINDS}
        assert not any(spec.training.clip_norm and not spec.privacy.private for part in chosen for spec in part.specs)
    reordered = {spec.run_id for part in plan.parts((2, 0, 1)) for spec in part.specs}
    assert reordered == whole, "the order of the seeds changes nothing"


@pytest.fixture
def shipped(workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path) -> Workspace:
    """An empty data folder beside shipped runs: one whole, and two with figures only."""
    for spec in smoke_specs.values():
        export_run(workspace, spec, tmp_path / "shipped")
    return Workspace(tmp_path / "fresh", shared=(tmp_path / "shipped",))


def test_the_plan_counts_what_is_shipped_and_the_time_of_what_is_missing_alone(
    shipped: Workspace, smoke_specs: dict[str, RunSpec], smoke_spec
) -> None:
    missing = smoke_spec(epochs=1, seed=5)
    part = plan.Part("smoke", (*smoke_specs.values(), missing))
    rows = plan.planned(shipped, [part])
    states = {row.spec.run_id: row.state for row in rows}
    assert states.pop(smoke_specs["base"].run_id) == "there" and states.pop(missing.run_id) == "missing"
    assert set(states.values()) == {"figures only"} and len(states) == 2
    assert sum(row.seconds for row in rows) == plan.estimated_seconds(missing)
    hours = plan.estimated_seconds(missing) / 3_600
    lines = training.listed([replace(row, part="a part with a name that is longer than most") for row in rows])
    head, *runs = lines.partition("\n\n")[0].splitlines()
    assert [line.index(row.spec.run_id) for line, row in zip(runs, rows, strict=True)] == [head.index("run ")] * 4
    last = training.listed(rows).splitlines()[-1]
    assert last.startswith("together") and last.endswith(
        f"1 of 4 there, 2 shipped with figures only, 1 missing; about {hours:.1f} hours for the missing ones"
    )
    again = plan.planned(shipped, [part], again=True)
    assert [row.seconds > 0 for row in again] == [row.state != "there" for row in again]
    assert training.listed(again).endswith("hours for the missing ones and those with figures only")


@pytest.mark.usefixtures("asks_few_claims")
def test_what_is_shipped_with_figures_only_is_trained_again_on_request_alone(
    shipped: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    part, told = plan.Part("smoke", tuple(smoke_specs.values())), []
    rows = plan.planned(shipped, [part])
    out = tmp_path / "out"
    assert training.train_missing(shipped, rows, export_to=out, say=told.append) == [] and told == []
    assert not out.exists(), "shipped runs have been exported"
    rows = plan.planned(shipped, [part], again=True)
    trained = training.train_missing(shipped, rows, again=True, limit=1, export_to=out, say=told.append)
    assert len(trained) == 1 and not shipped.run(trained[0]).figures_only
    assert [folder.name for folder in (out / "runs").iterdir()] == trained
    assert not (shipped.root / "runs" / smoke_specs["base"].run_id).exists(), "the shipped control was used"
    assert [row.state for row in plan.planned(shipped, [part])].count("figures only") == 1


def test_the_command_counts_the_runs_that_came_with_the_software(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.delenv("PHILAB_SHIPPED", raising=False)
    assert main(["demo", "--plan", "--data", str(tmp_path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    states = Counter(row["state"] for row in rows)
    demo = {folder.name: (folder / FIGURES_ONLY_FILE).exists() for folder in (DEMO / "runs").iterdir()}
    further = {folder.name for folder in (DEMO.parent / "findings" / "runs").iterdir()}
    named = {row["run"] for row in rows}
    assert states["there"] == len(named & ({name for name, small in demo.items() if not small} | further))
    assert states["figures only"] == len((named & {name for name, small in demo.items() if small}) - further) > 0
    assert all((row["seconds"] > 0) == (row["state"] == "missing") for row in rows)


def test_time_left_is_the_estimates_at_the_speed_that_was_measured() -> None:
    now = [0.0]
    left = WorkLeft([100.0, 100.0, 300.0, 100.0], clock=lambda: now[0])
    assert left.seconds == 600 and str(left) == "about 10 minutes left"
    left.drop(100.0)  # another process makes it
    now[0] = 200.0
    left.finish(100.0)
    assert left.seconds == 800, "twice as slow as estimated, and 400 s are left"
    now[0] = 5_000.0
    left.drop(0.0)  # waiting is no work
    now[0] = 5_100.0
    left.finish(300.0)
    assert left.seconds == pytest.approx(100 * 300 / 400)
    assert str(WorkLeft([7_200.0 + 360])) == "about 2.1 hours left"


def test_a_run_with_figures_only_is_small_whole_and_says_what_it_lacks(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for spec in smoke_specs.values():
        export_run(workspace, spec, out)
        assert export_run(workspace, spec, out) == [], "a second export has nothing to do"
    older = out / "runs" / smoke_specs["dp"].run_id / "tables"
    write_table(older, "metrics", workspace.run(smoke_specs["dp"].run_id).metrics.head(1), version=1)
    assert export_run(workspace, smoke_specs["dp"], out) == [older.parent], "its figures were made again since"
    whole = out / "runs" / smoke_specs["dp"].run_id
    (whole / FIGURES_ONLY_FILE).rename(whole / "away")
    write_table(older, "metrics", workspace.run(smoke_specs["dp"].run_id).metrics, version=1)
    assert export_run(workspace, smoke_specs["dp"], out) == [], "a run with all its tables keeps them"
    (whole / "away").rename(whole / FIGURES_ONLY_FILE)
    export_run(workspace, smoke_specs["dp"], out)
    shipped = Workspace(tmp_path / "elsewhere", shared=(out,))
    base, small = shipped.run(smoke_specs["base"].run_id), shipped.run(smoke_specs["dp"].run_id)
    assert not base.figures_only, "other runs need the tables of their control"
    assert small.figures_only and small.privacy is not None
    assert sum(path.stat().st_size for path in small.folder.rglob("*") if path.is_file()) < MOST_BYTES
    full = workspace.run(small.id)
    for name in ("metrics", "canaries", "history"):
        pd.testing.assert_frame_equal(small.table(name), full.table(name))
    assert table_version(small.folder / "tables", "metrics") == table_version(full.folder / "tables", "metrics")
    for name in ("scores", "generations", "hits"):
        with pytest.raises(TableMissing, match=f"has figures only: its table “{name}” was left out"):
            small.table(name)
    assert list(damages(shipped)) == []
    assert refresh(small, shipped).state == "up to date"
    texts, hits = examples(small)
    first, marked = examples(full)
    assert texts["text"].tolist() == first["text"].tolist() and len(hits) == len(marked)
    assert (texts.groupby("prompt_id").size() == EXAMPLES).all() and texts["prompt_id"].nunique() == 14


def test_a_copy_that_lacks_a_further_table_is_whole_only_if_it_says_so(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    out, run_id = tmp_path / "out", smoke_specs["dp"].run_id
    export_run(workspace, smoke_specs["dp"], out)
    folder = out / "runs" / run_id
    kept = shutil.copy(folder / "tables" / "history.parquet", tmp_path)
    leave_out(folder, "history")
    small = Workspace(tmp_path / "elsewhere", shared=(out,)).run(run_id)
    with pytest.raises(TableMissing, match="its table “history” was left out"):
        small.table("history")
    stored = FiguresOnly.read(folder)
    assert stored == FiguresOnly(generations=stored.generations, history=stored.history, further=("history",))
    stored.model_copy(update={"further": ()}).write(folder)
    assert Workspace(tmp_path / "another", shared=(out,)).find(smoke_specs["dp"]) is None, "a table was lost"
    shutil.copy(kept, folder / "tables")
    (folder / FIGURES_ONLY_FILE).unlink()
    with pytest.raises(ValueError, match="is no copy with figures only"):
        leave_out(folder, "history")


def test_excerpts_agree_with_the_tables_that_they_replace(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    plain = smoke_specs["plain"]
    export_run(workspace, plain, tmp_path / "out")
    small = Workspace(tmp_path / "elsewhere", shared=(tmp_path / "out",)).run(plain.run_id)
    scores = workspace.run(plain.run_id).table("scores")
    loss = scores[scores["attack"] == "loss"]
    judged = loss[loss["split"] == "heldout"]
    assert small.table("heldout_losses")["tokens"].sum() == judged["tokens"].sum()
    assert small.table("heldout_losses")["nats"].sum() == pytest.approx(-(judged["score"] * judged["tokens"]).sum())
    by_patient = small.table("membership").query("level == 'patient' and metric == 'auc'").iloc[0]
    resamples = plain.audit.bootstrap
    found = strongest(loss, "auc", resamples=resamples, seed=plain.audit.seed)
    assert found is not None
    assert (by_patient["value"], by_patient["low"], by_patient["high"]) == pytest.approx(
        (found.interval.value, found.interval.low, found.interval.high)
    )


def test_held_out_losses_are_summed_by_patient() -> None:
    scores = pd.DataFrame(
        {
            "patient_id": ["a", "a", "b", "c"],
            "split": ["heldout", "heldout", "heldout", "member"],
            "tokens": [2, 3, 4, 5],
            "score": [-1.0, -2.0, -0.5, -9.0],
        }
    )
    found = losses_by_patient(scores).set_index("patient_id")
    assert found["tokens"].to_dict() == {"a": 5, "b": 4}
    assert found["nats"].to_dict() == {"a": 2 * 1.0 + 3 * 2.0, "b": 4 * 0.5}


def test_a_thinned_history_keeps_epochs_and_the_last_step() -> None:
    losses = [1.0 if number % 333 == 0 else None for number in range(1, 1_001)]
    steps = pd.DataFrame({"step": range(1, 1_001), "eval_loss": losses})
    found = thinned(steps)
    assert len(found) <= 65 and found["step"].iloc[-1] == 1_000 and found["step"].iloc[0] == 1
    assert set(found.loc[found["eval_loss"].notna(), "step"]) == {333, 666, 999}
    assert found["step"].is_monotonic_increasing and found["step"].is_unique
    assert thinned(steps.head(20)).equals(steps.head(20))


@pytest.mark.parametrize(("rows", "part"), ((0, 0.5), (3, 0.5), (6_000, 1.0)))
def test_a_table_is_packed_without_losing_a_bit(rows: int, part: float, tmp_path: Path) -> None:
    notes = [f"P{row // 9:04d}-{row % 9 + 1:02d}" for row in range(rows)]
    frame = pd.DataFrame({"attack": "loss", "note_id": notes, "score": [1 / (3 + row) for row in range(rows)]})
    path = write_table(tmp_path, "scores", frame, version=4)
    before, size = pq.read_table(path), path.stat().st_size
    pack(path)
    after = pq.read_table(path)
    assert after.equals(before) and (after.to_pandas().dtypes == before.to_pandas().dtypes).all()
    assert table_version(tmp_path, "scores") == 4
    assert path.stat().st_size < part * size, "most of a short table would be descriptions of its columns"
