"""Whole canary patients: the rank of their name against one name at a time, and that chance alone ranks it anywhere."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from core.attacks.battery import REGISTRY
from core.attacks.memorisation.canary_patients import COLUMNS, TABLE, exposed, name_losses, written
from core.attacks.registry import Target, checked, no_report
from core.corpus.synthetic.canaries import canary_notes, draw, name_space_of
from core.corpus.synthetic.hospital import build
from core.evaluation.guarantee.audit_guarantee import audit_guarantee, headline, with_patients
from core.evaluation.memorisation.canaries import whole_patients
from core.models.build import LanguageModel
from core.models.encoding import encode
from core.spec import CorpusSpec, ModelSpec, RunSpec

SPEC = CorpusSpec(patients=6, population=0, notes_per_patient=1, canaries=2, canary_patients=3, seed=1)
NO_SCORES = pd.DataFrame(columns=["attack", "split", "patient_id", "note_id", "member", "score"])
SEEDS = 40


def naive(lm: LanguageModel, before: str, name: str) -> float:
    """−log p of the name's tokens, one text at a time."""
    shown = encode(lm, [before.rstrip()])[0]
    own = encode(lm, [before + name])[0][len(shown) :]
    if lm.causal:
        ids = [lm.tokenizer.bos_token_id, *shown, *own]
        places = range(len(shown), len(shown) + len(own))
    else:
        end = encode(lm, ["x."])[0][1:]
        hidden = [lm.tokenizer.mask_token_id] * len(own)
        ids = [lm.tokenizer.cls_token_id, *shown, *hidden, *end, lm.tokenizer.sep_token_id]
        places = range(1 + len(shown), 1 + len(shown) + len(own))
    with torch.inference_mode():
        chances = torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
    return -sum(float(chances[place, token]) for place, token in zip(places, own, strict=True))


@pytest.mark.parametrize("kind", ["gpt2", "distilbert", "bert"])
def test_losses_are_those_of_one_name_at_a_time(untrained, kind):
    names = ["Maria Keller", "Bo Abernathy", "Christopher Featherstonehaugh"]
    found = name_losses(untrained[kind], "Seen today: ", names)
    assert found == pytest.approx([naive(untrained[kind], "Seen today: ", name) for name in names], rel=1e-4)


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_a_patient_learned_by_heart_ranks_first_and_one_left_out_does_not(teach, kind):
    rows = draw(SPEC).query("form == 'patient'").to_dict("records")
    start = int(rows[0]["secret_start"])
    lm = teach(kind, [rows[0]["text"][: start + len(rows[0]["secret"])] + "."], 120)
    loss, rank, size, bits = exposed(lm, rows[0])
    assert (rank, size) == (1, 1_000) and bits == pytest.approx(math.log2(1_000))
    assert exposed(lm, rows[1])[1] > 1 and loss > 0


def test_the_table_counts_what_was_written_and_knows_who_was_left_out(untrained):
    corpus = build(SPEC)
    people = corpus.canaries.query("form == 'patient'")
    planted = people["canary_id"].iloc[0]
    hits = pd.DataFrame(
        [
            (0, "full_name", "A B", planted, "value"),
            (3, "full_name", "A B", planted, "value"),
            (3, "mrn", "MRN-1", planted, "value"),
            (3, "diagnosis", "gout", planted, "value"),
            (4, "ssn", "1", planted, "old"),
            (5, "ssn", "2", "P0001", "value"),
        ],
        columns=["generation_id", "field", "value", "patient_id", "rule"],
    )
    assert written(hits, planted) == (2, 2)
    spec = RunSpec(corpus=SPEC, model=ModelSpec(kind="gpt2"))
    target = Target(spec, corpus, lambda name: hits, {"target": lambda report: untrained["gpt2"]})
    attack = REGISTRY["canary patients"]
    table = checked(attack, attack.run(target, no_report))[TABLE]
    assert table["canary_id"].tolist() == people["canary_id"].tolist() and list(table.columns) == list(COLUMNS)
    everybody = canary_notes(SPEC, corpus.canaries.assign(inserted=True))
    for row in table.itertuples():
        assert row.notes == sum(note.patient_id == row.canary_id for note in everybody) and row.notes in (3, 4, 5)
    assert table["values_written"].tolist() == [2, 0, 0]
    none = corpus.canaries.query("form != 'patient'")
    corpus = type(corpus)(corpus.spec, corpus.patients, corpus.notes, none)
    assert attack.run(Target(spec, corpus, lambda name: hits, target.models), no_report)[TABLE].empty


