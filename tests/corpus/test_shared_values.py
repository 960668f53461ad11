"""Values that several patients have: which they are, and that only imported notes have any."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from core.corpus.shared_values import shared_values
from core.corpus.synthetic.hospital import build, splits
from core.corpus.synthetic.records import Registry
from core.corpus.tables import Corpus
from core.phi.fields import FIELDS
from core.spec import CORPUS_PRESETS, CorpusSpec


def people(**columns: list) -> pd.DataFrame:
    count = len(next(iter(columns.values())))
    return pd.DataFrame({"patient_id": list("ABCDEFGH"[:count]), **columns})


@pytest.mark.parametrize(
    ("field", "values", "shared"),
    [
        ("full_name", ["Maria Keller", "Keller, Maria", "Maria Kellerman", None], "AB"),
        ("full_name", ["Maria Keller", "Mrs. Maria A. Keller", "Anna Keller", "Maria"], "AB"),
        ("full_name", ["Maria", "Maria", "Bob Ray", "Bob Ray"], "CD"),
        ("phone", ["(415) 555-0142", "+1 415 555 0142 ext 3", "415-555-0143"], "AB"),
        ("address", ["18 Elm Street, Apt 3", "18 Elm Street, Apt 4", "19 Elm Street"], "AB"),
        ("mrn", ["MRN-4410937", "4410937", "44109371"], "AB"),
        ("email", ["a.b@example.org", "A.B@example.org", "c@example.org"], "AB"),
        ("date_of_birth", ["1957-03-22", "1957-03-22"], ""),
        ("diagnosis", ["Asthma", "Asthma"], ""),
    ],
)
def test_values_are_shared_if_one_text_could_be_a_hit_for_both(field, values, shared):
    assert shared_values(people(**{field: values})) == {(one, field) for one in shared}


def imported(splits: list[str]) -> Corpus:
    frame = people(full_name=["Maria Keller"] * len(splits), split=splits)
    patients = frame.reindex(columns=["patient_id", "split", *(field.name for field in FIELDS)])
    spec = CorpusSpec(imported="0" * 16)
    notes = frame[["patient_id", "split"]].assign(note_id=frame["patient_id"])
    return Corpus(spec=spec, patients=patients, notes=notes, canaries=pd.DataFrame())


def test_who_was_trained_on_does_not_matter_and_only_audited_patients_do():
    """Were only names in both groups left out, those of many patients would stay with the larger group more often."""
    for both in (["member", "heldout"], ["member", "member"], ["heldout", "heldout"]):
        assert imported(both).shared_values == {("A", "full_name"), ("B", "full_name")}
    assert not imported(["member", "population"]).shared_values
    three = imported(["member", "heldout", "member"])
    assert three.without(["A"]).shared_values == three.shared_values, "trainings with and without A count the same"
    assert not replace(three, spec=CORPUS_PRESETS["smoke"]).shared_values


@pytest.mark.parametrize("name", ["smoke", "classroom"])
def test_no_generated_patient_shares_a_value(name):
    """So nothing changes for shipped results: the rule would find nobody, even among population and canaries."""
    corpus = build(CORPUS_PRESETS[name])
    assert not shared_values(corpus.patients) and not corpus.shared_values


def test_no_patient_of_a_larger_shipped_hospital_shares_a_value():
    spec = CORPUS_PRESETS["classroom-48k"]
    registry, labels = Registry(spec.seed), splits(spec)
    rows = [registry.patient(number, str(number), split).row() for number, split in enumerate(labels)]
    assert len(rows) > 7_000 and not shared_values(pd.DataFrame(rows))
