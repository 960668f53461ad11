"""Counting leaks: without repetition, in an order fixed beforehand, with who was never seen as censored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from core.corpus.tables import Corpus
from core.evaluation.memorisation.canaries import exposure_by_copies
from core.evaluation.memorisation.extraction import (
    by_field,
    distinct_values,
    first_leaks,
    leak_curve,
    recall_at_errors,
    recall_table,
    sample_numbers,
)
from core.evaluation.memorisation.verbatim import verbatim_rate
from core.evaluation.stats.intervals import proportion_interval
from core.phi.fields import FIELDS
from core.spec import CorpusSpec

PATIENTS = pd.DataFrame(
    {"patient_id": ["A", "B", "C", "X", "Y", "Z"], "split": ["member"] * 3 + ["heldout"] * 2 + ["population"]}
)
COHORT = Corpus(spec=None, patients=PATIENTS, notes=pd.DataFrame(), canaries=pd.DataFrame())
# Two prompts with three samples each; the table holds one prompt after the other.
GENERATIONS = pd.DataFrame(
    {
        "generation_id": [0, 1, 2, 3, 4, 5],
        "prompt_id": [1, 1, 1, 2, 2, 2],
        "prompt": ["p"] * 3 + ["q"] * 3,
        "text": ["t0", "t1", "t2", "t3", "t3", "t5"],
    }
)


def hit(generation: int, patient: str | None, field: str = "full_name", kind: str = "leak", rule: str = "value"):
    split = dict(zip(PATIENTS["patient_id"], PATIENTS["split"], strict=True)).get(patient)
    kind = kind if split == "member" or patient is None else "coincidence"
    return (generation, 0, 3, field, f"{field} of {patient}", kind, patient, split, rule)


def hits(*rows) -> pd.DataFrame:
    columns = ["generation_id", "start", "end", "field", "value", "kind", "patient_id", "split", "rule"]
    return pd.DataFrame(list(rows), columns=columns)


HITS = hits(
    hit(2, "A"),
    hit(2, "A"),
    hit(4, "A"),
    hit(3, "B"),
    hit(3, "A", "diagnosis", "linked leak"),
    hit(5, "X"),
    hit(0, None, kind="invented"),
    hit(0, "C", rule="old"),
    hit(1, "Z"),
)


def test_samples_are_counted_round_by_round():
    assert sample_numbers(GENERATIONS).to_dict() == {0: 1, 3: 2, 1: 3, 4: 4, 2: 5, 5: 6}
    shuffled = GENERATIONS.sample(frac=1, random_state=1).sort_values("generation_id")
    assert sample_numbers(shuffled).to_dict() == sample_numbers(GENERATIONS).to_dict()


def test_a_value_is_listed_once_with_how_often_and_when():
    found = distinct_values(GENERATIONS, HITS).set_index(["patient_id", "field"])
    assert set(found.index) == {
        ("A", "full_name"),
        ("A", "diagnosis"),
        ("B", "full_name"),
        ("X", "full_name"),
        ("Z", "full_name"),
    }
    name = found.loc[("A", "full_name")]
    assert (name["times"], name["generations"], name["first_sample"], name["kind"]) == (3, 2, 4, "leak")
    assert distinct_values(GENERATIONS, HITS.head(0)).empty


def test_fields_count_patients_not_hits():
    found = by_field(HITS, COHORT).set_index(["field", "arm"])
    own = found.loc[("full_name", "run")]
    assert (own["patients"], own["pool"], own["hits"]) == (2, 3, 4) and own["share"] == pytest.approx(2 / 3)
    assert (own["low"], own["high"]) == pytest.approx(proportion_interval(2, 3))
    assert found.loc[("full_name", "heldout"), "patients"] == 1
    assert found.loc[("diagnosis", "run"), "patients"] == 1 and found.loc[("ssn", "run"), "patients"] == 0
    assert {field for field, _ in found.index}.isdisjoint({"blood_pressure", "height", "weight"})


def imported(names: dict[str, str]) -> Corpus:
    """The cohort as if imported: these patients have a full name, and nobody has any other value."""
    patients = PATIENTS.assign(**{field.name: None for field in FIELDS})
    return replace(
        COHORT,
        spec=CorpusSpec(imported="0" * 16),
        patients=patients.assign(full_name=patients["patient_id"].map(names)),
    )


def test_of_imported_patients_only_those_with_a_known_value_count():
    """A and X have a name; B's single word and the values that nobody has cannot be searched for."""
    known = imported({"A": "Ann Arbor", "B": "Bea", "X": "Xan Exeter"})
    fields = by_field(HITS[HITS["patient_id"].isin(["A", "X"])], known).set_index(["field", "arm"])
    assert fields.loc[("full_name", "run"), ["patients", "pool"]].tolist() == [1, 1]
    assert fields.loc[("full_name", "heldout"), ["patients", "pool"]].tolist() == [1, 1]
    assert fields.loc[("ssn", "run"), "pool"] == 0 and np.isnan(fields.loc[("ssn", "run"), "share"])
    first = first_leaks(GENERATIONS, HITS, known)
    assert first["patient_id"].tolist() == ["A", "X"]
    assert leak_curve(first, 6).groupby("arm")["share"].last().to_dict() == {"heldout": 1.0, "run": 1.0}
    assert leak_curve(first_leaks(GENERATIONS, HITS, imported({})), 6).empty, "nothing was measured"


