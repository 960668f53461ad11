"""What a cohort holds: tables checked against counts made in another way."""

from __future__ import annotations

import pandas as pd
import pytest

from core.corpus import profile
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.phi.fields import FIELD
from core.spec import CORPUS_PRESETS


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build(CORPUS_PRESETS["smoke"])


def test_holders_count_each_patient_once():
    patients = pd.DataFrame({"patient_id": ["a", "b", "c"], "icd_codes": [["I10", "I10", "E11"], ["I10"], []]})
    table = profile.holders_per_code(patients)
    assert table.to_dict("records") == [
        {"code": "I10", "holders": 2, "rank": 1},
        {"code": "E11", "holders": 1, "rank": 2},
    ]


def test_field_profile_counts_the_spans_of_the_notes(corpus):
    table = profile.field_profile(corpus).set_index("field")
    of_patients = corpus.notes[corpus.notes["split"] != "canary"]
    assert len(of_patients) < len(corpus.notes), "canaries are nobody, and do not count"
    for name in ("full_name", "diagnosis", "height"):
        holding = [note for note in of_patients.itertuples() if any(s["field"] == name for s in note.phi_spans)]
        row = table.loc[FIELD[name].label]
        assert row["mentions"] == sum(s["field"] == name for note in holding for s in note.phi_spans)
        assert row["patients_named"] == len({note.patient_id for note in holding})
        assert row["share"] == row["patients_named"] / of_patients["patient_id"].nunique()


def test_lengths_count_words(corpus):
    table = profile.length_profile(corpus.notes).set_index("note_type")
    assert table["notes"].sum() == len(corpus.notes)
    for kind, group in corpus.notes.groupby("note_type"):
        words = sorted(len(text.split()) for text in group["text"])
        assert (table.loc[kind, "shortest"], table.loc[kind, "longest"]) == (words[0], words[-1])


def test_filters_narrow_and_combine(corpus):
    assert len(profile.matching_notes(corpus)) == len(corpus.notes)
    kind = corpus.notes["note_type"].iloc[0]
    found = profile.matching_notes(corpus, splits=["member"], note_types=[kind])
    assert 0 < len(found) < len(corpus.notes)
    assert set(found["split"]) == {"member"} and set(found["note_type"]) == {kind}
    who = corpus.patients.iloc[0]
    by_name = profile.matching_notes(corpus, patient=who["full_name"].upper())
    assert set(by_name["patient_id"]) == {who["patient_id"]}
    code = who["icd_codes"][0]
    holders = {row.patient_id for row in corpus.patients.itertuples() if code in list(row.icd_codes)}
    assert who["patient_id"] in set(profile.matching_notes(corpus, code=code.lower())["patient_id"]) <= holders


def test_typed_words_are_no_pattern(corpus):
    assert profile.matching_notes(corpus, words=".*(").empty
    text = corpus.notes["text"].iloc[0]
    assert corpus.notes["note_id"].iloc[0] in set(profile.matching_notes(corpus, words=text[:20])["note_id"])
