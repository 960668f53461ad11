"""What the report says about rare diseases: the shipped runs under the ratio to the public model, and in words."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from core.evaluation.report.rarity import BUCKET_COLUMNS, TREND_COLUMNS, rarity
from core.runs.store import Workspace
from tests.evaluation.report.conftest import part

DEMO = Path(__file__).resolve().parents[3] / "assets" / "demo"
PLAIN, PRIVATE = "gpt2-804b3c7f558b", "gpt2-2be987fac6e6"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("empty"), shared=(DEMO,))
    runs = [workspace.run(PLAIN), workspace.run(PRIVATE)]
    corpus = workspace.corpus(runs[0].spec.corpus, store=False)
    return rarity(workspace, runs, {run.id: workspace.audit(run.id) for run in runs}, corpus)


def rarity_html(buckets, trends, said, names) -> str:
    return part("rarity", "rarity", buckets.to_dict("records"), trends.to_dict("records"), said, names)


def test_the_private_run_claims_nothing_and_the_plain_one_is_at_its_ceiling(found):
    _, trends, said = found
    assert list(trends.columns) == list(TREND_COLUMNS)
    rows = trends.set_index(["run", "attack"])
    assert set(rows.loc[PRIVATE, "rarity"]) == {"no trend found", "too few held-out patients or members"}
    assert set(rows.loc[(PLAIN, ["ratio base", "loss"]), "rarity"]) == {"ceiling: cannot tell"}
    assert rows.loc[(PLAIN, "rmia"), "rarity"] == "no trend found"
    assert (rows["p_corrected"].dropna() >= rows["p_value"].dropna()).all()
    assert rows.loc[(PLAIN, "loss"), "heldout_rho"] == pytest.approx(-0.28, abs=0.01), (
        "rarer ones are harder to predict"
    )
    assert (
        said[PLAIN][0].startswith("Ceiling: the likelihood ratio to the public model (ratio base)")
        and "the data do not show" in said[PRIVATE][0]
    )


def test_every_bucket_has_twenty_held_out_patients_and_its_control(found):
    buckets, _, _ = found
    assert list(buckets.columns) == list(BUCKET_COLUMNS) and set(buckets["attack"]) == {"ratio base"}
    assert buckets["kept"].all() and (buckets[["members", "heldout"]].min() >= 20).all()
    assert (buckets["base_low"] <= 0.5 + 0.05).all() and buckets["base_auc"].between(0.3, 0.7).all()
    for _, rows in buckets.groupby("run"):
        assert rows["log_probability"].is_monotonic_increasing and rows["heldout"].sum() == 129


def test_the_page_shows_both_with_the_direction_of_every_sign(found):
    html = rarity_html(*found[:2], found[2], {PLAIN: "A", PRIVATE: "B"})
    assert html.count("above 0, rarer patients leak more") == 1 and "ceiling: cannot tell" in html
    assert "public model of A, B" in html and "nan" not in html


def test_without_codes_or_patients_enough_nothing_is_measured(found):
    empty = found[0].head(0), found[1].head(0)
    assert "Not measured" in rarity_html(*empty, {}, {})
    few = found[0].assign(kept=False, auc=math.nan, base_auc=math.nan)
    assert "No bucket holds 20 members" in rarity_html(few, found[1].head(0), {}, {PLAIN: "A", PRIVATE: "B"})