def test_samples_until_the_first_leak_are_censored_where_none_came():
    found = first_leaks(GENERATIONS, HITS, COHORT).set_index("patient_id")
    assert found["samples"].to_dict() == {"A": 4, "B": 2, "C": 6, "X": 6, "Y": 6}
    assert found["leaked"].to_dict() == {"A": True, "B": True, "C": False, "X": True, "Y": False}


def test_the_curve_ends_at_the_shares_of_all_samples():
    curve = leak_curve(first_leaks(GENERATIONS, HITS, COHORT), 6)
    own = curve[curve["arm"] == "run"].set_index("samples")["share"]
    assert own.loc[1] == 0 and own.loc[2] == pytest.approx(1 / 3) and own.loc[6] == pytest.approx(2 / 3)
    assert own.is_monotonic_increasing
    assert curve[(curve["arm"] == "heldout") & (curve["samples"] == 6)]["share"].item() == pytest.approx(1 / 2)


def ranking(scores: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"generation_id": range(6), "ratio": scores, "log_likelihood": [0.0] * 6})


def test_recall_counts_distinct_leaks_before_the_error_that_is_one_too_many():
    """Down the ranking: 2 (A), 0 wrong, 3 (B), 1 wrong (a stranger's name is no leak), 5 wrong; 4 repeats 3's text."""
    table = ranking([5, 3, 6, 4, 4, 1])
    found = [recall_at_errors(table, GENERATIONS, HITS, errors=errors) for errors in (0, 1, 2, 3)]
    assert [(one.found, one.leaks, one.read) for one in found] == [(1, 2, 1), (2, 2, 3), (2, 2, 4), (2, 2, 5)]
    assert found[0].recall == 0.5
    assert np.isnan(recall_at_errors(table, GENERATIONS, HITS.head(0), errors=5).recall)
    with pytest.raises(ValueError, match="at least 0"):
        recall_at_errors(table, GENERATIONS, HITS, errors=-1)


def test_ties_are_read_errors_first():
    assert recall_at_errors(ranking([0.0] * 6), GENERATIONS, HITS, errors=2).found == 0
    assert recall_at_errors(ranking([0.0] * 6), GENERATIONS, HITS, errors=3).found == 2
    found = recall_table(ranking([5, 3, 6, 4, 4, 1]), GENERATIONS, HITS, errors=(0, 2)).set_index(["score", "errors"])
    assert found.loc[("ratio", 0), "recall"] == 0.5 and found.loc[("log_likelihood", 2), "recall"] == 0


def test_a_name_repeated_a_thousand_times_is_one_leak():
    many = pd.DataFrame({"generation_id": range(1000), "prompt_id": 1, "prompt": "p", "text": map(str, range(1000))})
    table = pd.DataFrame({"generation_id": range(1000), "ratio": np.arange(1000.0)})
    found = recall_at_errors(table, many, hits(*[hit(n, "A") for n in range(1000)]), errors=0)
    assert (found.found, found.leaks, found.recall) == (1, 1, 1.0)


def test_only_the_forms_asked_for_are_averaged():
    rows = [("HS", 1, True, 4.0), ("HS", 1, True, 6.0), ("random", 1, True, 0.0), ("random", 1, False, 9.0)]
    found = exposure_by_copies(pd.DataFrame(rows, columns=["form", "insertions", "inserted", "exposure"]))
    assert found[["arm", "exposure", "canaries"]].to_numpy().tolist() == [["run", 5.0, 2]]


def test_the_same_text_after_two_prompts_is_read_twice():
    two = GENERATIONS.assign(text=["same", "t1", "t2", "same", "t4", "t5"])  # texts 0 and 3, after “p” and “q”
    ranking = pd.DataFrame({"generation_id": range(6), "ratio": [6.0, 5.0, 1.0, 4.0, 3.0, 2.0]})
    found = recall_at_errors(ranking, two, hits(hit(4, "A")), errors=2)
    assert (found.found, found.leaks, found.read) == (0, 1, 2), "0 and 1 are errors, and 3 is the third"


def test_the_interval_is_at_least_wilsons_over_notes():
    rows = pd.DataFrame({"patient_id": np.repeat([f"P{n}" for n in range(20)], 2), "verbatim": [True, False] * 20})
    found = verbatim_rate(rows, resamples=100)  # each patient is at one half: resampling shows no spread
    assert (found.low, found.high) == pytest.approx(proportion_interval(20, 40))
