"""One home for every figure: the records, what reads them, and that a new figure needs a function and a record."""

from __future__ import annotations

import importlib
import json
import math
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from core.__main__ import main
from core.evaluation import registry
from core.evaluation.figures.record import SHARE, Chart, Figure
from core.evaluation.summary import Row, RunTables, summarise
from core.evaluation.sweep.tradeoff import points
from core.runs.store import Workspace
from core.runs.tables import UTILITY, table_version
from tests.pages.visit import visit

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "methods" / "figures.md"
SHIPPED = ROOT / "assets" / "demo"


def short_texts(run: RunTables) -> Iterator[Row]:
    """A figure of nobody's interest: the share of generated texts under 60 characters, and a control of 0.25."""
    short, count = int((run.generations["text"].str.len() < 60).sum()), len(run.generations)
    yield Row("toy_short_texts", "run", short / count, 0.0, 1.0, count, "texts")
    yield Row("toy_short_texts", "heldout", 0.25, 0.2, 0.3, count, "made up")


TOY = Figure(
    key="toy_short_texts",
    label="toy texts",
    explanation="Share of generated texts that are short, which says nothing.",
    unit="share of generated texts",
    number=SHARE,
    range=(0.0, 1.0),
    better="lower",
    interval="none to speak of",
    formula="texts under 60 characters / texts",
    source="Nobody 1900, §1",
    section="The figures",
    controls=("a made-up number",),
    rows=short_texts,
    title="short toy texts",
    card=True,
    chart=Chart(9, "generated toy texts that are short"),
    since=registry.version() + 1,
)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Figure:
    """A toy figure that has a record during a test."""
    monkeypatch.setattr(registry, "_figures", registry.by_key([*registry.figures(), TOY]))
    return TOY


def test_a_new_figure_is_one_function_and_one_record(toy, smoke_workspace, smoke_specs, tmp_path, monkeypatch, capsys):
    """It is made for runs that are there, and found on the page, in the report and in the exports."""
    data = tmp_path / "data"
    shutil.copytree(smoke_workspace, data)
    monkeypatch.setenv("PHILAB_DATA", str(data))
    dp = smoke_specs["dp"].run_id
    assert toy.key not in set(Workspace(data, shared=()).run(dp).metrics["metric"])
    assert main(["refresh"]) == 0
    run = Workspace(data, shared=()).run(dp)
    row = run.metrics.set_index(["metric", "arm"]).loc[(toy.key, "run")]
    short = (run.table("generations")["text"].str.len() < 60).mean()
    assert row["value"] == pytest.approx(short) and (toy.key, "base") in set(
        zip(run.metrics["metric"], run.metrics["arm"], strict=True)
    )
    assert f"| {toy.key} | run |" in (run.folder / "README.md").read_text(encoding="utf-8"), "on the model card"

    app = visit("tradeoff", risk=toy.label, at="8")
    said = "\n".join(one.value for one in app.markdown)
    assert f"**Risk:** {toy.chart.axis}: {SHARE.text(short)}" in said and "for held-out patients" in said
    assert toy.explanation in "\n".join(one.value for one in app.caption)
    tables = [table.value for table in app.dataframe if "metric" in table.value]
    assert tables and all(toy.key in set(table["metric"]) for table in tables)

    out = [tmp_path / f"report.{suffix}" for suffix in ("html", "json", "zip")]
    capsys.readouterr()
    assert main(["report", dp, *(part for path in out for part in ("--out", str(path)))]) == 0
    html, told = out[0].read_text(encoding="utf-8"), json.loads(out[1].read_text(encoding="utf-8"))
    assert toy.title in html and toy.explanation in html
    controls = [one for one in told["tables"]["controls"] if one["metric"] == toy.key]
    assert [one["value"] for one in controls] == [pytest.approx(short)] and controls[0]["against"] == "held out"
    assert toy.key in {one["metric"] for one in told["tables"]["figures"]}
    with zipfile.ZipFile(out[2]) as packed:
        assert all(toy.key in packed.read(f"{name}.csv").decode() for name in ("controls", "figures"))
    assert f"| `{toy.key}` | {toy.label} |" in registry.markdown_table(), "and in the documentation"


def test_a_key_is_taken_once_and_a_family_is_no_figure(toy):
    with pytest.raises(ValueError, match="two figures have the key “toy_short_texts”"):
        registry.by_key([*registry.figures(), toy])
    with pytest.raises(ValueError, match="family"):
        registry.by_key([replace(toy, key="toy:1")])
    assert registry.find("toy_short_texts:1") is None and registry.find("exposure:8").key == "exposure"
    with pytest.raises(KeyError, match="there is no figure “nothing”"):
        registry.figure("nothing")


def test_a_function_makes_only_figures_that_have_a_record(smoke_workspace, smoke_specs, monkeypatch):
    workspace = Workspace(smoke_workspace, shared=())
    run = workspace.run(smoke_specs["base"].run_id)
    tables = {name: run.table(name) for name in ("scores", "generations", "hits", "canaries")}
    stray = replace(TOY, key="toy_other")
    monkeypatch.setattr(registry, "_figures", registry.by_key([*registry.figures(), stray]))
    with pytest.raises(KeyError, match="toy_short_texts"):
        summarise(tables, None, corpus=workspace.corpus(run.spec.corpus), audit=run.spec.audit)


