from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.phi.leaks import find
from core.phi.old_rule import old_rule, old_rule_places


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


def test_the_year_and_the_words_of_an_imported_record_count():
    for born in ("March 22, 1957", "22/03/1957", "03/22/1957", "1957-03-22"):
        record = {"date_of_birth": born}
        assert old_rule("born in 1957", record)["date_of_birth"], born
        assert not old_rule("Marc took 22 mg on 03/20, 22/01", record)["date_of_birth"], born
    assert old_rule("a keller's beer", {"full_name": "Keller, Maria"})["full_name"]


def test_missing_values_are_never_found():
    empty = {"full_name": None, "phone": "none", "email": ""}
    assert not any(old_rule("None none", empty).values())
