"""Defences side by side: which runs stand behind a row, what a filter takes away, and what is not trained yet."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from core.attacks.memorisation.extraction import index_of, value_hits
from core.corpus.tables import Corpus
from core.evaluation.defences.filtering import (
    false_alarms,
    filtered,
    filtered_metrics,
    filters,
    harmless_texts,
    hits_after,
)
from core.evaluation.defences.side_by_side import COLUMNS, RISKS, FilteredMetrics, compare, lineup, measured, settings
from core.evaluation.summary import METRIC_COLUMNS, attempts_with_leak
from core.evaluation.sweep.sweeps import sweeps_of
from core.phi.detector.engine import rules, shapes
from core.phi.output_filter import OutputFilter
from core.pipeline.training_run import execute
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import DefenceSpec

ROOT = Path(__file__).resolve().parents[3]
NAMES = "full_name_patients"


@pytest.fixture(scope="module")
def leaky(leaky_workspace) -> Workspace:
    return Workspace(leaky_workspace, shared=())


@pytest.fixture(scope="module")
def cohort(leaky) -> Corpus:
    return leaky.corpus(leaky.runs()[0].spec.corpus)


def written(*pairs: tuple[str, str]) -> pd.DataFrame:
    """A generations table of (prompt, text)."""
    rows = [(number, 1, prompt, number, text) for number, (prompt, text) in enumerate(pairs)]
    return pd.DataFrame(rows, columns=["generation_id", "prompt_id", "prompt", "seed", "text"])


@pytest.fixture(scope="module")
def people(cohort) -> dict[str, dict]:
    """A member's and a held-out patient's record."""
    return {
        split: cohort.patients[cohort.patients["split"] == split].iloc[0].to_dict() for split in ("member", "heldout")
    }


# What a filter leaves ------------------------------------------------------------------------------------------------


def test_hits_after_a_filter_are_those_of_the_filtered_texts(cohort, people):
    who, other = people["member"], people["heldout"]
    generations = written(
        ("Patient:", f" {who['full_name']} came"),
        ("Seen on rounds:", f" {who['mrn'].removeprefix('MRN-')} came"),  # digits alone have no shape
        ("Chart:", f" {who['ssn']} and {other['email']}"),
        ("Chart:", " nothing here"),
    )
    index = index_of(cohort)
    stored = value_hits(generations, index)
    assert stored.groupby("generation_id")["patient_id"].nunique().to_dict() == {0: 1, 1: 1, 2: 2}
    for name, one in filters(cohort).items():
        after = hits_after(generations, stored, one, index).sort_values(["generation_id", "start"], ignore_index=True)
        again = value_hits(filtered(generations, one), index)
        pd.testing.assert_frame_equal(after, again, check_dtype=False)
        left = set(after.loc[after["patient_id"].notna(), "generation_id"])
        expected = {"shapes": {1}, "known values": set(), "both": set(), "both, answer alone": set()}
        assert left == expected[name], name
    assert filtered(generations, None) is generations


def test_filtered_metrics_replace_extraction_and_nothing_else(leaky, cohort):
    run = next(run for run in leaky.runs() if not run.spec.is_base and not run.spec.privacy.private)
    generations, hits = run.table("generations"), run.table("hits")
    base = leaky.run(run.spec.base_spec().run_id).table("hits")
    nothing = hits_after(generations, hits, OutputFilter(detector=None), index_of(cohort))
    same = filtered_metrics(run.metrics, generations, nothing, base[base["rule"] == "value"], corpus=cohort)
    keys = ["metric", "arm"]
    before = run.metrics[run.metrics["metric"] != "old_rule_attempts"].set_index(keys).sort_index()
    pd.testing.assert_frame_equal(same.set_index(keys).sort_index(), before, check_dtype=False)
    assert before.loc[("full_name_patients", "run"), "value"] > 0, "this model leaks, so a filter has something to do"

    one = filters(cohort)["both"]
    index = index_of(cohort)
    after = filtered_metrics(
        run.metrics, generations, hits_after(generations, hits, one, index), base.head(0), corpus=cohort
    ).set_index(keys)
    found = value_hits(filtered(generations, one), index)
    pool = {"run": 3, "heldout": 1}
    expected = next(attempts_with_leak(found[found["patient_id"].notna()], len(generations), pool))
    assert (
        after.loc[("attempts_with_leak", "run"), "value"]
        == expected.value
        < before.loc[("attempts_with_leak", "run"), "value"]
    )
    for metric in ("auc_loss", "perplexity_heldout"):
        assert after.loc[(metric, "run"), "value"] == before.loc[(metric, "run"), "value"]
    assert list(METRIC_COLUMNS) == list(same.columns)


def test_filters_with_another_detector_name_it(cohort):
    """Stored tables and pages have the shapes under “shapes”; another engine is never called so."""
    assert list(filters(cohort)) == ["shapes", "known values", "both", "both, answer alone"]
    assert filters(cohort)["both"].detector == shapes()
    other = filters(cohort, rules())
    assert list(other) == [rules().name, "known values", "both", "both, answer alone"]
    assert [one.detector for one in other.values()] == [rules(), None, rules(), rules()]


def test_false_alarms_count_texts(cohort):
    texts = {"two": ["call 800-555-0142", "drink water"], "none": []}
    found = false_alarms(texts, {"shapes": OutputFilter(), "known values": filters(cohort)["known values"]})
    assert found[["filter", "texts", "value", "n"]].to_dict("records") == [
        {"filter": "shapes", "texts": "two", "value": 0.5, "n": 2},
        {"filter": "known values", "texts": "two", "value": 0.0, "n": 2},
    ]
    assert (found["low"] <= found["value"]).all() and (found["high"] > found["value"]).all()


def test_harmless_texts_hold_nobodys_identifier(cohort):
    texts = harmless_texts(cohort)
    everything = [text for some in texts.values() for text in some]
    hits = value_hits(written(*[("", text) for text in everything]), index_of(cohort))
    assert len(texts["public text"]) > 100 and hits[hits["patient_id"].notna()].empty


# The table -----------------------------------------------------------------------------------------------------------


def test_the_table_holds_each_runs_own_figures(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    (sweep,) = settings(sweeps_of(workspace.runs()))
    compared = lineup(sweep)
    for at, name in ((0, "plain"), (3, "dp")):
        assert [run.id for run in compared[at].runs(workspace.runs())] == [smoke_specs[name].run_id]
    table = measured(compared, workspace)
    assert list(table.columns) == list(COLUMNS)
    other = measured(compared, workspace, rules())
    unfiltered = ~table["defence"].isin(["filter", "dp-filter"])
    pd.testing.assert_frame_equal(table[unfiltered], other[unfiltered])
    assert FilteredMetrics.of(workspace, compared[-1].spec, rules()).through.detector == rules()
    assert list(dict.fromkeys(table["defence"])) == [one.key for one in compared] and len(compared) == 7
    trained = table[table["seeds"] > 0]
    assert set(trained["defence"]) == {"nothing", "dp-note", "dp-filter", "filter"}
    assert table.loc[table["seeds"] == 0, ["value", "perplexity", "training_seconds"]].isna().all(axis=None)
    assert set(table["metric"]) > set(RISKS)
    for key, name in (("nothing", "plain"), ("dp-note", "dp"), ("filter", "plain")):
        run = workspace.run(smoke_specs[name].run_id)
        metrics = run.metrics.set_index(["metric", "arm"])
        row = table[(table["defence"] == key) & (table["metric"] == "auc_loss")].iloc[0]
        assert row["value"] == metrics.loc[("auc_loss", "run"), "value"] and math.isnan(row["control"])
        assert row["base"] == metrics.loc[("auc_loss", "base"), "value"]
        assert row["perplexity"] == metrics.loc[("perplexity_heldout", "run"), "value"]
        assert row["known_words"] == metrics.loc[("known_words", "run"), "value"]
        assert row["training_seconds"] == run.table("history")["seconds"].iloc[-1]
        share = table[(table["defence"] == key) & (table["metric"] == "full_name_patients")].iloc[0]
        assert share["low"] <= share["value"] <= share["high"] and share["control"] >= 0


def test_a_run_without_stored_texts_has_a_filtered_row_of_what_no_filter_changes(
    smoke_workspace, smoke_specs, monkeypatch
):
    """Its names cannot be counted again, and it is not called untrained: perplexity, words and attacks are there."""
    workspace = Workspace(smoke_workspace, shared=())
    compared = lineup(settings(sweeps_of(workspace.runs()))[0])
    monkeypatch.setattr(Run, "figures_only", property(lambda run: run.id == smoke_specs["dp"].run_id))
    table = measured(compared, workspace).set_index(["defence", "metric"])
    names, loss, bare = (
        table.loc[key] for key in (("dp-filter", NAMES), ("dp-filter", "auc_loss"), ("dp-note", NAMES))
    )
    assert names["seeds"] == 0 and math.isnan(names["value"]) and bare["seeds"] == 1
    assert names["training_seconds"] == bare["training_seconds"] and names["known_words"] == bare["known_words"]
    assert names["perplexity"] == bare["perplexity"]
    assert loss["seeds"] == 1 and loss["value"] == table.loc[("dp-note", "auc_loss"), "value"]
    assert table.loc[("filter", NAMES), "seeds"] == 1, "the other one has its texts"


@pytest.mark.parametrize(("recall", "told"), [(0.95, "95 %"), (0.996, "99.6 %"), (0.9996, "99.96 %"), (1.0, "100 %")])
def test_a_recall_below_one_is_not_told_as_a_hundred_percent(smoke_workspace, recall, told):
    sweep = settings(sweeps_of(Workspace(smoke_workspace, shared=()).runs()))[0]
    (name,) = [one.name for one in lineup(sweep, recall=recall) if one.key == "scrubbing"]
    assert name == f"Scrubbing, recall {told}" and DefenceSpec(scrub_recall=recall).label.endswith(f"recall {told})")


@pytest.mark.usefixtures("asks_few_claims")
def test_a_defended_run_fills_its_row_and_joins_no_curve(smoke_workspace, smoke_specs, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    before = sweeps_of(workspace.runs())
    compared = lineup(settings(before)[0], recall=0.9)
    spec = next(one.spec for one in compared if one.key == "scrubbing")
    assert spec.defence == DefenceSpec(scrub_recall=0.9)
    assert (spec.corpus, spec.training) == (smoke_specs["plain"].corpus, smoke_specs["plain"].training)
    events: list[dict] = []
    run = execute(spec, workspace, on_event=events.append)
    assert sweeps_of(workspace.runs()) == before
    row = measured(compared, workspace).set_index(["defence", "metric"]).loc[("scrubbing", "full_name_patients")]
    assert (
        row["seeds"] == 1
        and row["perplexity"] == run.metrics.set_index(["metric", "arm"]).loc[("perplexity_heldout", "run"), "value"]
    )
    plain = workspace.run(smoke_specs["plain"].run_id)
    losses = {one.id: one.table("history")["loss"].iloc[0] for one in (run, plain)}
    assert losses[run.id] != losses[plain.id], "it read other notes"
    scores = {one.id: one.table("scores")["note_id"].tolist() for one in (run, plain)}
    assert scores[run.id] == scores[plain.id], "it is judged on the same notes"


def test_several_seeds_are_one_row(smoke_workspace, smoke_specs):
    workspace = Workspace(smoke_workspace, shared=())
    compared = lineup(settings(sweeps_of(workspace.runs()))[0])[:1]
    frame = pd.DataFrame(
        [
            ("gpt2", "tiny", "assets", "c", math.inf, seed, "auc_loss", "run", 0.7 + 0.1 * seed, 0.6, 0.9)
            for seed in (0, 1)
        ],
        columns=["kind", "size", "base", "corpus", "epsilon", "seed", "metric", "arm", "value", "low", "high"],
    )
    row = compare(compared, {"nothing": frame}, {"nothing": 3.0}).set_index("metric").loc["auc_loss"]
    assert row["value"] == pytest.approx(0.75) and row["seeds"] == 2 and row["training_seconds"] == 3.0


@pytest.mark.slow
def test_comparing_needs_no_torch():
    code = "import sys, core.evaluation.defences.side_by_side; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603
