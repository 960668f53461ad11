"""The benchmark of filter engines: its keys, and shares that can be counted by hand."""

from __future__ import annotations

import pandas as pd
import pytest

from bench.identifiers.output_filter import answers, measure
from core.attacks.memorisation.filter_evasion import REWORDED_COLUMNS
from core.corpus.synthetic.hospital import build
from core.phi.detector.engine import RULES, SHAPES, rules, shapes
from core.runs.store import Workspace
from core.spec import CorpusSpec

SPEC = CorpusSpec(patients=8, population=0, notes_per_patient=2.0, canaries=0, canary_patients=0)
RARE = "Zorvan Quillt"  # on no list of names


@pytest.fixture(scope="module")
def found():
    """Four answers name a member: one after a cue, one on no list without a cue, one as a number, one not at all."""
    corpus = build(SPEC)
    members = corpus.patients[corpus.patients["split"] == "member"]
    changed = corpus.patients.assign(
        full_name=corpus.patients["full_name"].mask(
            corpus.patients["patient_id"] == members["patient_id"].iloc[1], RARE
        )
    )
    corpus = type(corpus)(corpus.spec, changed, corpus.notes, corpus.canaries)
    texts = [
        ("Patient:", f" {members['full_name'].iloc[0]} came"),
        ("Seen:", f" and {RARE.upper()} ate"),
        ("Chart:", f" SSN {members['ssn'].iloc[2]}."),
        ("Chart:", " nothing of anybody"),
    ]
    rows = [(number, 1, prompt, number, text) for number, (prompt, text) in enumerate(texts)]
    generations = pd.DataFrame(rows, columns=["generation_id", "prompt_id", "prompt", "seed", "text"])
    reworded = pd.DataFrame(columns=list(REWORDED_COLUMNS))
    return measure(generations, reworded, corpus, iter([shapes(), rules()]))


@pytest.mark.parametrize("name", [SHAPES, RULES])
def test_shares_by_hand(found, name):
    """A name in capitals that is on no list has no shape; the list of known values has it."""
    alone, both = found[name], found[f"{name} and known values"]
    assert {"value": alone["leaks, the 14 prompts"]["value"], "n": alone["leaks, the 14 prompts"]["n"]} == {
        "value": 0.25,
        "n": 4,
    }
    assert both["leaks, the 14 prompts"]["value"] == 0.0
    assert alone["names on no list"]["n"] == 2, "two answers hold a member's full name"
    assert alone["milliseconds"]["n"] == 4 and 0 <= alone["milliseconds"]["mean"] <= alone["milliseconds"]["most"]
    assert alone["false alarms, public text"]["n"] > 100 and 0 <= alone["ordinary words lost"]["value"] <= 1
    assert set(both) == {"leaks, the 14 prompts"}


def test_one_round_reads_the_stored_answers(leaky_workspace):
    run = next(run for run in Workspace(leaky_workspace, shared=()).runs() if not run.spec.is_base)
    stored = run.table("generations")
    pd.testing.assert_series_equal(answers(run, 1)["text"], stored["text"])
    more = answers(run, 3)
    assert len(more) == 3 * len(stored) and more["generation_id"].tolist() == list(range(len(more)))
    assert more["text"].iloc[: len(stored)].tolist() == stored["text"].tolist() and more["seed"].is_unique
