"""Of an audit, claims are shipped the tables that they read, and how the attacks ended that they name."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.findings.claim import Claim
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.shipping import ship
from core.findings.stored_runs import StoredRuns
from core.runs.audits import Outcome
from core.runs.store import Workspace

HALF, RANKS, SUMMARY, OTHER = "half a name", "fill in the blank", "summary: probe_figures", "zlib"
TEXTS = dict.fromkeys(("title", "says", "figure", "place", "quantity", "sizes", "differs"), "text")


def _claim(new_id: str, *needs: Need) -> Claim:
    return Claim(new_id, unit="number", measure=lambda runs: [], rule=Above(1.0), needs=needs, **TEXTS)


@pytest.fixture
def here(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    return Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())


def test_an_audit_goes_with_the_tables_that_claims_read_and_keeps_what_is_there(here, smoke_specs, tmp_path) -> None:
    spec, out = smoke_specs["plain"], tmp_path / "shipped"
    audit = here.audit(spec.run_id)
    for place, attack in enumerate((HALF, RANKS, OTHER, SUMMARY)):
        table = "probe_figures" if attack == SUMMARY else "scores" if attack == OTHER else "probes"
        rows = pd.DataFrame({"attack": [attack], "value": [place / 3]})
        audit.record(Outcome(attack, "done", 1.0, "", (table,), 1, float(place)), {table: rows})
    summarised = _claim("L-c1", Need(spec, audit=(HALF, SUMMARY)))
    in_full = _claim("L-c2", Need(spec, audit=(RANKS,)))

    def shipped() -> StoredRuns:
        return StoredRuns(Workspace(tmp_path / "nothing", shared=(out,)))

    assert ship([summarised], here, out) == [spec.run_id]
    copied = shipped().workspace.audit(spec.run_id)
    assert set(copied.outcomes()) == {HALF, SUMMARY}, "no claim names the others"
    assert copied.table("probes").empty, "the claim reads the summary of this attack"
    pd.testing.assert_frame_equal(shipped().audited(spec, "probe_figures"), audit.table("probe_figures"))
    assert shipped().has(summarised.needs[0]) and not shipped().has(in_full.needs[0])

    assert ship([in_full], here, out) == [spec.run_id] and ship([summarised, in_full], here, out) == []
    copied = shipped().workspace.audit(spec.run_id)
    assert set(copied.outcomes()) == {HALF, SUMMARY, RANKS}
    pd.testing.assert_frame_equal(copied.table("probes"), audit.table_of(RANKS, "probes"))
    pd.testing.assert_frame_equal(copied.table("probe_figures"), audit.table("probe_figures"))


def test_scores_of_notes_go_in_single_precision_and_those_that_are_there_stay(here, smoke_specs, tmp_path) -> None:
    spec, out = smoke_specs["plain"], tmp_path / "shipped"
    audit = here.audit(spec.run_id)
    for attack in (OTHER, RANKS):
        rows = pd.DataFrame({"attack": [attack], "note_id": ["P0001-01"], "score": [-2 / 3]})
        tables = {"scores": rows, "split_scores": rows.assign(fit=0)}
        audit.record(Outcome(attack, "done", 1.0, "", tuple(tables), 1, 0.0), tables)
    claims = [_claim(f"L-c{number}", Need(spec, audit=(one,))) for number, one in enumerate((OTHER, RANKS), start=1)]
    ship(claims[:1], here, out)
    copied = Workspace(tmp_path / "nothing", shared=(out,)).audit(spec.run_id)
    assert copied.table("scores")["score"].tolist() == [float(np.float32(-2 / 3))]
    assert copied.table("split_scores").empty and copied.outcomes()[OTHER].tables == ("scores",), "no claim reads them"
    file = next((out / "audits" / spec.run_id).rglob("zlib.parquet"))
    pd.read_parquet(file).assign(score=-2 / 3).to_parquet(file)
    ship(claims, here, out)
    assert set(copied.table("scores")["score"]) == {-2 / 3, float(np.float32(-2 / 3))}


def test_what_one_claim_reads_is_shipped_while_another_claim_lacks_its_attack(here, smoke_specs, tmp_path) -> None:
    """An audit that was shipped before is not in every data folder: a further attack has to reach it from there."""
    spec, out = smoke_specs["plain"], tmp_path / "shipped"
    rows = pd.DataFrame({"attack": [OTHER], "note_id": ["P0001-01"], "score": [-1.0]})
    here.audit(spec.run_id).record(Outcome(OTHER, "done", 1.0, "", ("scores",), 1, 0.0), {"scores": rows})
    ready, waiting = _claim("M-c1", Need(spec, audit=(OTHER,))), _claim("L-c1", Need(spec, audit=(HALF,)))
    assert ship([waiting, ready], here, out) == [spec.run_id]
    shipped = StoredRuns(Workspace(tmp_path / "nothing", shared=(out,)))
    assert shipped.has(ready.needs[0]) and not shipped.has(waiting.needs[0])
