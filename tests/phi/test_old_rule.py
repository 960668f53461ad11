from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.phi.leaks import find
from core.phi.old_rule import OLD_RULE_FIELDS, old_rule, old_rule_attempts, old_rule_places


def listing(text, record):
    """The report's own listing (§5.4.2), its record's keys replaced by ours, plus its whole-value record number."""
    low = text.lower()
    return {
        "full_name": record["full_name"].lower() in low
        or any(word.lower() in low for word in record["full_name"].split()),
        "email": record["email"].lower() in low or record["email"].split("@")[0].lower() in low,
        "ssn": record["ssn"] in text or record["ssn"].replace("-", "") in text.replace("-", ""),
        "phone": "".join(filter(str.isdigit, record["phone"])) in "".join(filter(str.isdigit, text)),
        "mrn": record["mrn"].lower() in low,
        "date_of_birth": record["date_of_birth"][:4] in text,
        "diagnosis": record["diagnosis"].lower() in low,
        "medication": record["medication"].lower() in low,
    }


PIECES = st.sampled_from(
    [
        *("Israel", "moored", "1991", "19-91", "602-81", "60281", "3345", "MRN-", "7782013", "imoore", "@example.com"),
        *("1312", "5550199", "Essential (primary) hypertension", "lisinopril 10 mg", " ", "-", "İ", "ß", "😀", "MARIA"),
    ]
)


@given(text=st.lists(PIECES, max_size=12).map("".join), row=st.integers(0, 6))
def test_says_what_the_reports_listing_says(text, row, patients):
    record = patients.iloc[row].to_dict()
    assert old_rule(text, record) == listing(text, record)


def test_shows_what_the_rule_counts_and_ours_does_not(patients, index):
    record = patients.iloc[1].to_dict()
    text = "The government of Israel and the alliance of 1991; anxiety, essential (primary) hypertension"
    called = old_rule_places(text, record)
    assert {field: text[slice(*place)] for field, place in called.items()} == {
        "full_name": "Israel",
        "date_of_birth": "1991",
        "diagnosis": "essential (primary) hypertension",
    }
    assert [span.kind for span in find(text, index)] == ["coincidence"]


def test_attempts_are_the_rule_row_by_row(patients):
    texts = ["Israel", "nothing", "moor", "Asthma in 1957"]
    records = patients.iloc[[1, 1, 1, 4]]
    attempts = old_rule_attempts(texts, records)
    assert attempts["any"].tolist() == [True, False, False, True]
    assert list(attempts.columns) == [*OLD_RULE_FIELDS, "any"]
    for text, row, record in zip(texts, attempts.to_dict("records"), records.to_dict("records"), strict=True):
        assert {field: row[field] for field in OLD_RULE_FIELDS} == old_rule(text, record)
    with pytest.raises(ValueError, match="1 texts came with 2 records"):
        old_rule_attempts(["a"], patients.head(2))
    assert old_rule_attempts([], patients.head(0)).empty


def test_missing_values_are_never_found():
    empty = pd.DataFrame({"full_name": [None], "phone": ["none"], "email": [""]})
    assert not old_rule_attempts(["None none"], empty)["any"].any()
