"""`bench tradeoff` on shipped runs: the base model that every gain is counted from."""

from __future__ import annotations

import math

import pytest

from bench.tradeoff import _reference_bits
from core.demo.plan import reference_spec
from core.runs.store import DEMO, Workspace


def test_the_reference_of_an_older_run_is_computed_from_its_tables(tmp_path) -> None:
    """Its metrics have no bits per character: Σ nats / (ln 2 · Σ characters) over held-out notes, added up naively."""
    workspace = Workspace(tmp_path, shared=(DEMO,))
    run = workspace.find(reference_spec("3k", "gpt2"))
    assert run is not None and not (run.metrics["metric"] == "bits_per_character").any()
    texts = dict(workspace.corpus(run.spec.corpus).notes[["note_id", "text"]].itertuples(index=False))
    nats = characters = 0.0
    for row in run.table("scores").query("attack == 'loss' and split == 'heldout'").itertuples():
        nats -= row.score * row.tokens
        characters += len(texts[row.note_id])
    found = _reference_bits(workspace, "3k", "gpt2")
    assert found == pytest.approx(nats / math.log(2) / characters)
    assert found == pytest.approx(2.826, abs=5e-4)