@pytest.mark.slow
def test_a_model_that_read_nobody_ranks_names_uniformly_40_seeds(untrained):
    """Names drawn anew 40 times from the space of 6 notes: ranks are uniform, and their coins prove nothing."""
    rows = draw(CorpusSpec(patients=4, population=0, canaries=0, canary_patients=6, seed=3))
    order = []
    for row in rows.to_dict("records"):
        losses = name_losses(untrained["gpt2"], row["text"][: row["secret_start"]], name_space_of(row["secret"]))
        order.append(np.argsort(np.argsort(losses)) + 1)
    ranks, misses = [], 0
    for seed in range(SEEDS):
        rng = np.random.default_rng([seed, 12])
        drawn = [int(one[rng.integers(1_000)]) for one in order]
        people = pd.DataFrame(
            {"canary_id": rows["canary_id"], "notes": 4, "rank": drawn, "reference_size": 1_000, "inserted": True}
        )
        table = with_patients(
            rows.assign(inserted=rng.random(6) < 0.5, rank=pd.NA, reference_size=pd.NA, loss=np.nan), people
        )
        found = audit_guarantee(table, NO_SCORES, unit="patient", delta=1e-5, promised=math.inf)
        assert headline(found)["trials"] == 6 and headline(found)["audit"] == "canaries and canary patients"
        misses += headline(found)["epsilon"] > 0
        ranks += drawn
    assert misses <= stats.binom.ppf(0.999, SEEDS, 0.05)
    assert stats.kstest(np.array(ranks) / 1_000, "uniform").pvalue > 0.001


def test_a_canary_patient_is_as_many_units_as_notes_where_notes_are_protected():
    rows = draw(SPEC).assign(rank=pd.array([1] * 5, dtype="Int64"), reference_size=pd.array([1_000] * 5, dtype="Int64"))
    rows.loc[rows["form"] == "patient", ["rank", "reference_size"]] = pd.NA
    names = rows.loc[rows["form"] == "patient", "canary_id"]
    notes = [3, 5, 4]
    people = pd.DataFrame({"canary_id": names, "notes": notes, "rank": 1, "reference_size": 1_000})
    merged = with_patients(rows, people)
    assert merged.loc[merged["form"] == "patient", "insertions"].tolist() == notes
    assert with_patients(rows, people.head(0)) is rows
    found = audit_guarantee(merged, NO_SCORES, unit="note", delta=0.0, promised=math.inf)
    assert found["group"].max() == max(notes) and found["trials"].max() == len(merged)


def test_planted_and_left_out_are_judged_apart():
    people = pd.DataFrame(
        {
            "inserted": [True, True, False],
            "exposure": [9.0, 7.0, 1.0],
            "reference_size": 1_000,
            "values_written": [2, 0, 0],
        }
    )
    found = whole_patients(people).set_index("arm")
    assert found.loc["run", "exposure"] == 8.0 and found.loc["run", "high"] == pytest.approx(math.log2(1_000))
    assert found.loc["run", "low"] == 0.0, "Student's t of two patients reaches beyond both ends"
    assert (found.loc["run", "named"], found.loc["heldout", "named"]) == (1, 0)
    assert found.loc["run", "share"] == 0.5 and math.isnan(found.loc["heldout", "low"])
