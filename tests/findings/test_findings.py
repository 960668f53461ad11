"""The stored evidence is that of the shipped runs, the document is up to date, and the command lists and trains."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from core.__main__ import main
from core.common.files import make_folder
from core.demo.plan import estimated_seconds, training_seconds
from core.findings import judging, stored_runs, training
from core.findings.claim import Claim, Evidence, Figure
from core.findings.claims import CLAIMS, chosen
from core.findings.measures.references import shadow_reference
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.shipping import ship
from core.findings.stored_runs import SHIPPED, Missing, StoredRuns, with_shipped
from core.findings.wording import figure_text, number_text, range_text
from core.findings.written.document import document
from core.findings.written.listing import as_rows, listed, totals
from core.pipeline.shadows import folder_name, made
from core.runs.card import CARD_FILE
from core.runs.run import Run
from core.runs.store import DEMO, Workspace
from core.runs.tables import FIGURES_ONLY_FILE, TableMissing
from core.spec import ModelSpec, PrivacySpec, RunSpec
from tests.findings.reads import recorded, undeclared, unread

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> StoredRuns:
    return StoredRuns(with_shipped(Workspace(tmp_path_factory.mktemp("data"), shared=(DEMO,))))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_the_stored_evidence_is_that_of_the_shipped_runs(claim: Claim, shipped: StoredRuns) -> None:
    """And its measure reads what the claim names as its needs: all of that, and nothing else."""
    with recorded() as reads:
        stored, found = judging.read().get(claim.id), judging.measured(claim, shipped)
    if found is not None:
        assert (undeclared(claim, reads, shipped), unread(claim, reads, shipped)) == ([], [])
    if found is None or stored is None:
        assert found is stored
        return
    assert [one.label for one in found.figures] == [one.label for one in stored.figures]
    for one, other in zip(found.figures, stored.figures, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx(
            (other.value, other.low, other.high), abs=2e-5, nan_ok=True
        )
    assert claim.rule(found) == claim.rule(stored)


@pytest.mark.parametrize("name", ["J-c3", "P-c5", "L-c2"])
def test_a_need_that_is_missing_or_not_read_is_found(name: str, shipped: StoredRuns) -> None:
    """Of a claim that reads an audit by attack, a summary, and, by others, figures alone."""
    (claim,) = chosen([name])
    assert claim.measure is not None and claim.needs
    with recorded() as reads:
        claim.measure(shipped)
    bare = replace(claim, needs=tuple(Need(need.spec) for need in claim.needs))
    more = replace(claim, needs=tuple(replace(need, scores=True, audit=("none",), shadows=1) for need in claim.needs))
    assert undeclared(replace(claim, needs=()), reads, shipped) == [f"{one} is read" for one in sorted(reads.runs)]
    assert any("a table by" in one for one in undeclared(bare, reads, shipped)) == bool(reads.audited)
    for need in claim.needs:
        run = shipped.run(need.spec).id
        wanted = {
            f"no large table of {run} is read",
            f"nothing by “none” of {run} is read",
            f"shadow models of {run} are not read",
        }
        assert wanted <= set(unread(more, reads, shipped))


def test_the_document_is_up_to_date() -> None:
    """Written by `python -m core findings --write`."""
    text = (ROOT / "docs/findings.md").read_text(encoding="utf-8")
    assert text == document(judging.stored_findings(CLAIMS)), "run: python -m core findings --write"


def test_no_explanation_belongs_to_another_verdict() -> None:
    """A sentence for a verdict that the claim did not get has been checked by nobody."""
    for one in judging.stored_findings(CLAIMS):
        assert set(one.claim.why) <= {one.verdict}, one.claim.id


def test_evidence_survives_storing(tmp_path: Path) -> None:
    claim = CLAIMS[0]
    table = Evidence((Figure("a", 0.5, 0.25, 0.75), Figure("b", math.nan, math.nan, math.nan)))
    judging.write([judging.Finding(claim, table), judging.Finding(CLAIMS[1], None)], tmp_path / "evidence.json")
    again = judging.read(tmp_path / "evidence.json")
    assert list(again) == [claim.id] and again[claim.id].figures[0] == table.figures[0]
    assert not again[claim.id].figures[1].has_interval
    assert judging.read(tmp_path / "nothing.json") == {}


def test_figures_are_written_in_the_claims_unit() -> None:
    assert number_text(-0.123, "points") == "−12.3" and number_text(0.0, "points") == "0"
    assert number_text(-0.00013, "points") == "−0.01" and number_text(-1e-9, "points") == "0"
    assert number_text(0.5, "share") == "50.0 %" and number_text(0.0228, "ratio") == "0.023×"
    assert number_text(1_234.0, "ratio") == "1,234×" and number_text(18.26, "ratio") == "18.3×"
    assert figure_text(Figure("", 0.1, 0.05, 0.2), "points") == "+10.0 (+5.0 to +20.0)"
    assert figure_text(Figure("", 2.0, 2.0, 2.0), "ratio") == "2.000× (exact)"
    assert range_text([Figure("", 0.1, 0, 1), Figure("", -0.1, -1, 0)], "points") == (
        "−10.0 to +10.0 (−100.0 to +100.0), 2 figures"
    )
    alike = [Figure("", 0.1, 0, 1), Figure("", 0.1, -1, 0)]
    assert range_text(alike, "points") == "+10.0 (−100.0 to +100.0), 2 figures"


def test_the_command_says_what_is_missing_and_what_it_found(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PHILAB_SHIPPED", str(DEMO))
    monkeypatch.setattr(stored_runs, "SHIPPED", tmp_path / "nothing")
    assert main(["findings", "J-c2", "H-c3", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "J-c2   holds" in said and "H-c3   not run" in said and "GPT-2 − DistilBERT, seed 0: +19.1" in said
    assert said.count("missing: distilbert-") == 1 and "7 of 8 runs are there; about" in said
    assert main(["findings", "P-c1", "--json", "--data", str(tmp_path)]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["verdict"] == "does not hold" and row["runs"] == [] and row["figures"][0]["value"] < 0.03
    assert main(["findings", "X-c1", "--data", str(tmp_path)]) == 2
    assert main(["findings", "J-c2", "--write", "--data", str(tmp_path)]) == 2


def test_a_model_from_a_hub_has_no_estimate(shipped: StoredRuns) -> None:
    from_a_hub = Need(RunSpec(model=ModelSpec(base="gpt2")), scores=True)
    claims = [replace(chosen(["J-c1"])[0], needs=(from_a_hub,))]
    assert [one.seconds for one in training.states(claims, shipped)] == [None]
    assert "an unknown time for 1 from a hub" in totals(claims, shipped)


def test_a_night_leaves_out_the_claims_that_cost_most(tmp_path: Path, capsys) -> None:
    """Every choice of claims that fits keeps at most one more than `within` does: all subsets are tried."""
    nothing = StoredRuns(Workspace(tmp_path, shared=()))
    claims = chosen(["J-c2", "H-c1", "P-c1", "H-c3", "H-c9", "H-c21"])
    seconds = {one.need.spec: one.seconds for one in training.states(claims, nothing)}

    def cost(some: Sequence[Claim]) -> float:
        return sum(seconds[spec] for spec in {need.spec for claim in some for need in claim.needs})

    whole = cost(claims)
    assert training.within(claims, nothing, whole) == claims
    for share in (0.9, 0.5, 0.2):
        kept = training.within(claims, nothing, share * whole)
        fitting = [len(some) for size in range(7) for some in combinations(claims, size) if cost(some) <= share * whole]
        assert cost(kept) <= share * whole and len(kept) >= max(fitting) - 1
        assert kept == [one for one in claims if one in kept], "in their order"
    assert [one.id for one in training.within(claims, nothing, 0.0)] == ["P-c1"], "which reads no run"
    arguments = ["P-c1", "H-c3", "--data", str(tmp_path), "--without-shipped", "--hours", "0.1"]
    assert main(["findings", *arguments]) == 2 and "give --run, too" in capsys.readouterr().err
    assert main(["findings", *arguments, "--run"]) == 0
    said = capsys.readouterr()
    assert "take longer than 0.1 hours with the others: H-c3." in said.out + said.err
    assert "P-c1" in said.out and "H-c3   " not in said.out


TEXTS = dict.fromkeys(("title", "says", "figure", "place", "quantity", "sizes", "differs"), "text")


@pytest.mark.usefixtures("asks_few_claims")
def test_what_is_missing_is_trained_and_then_judged(tmp_path: Path, smoke_spec, monkeypatch, capsys):
    """From an empty data folder, by the command: a run, shadow models that two runs share, and every claim judged.

    The third claim does not name the shadow models that it reads. That keeps no other claim from its verdict.
    """
    spec, later = smoke_spec(epochs=1), smoke_spec(epochs=1, seed=5)

    def perplexity(runs: StoredRuns) -> list[Figure]:
        found = runs.metric(spec, "perplexity_heldout")
        return [Figure("model", found.value, found.low, found.high)]

    def ratio(runs: StoredRuns) -> list[Figure]:
        sides = [shadow_reference(runs, one)[0] for one in (spec, later)]
        return [Figure("notes", *[float(len(one) + at)] * 3) for at, one in enumerate(sides)]

    def undeclared(runs: StoredRuns) -> list[Figure]:
        shadow_reference(runs, spec.model_copy(update={"privacy": PrivacySpec(target_epsilon=8.0)}))
        raise AssertionError("there are no such shadow models")

    shared = tuple(Need(one, scores=True, shadows=2) for one in (spec, later))
    claims = (
        Claim("J-c1", unit="number", measure=perplexity, rule=Above(1.0), needs=(Need(spec, scores=True),), **TEXTS),
        Claim("M-c1", unit="number", measure=ratio, rule=Above(1.0), needs=shared, **TEXTS),
        Claim("M-c2", unit="number", measure=undeclared, rule=Above(1.0), needs=(Need(spec),), **TEXTS),
    )
    monkeypatch.setattr("core.findings.claims.CLAIMS", claims)
    monkeypatch.setattr(stored_runs, "SHIPPED", tmp_path / "nothing")
    workspace = Workspace(tmp_path / "data", shared=())
    assert [judging.measured(claim, StoredRuns(workspace)) for claim in claims] == [None] * 3
    with pytest.raises(Missing):
        StoredRuns(workspace).metric(spec, "perplexity_heldout")
    before = training.states(claims, StoredRuns(workspace))
    assert [(one.there, one.shadows) for one in before] == [(False, 2), (False, 0)], "shared ones count once"
    assert before[0].seconds == pytest.approx(estimated_seconds(spec) + 2 * training_seconds(spec))
    assert "2 shadow models" in listed(claims, StoredRuns(workspace))

    assert main(["findings", "--run", "--data", str(workspace.root)]) == 0
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line.endswith("left") and not line.startswith("  ")]
    assert [re.sub(r", about .*", "", line) for line in lines] == [
        f"1/2 findings {spec.run_id} (plain, seed 0)",
        f"2/2 findings {later.run_id} (plain, seed 5)",
        f"1/1 2 shadow models of {spec.run_id}",
    ]
    assert [line for line in said.err.splitlines() if "shadow model 2/2" in line] == ["  shadow model 2/2"]
    assert len(made(spec, workspace)) == len(made(later, workspace)) == 2
    verdicts = {one.claim.id: one for one in judging.findings(claims, StoredRuns(workspace))}
    assert {name: one.verdict for name, one in verdicts.items()} == {
        "J-c1": "holds",
        "M-c1": "holds",
        "M-c2": "not run",
    }
    assert "there are no shadow models" in verdicts["M-c2"].missing and "missing: there are no shadow" in said.out
    assert as_rows(claims, StoredRuns(workspace))[2]["missing"] == verdicts["M-c2"].missing
    assert list(judging.read(workspace.root / judging.FILE_IN_DATA)) == ["J-c1", "M-c1"]

    assert main(["findings", "--run", "--data", str(workspace.root)]) == 0
    assert capsys.readouterr().err == "", "nothing is left to do"
    file = made(spec, workspace)[1]
    save_file({"likelihoods": np.zeros(2, np.float32), "inside": np.zeros(2, np.uint8)}, file, {"notes": "others"})
    (about_others,) = judging.findings(claims[1:2], StoredRuns(workspace))
    assert about_others.verdict == "not run" and "is about other notes" in about_others.missing
    file.unlink()
    told: list[str] = []
    training.train(claims[1:2], workspace, told.append)
    assert len(made(spec, workspace)) == 2 and told[0].startswith("1/1 1 shadow model of")


def test_the_page_shows_what_was_judged_in_the_data_folder(tmp_path: Path) -> None:
    claim, here = CLAIMS[0], Evidence((Figure("a", 1.0, 0.5, 2.0),))
    judging.write([judging.Finding(claim, here)], tmp_path / judging.FILE_IN_DATA)
    found = {one.claim.id: one for one in judging.stored_findings(CLAIMS, tmp_path)}
    assert found[claim.id].evidence == here != judging.read().get(claim.id)
    others = {one.claim.id: one.evidence for one in judging.stored_findings(CLAIMS)}
    assert {name: one.evidence for name, one in found.items() if name != claim.id} == {
        name: evidence for name, evidence in others.items() if name != claim.id
    }


def test_a_run_gets_only_the_attacks_that_claims_read(shipped: StoredRuns) -> None:
    needs = [need for claim in chosen(["M-c8", "M-c9"]) for need in claim.needs]
    asked = training._attacks(needs)
    assert [one.names for one in asked] == [("ratio population", "loss")] * 6
    assert len({one.spec.run_id for one in asked}) == 6
    (everything,) = training._attacks([need for claim in chosen(["P-c18"]) for need in claim.needs])
    assert everything.names is None, "a summary alone says not which attacks it rests on"
    some = replace(everything, names=("loss", "rmia"))
    assert everything.seconds > some.seconds > replace(everything, names=("loss",)).seconds > 0, "as was recorded"
    other, unknown = (
        everything.spec.model_copy(update={"training": everything.spec.training.model_copy(update=changed)})
        for changed in ({"seed": 77}, {"epochs": 77})
    )
    assert replace(everything, spec=other).seconds == everything.seconds, "as with the seed that is shipped"
    assert replace(everything, spec=unknown).seconds == 0, "nothing is recorded of a run that is not shipped"


def test_shipping_copies_what_claims_read_and_pages_do_not_list(tmp_path: Path, smoke_workspace, smoke_specs) -> None:
    """A run that is only here is copied with its tables and its shadow models; the copies serve the claim alone."""
    spec = smoke_specs["plain"]
    here = Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())
    shadows = make_folder(here.references(spec.corpus) / folder_name(spec))
    (shadows / "0000.safetensors").write_bytes(b"what one model says of the notes")
    needs = (Need(spec, scores=True, shadows=1),)
    claim = Claim("J-c0", unit="number", measure=lambda runs: [], rule=Above(1.0), needs=needs, **TEXTS)
    out = tmp_path / "shipped"
    assert ship([claim], here, out) == [spec.run_id] and ship([claim], here, out) == []
    copied = StoredRuns(Workspace(tmp_path / "nothing", shared=(out,)))
    assert copied.has(needs[0]) and not (out / "runs" / spec.run_id / "model").exists()
    assert made(spec, copied.workspace)[0].read_bytes() == (shadows / "0000.safetensors").read_bytes()
    wordy = replace(claim, needs=(Need(spec, texts=True),))
    assert copied.run(spec).table("generations").empty and not copied.has(wordy.needs[0]), "no claim reads its texts"
    pd.testing.assert_frame_equal(copied.quick_scores(spec), StoredRuns(here).quick_scores(spec))
    figures = replace(claim, needs=(Need(spec),))
    later = tmp_path / "figures first"
    assert ship([figures], here, later) == [spec.run_id]
    alone = StoredRuns(Workspace(tmp_path / "nothing", shared=(later,)))
    assert alone.run(spec).figures_only and not alone.has(needs[0]) and alone.has(figures.needs[0])
    for lacking in ("history", "membership", "canaries"):
        with pytest.raises(TableMissing, match=f"its table “{lacking}” was left out"):
            alone.run(spec).table(lacking)
    assert alone.run(spec).table("examples").empty and alone.run(spec).table("example_hits").empty, "nor a few of them"
    assert alone.metric(spec, "perplexity_heldout") == copied.metric(spec, "perplexity_heldout")
    assert ship([claim], here, later) == [spec.run_id], "a claim that reads scores brings the tables"
    assert StoredRuns(Workspace(tmp_path / "nothing", shared=(later,))).has(needs[0])
    assert ship([wordy], here, later) == [spec.run_id] and ship([wordy], here, later) == []
    answered = replace(claim, needs=(Need(spec, utility=True),))
    lacking = StoredRuns(Workspace(tmp_path / "nothing", shared=(later,)))
    assert not lacking.run(spec).has_table("utility") and not lacking.has(answered.needs[0]), "no claim reads answers"
    assert ship([answered], here, later) == [spec.run_id] and ship([answered], here, later) == []
    whole = StoredRuns(Workspace(tmp_path / "nothing", shared=(later,)))
    for table in ("generations", "utility"):
        pd.testing.assert_frame_equal(whole.run(spec).table(table), here.run(spec.run_id).table(table))
    assert all(map(whole.has, (answered.needs[0], wordy.needs[0], needs[0]))), "what is read comes, and the rest stays"
    assert not [*out.rglob(CARD_FILE), *later.rglob(CARD_FILE), *SHIPPED.rglob(CARD_FILE)], "the tables say it"
    assert SHIPPED not in Workspace(tmp_path).shared


def test_what_is_shipped_for_claims_hides_no_table_of_the_demonstration(
    tmp_path: Path, smoke_workspace, smoke_specs, monkeypatch
) -> None:
    """A claim that lacks shadow models alone brings these, and no second run: its figures would come before the whole.

    The two trainings of a run with secret noise are two models. Then the copy is as whole as the one that it hides.
    """
    spec, demo = smoke_specs["plain"], tmp_path / "demo"
    here = Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())
    shutil.copytree(here.run(spec.run_id).folder, demo / "runs" / spec.run_id)
    shadows = make_folder(here.references(spec.corpus) / folder_name(spec))
    (shadows / "0000.safetensors").write_bytes(b"what one model says of the notes")
    claim = Claim(
        "J-c0", unit="number", measure=lambda runs: [], rule=Above(1.0), needs=(Need(spec, shadows=1),), **TEXTS
    )
    monkeypatch.setattr("core.findings.shipping.DEMO", demo)
    out = tmp_path / "shipped"
    for made_here, copied in (("one", False), ("other", True)):
        of = {here.root: made_here}
        monkeypatch.setattr(Run, "training", property(lambda run, of=of: of.get(run.folder.parents[1], "one")))
        assert ship([claim], here, out) == [spec.run_id]
        both = StoredRuns(Workspace(tmp_path / "nothing", shared=(out, demo)))
        assert (out / "runs" / spec.run_id).exists() == copied and both.has(claim.needs[0])
        assert both.has(Need(spec, scores=True)), "the whole run is still found"
        shutil.rmtree(out)
    for run in (DEMO / "runs").iterdir():
        claimed = SHIPPED / "runs" / run.name
        assert (run / FIGURES_ONLY_FILE).exists() or not (claimed / FIGURES_ONLY_FILE).exists(), run.name


def test_a_run_that_is_shipped_twice_has_one_set_of_figures() -> None:
    """Another machine rounds otherwise, so one id trained on two of them would be two models."""
    folders = [root / "runs" for root in (DEMO, SHIPPED)]
    twice = set.intersection(*({one.name for one in folder.iterdir()} for folder in folders))
    assert len(twice) >= 3
    for run_id in sorted(twice):
        kept, claimed = (pd.read_parquet(folder / run_id / "tables" / "metrics.parquet") for folder in folders)
        assert kept.equals(claimed), run_id