def test_every_figure_is_explained_and_stays_within_its_range():
    """Every stored figure of every shipped run has a record, and no interval reaches beyond what is possible."""
    for run in Workspace(ROOT / "nowhere", shared=(SHIPPED,)).runs():
        for row in run.metrics.itertuples():
            low, high = registry.possible(row.metric)
            assert registry.explain(row.metric).endswith("."), row.metric
            ends = [end for end in (row.value, row.low, row.high) if not math.isnan(end)]
            assert all(low - 1e-12 <= end <= high + 1e-12 for end in ends), (run.id, row.metric, row.arm)
    assert registry.explain("exposure:8") == registry.figure("exposure").explanation
    assert registry.explain("field_patients:ssn") == registry.figure("field_patients").explanation


def test_records_point_to_what_exists():
    headings = set()
    for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "methods").glob("*.md")]:
        text = path.read_text(encoding="utf-8")
        headings |= set(re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)) | set(re.findall(r"\*\*(.+?)\.?\*\*", text))
    for one in registry.figures():
        assert one.section in headings, f"{one.key}: no document has a section “{one.section}”"
        assert not one.excess_of or registry.figure(one.excess_of).rows is not None
        assert one.range[0] < one.range[1] and one.explanation and one.formula and one.interval
        if isinstance(one.rows, str):
            module, _, name = one.rows.partition(":")
            assert one.function() is getattr(importlib.import_module(module), name)


def test_shipped_tables_are_of_a_version_that_is_known():
    runs = Workspace(ROOT / "nowhere", shared=(SHIPPED,)).runs()
    found = {table_version(run.folder / "tables", "metrics") for run in runs}
    assert 1 in found and found <= set(range(1, registry.version() + 1))


def test_the_figures_of_a_shipped_run_follow_from_its_tables(tmp_path):
    """`summarise` gives what is stored, to the last digit that the machine's arithmetic keeps."""
    workspace = Workspace(tmp_path, shared=(SHIPPED,))
    bases = [run for run in workspace.runs() if run.spec.is_base and run.spec.model.kind == "gpt2"]
    whole = {table_version(run.folder / "tables", "metrics"): run for run in bases if not run.figures_only}
    assert {1, 2} <= set(whole)
    for version, run in whole.items():
        names = ("scores", "generations", "hits", "canaries", UTILITY)
        tables = {name: run.table(name) for name in names if run.has_table(name)}
        corpus = workspace.corpus(run.spec.corpus, store=False)
        made = summarise(tables, None, corpus=corpus, audit=run.spec.audit, base=run.spec.model.base)
        made, stored = (  # figures that are new or made otherwise since then cannot be the same
            rows[[registry.figure(metric).since <= version for metric in rows["metric"]]].reset_index(drop=True)
            for rows in (made, run.metrics)
        )
        assert len(stored) >= len(run.metrics) - 1
        pd.testing.assert_frame_equal(made, stored, check_dtype=False, rtol=1e-9)


def test_a_figure_of_a_newer_version_is_shown_as_it_is():
    """Points know no range for it, so nothing is cut; no page, report or limit takes it for something else."""
    rows = pd.DataFrame({"metric": "of tomorrow", "arm": "run", "value": [3.0, 5.0], "low": 1.0, "high": 9.0})
    found = points(rows.assign(kind="gpt2", size="tiny", base="assets", corpus="c", epsilon=8.0, seed=[0, 1]))
    assert found.iloc[0]["high"] > 9.0 and registry.possible("of tomorrow") == (-math.inf, math.inf)
    assert registry.charted(["of tomorrow"]) == registry.reported(["of tomorrow"]) == {}


def test_the_most_copies_stand_for_a_family():
    keys = ["exposure:2", "exposure:16", "exposure:8", "auc_loss", "field_patients:ssn"]
    assert list(registry.charted(keys)) == ["auc_loss", "exposure:16"] == list(registry.reported(keys))
    exposure = registry.figure("exposure:16")
    assert exposure.written(exposure.title, "exposure:16") == "exposure of canaries, 16 copies, bits"
    assert exposure.written(exposure.chart.axis, "exposure:1") == "exposure, bits (1 copy)"


def test_a_drawn_figure_of_membership_says_of_which_attack_it_is():
    of_loss = [one for one in registry.figures() if "_loss" in one.key]
    assert {one.key for one in of_loss} >= {"auc_loss", "auc_loss_patients", "privacy_leakage_loss"}
    assert all("loss attack" in one.label for one in of_loss)


def test_the_table_in_the_documentation_is_up_to_date(tmp_path):
    copy = tmp_path / "figures.md"
    shutil.copy(PAGE, copy)
    assert not registry.write_table(copy), "make it again: `core.evaluation.registry.write_table`"
    copy.write_text(PAGE.read_text(encoding="utf-8").replace("perplexity", "complexity"), encoding="utf-8")
    assert registry.write_table(copy) and "| perplexity |" in copy.read_text(encoding="utf-8")
    rows = registry.markdown_table().splitlines()
    assert len(rows) == len(registry.figures()) + 2
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {11}, "every row has every cell"
    copy.write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="needs the lines"):
        registry.write_table(copy)
