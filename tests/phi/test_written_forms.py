"""The written forms of a value are forms that the search for PHI finds as that value."""

from __future__ import annotations

import pandas as pd
import pytest

from core.phi.fields import DIRECT
from core.phi.index import PhiIndex
from core.phi.leaks import find
from core.phi.written_forms import written_forms

PEOPLE = pd.DataFrame(
    {
        "patient_id": ["A", "B", "C", "D"],
        "split": "member",
        "full_name": ["Maria Keller", "Dr. John Paul van Dyck Jr.", "Keller, Åsa M.", "J.R. (Jay) St. Clair"],
        "date_of_birth": ["1957-03-22", "November 5, 1980", "1931-12-01", "2001-02-03"],
        "ssn": ["514-22-9078", "050402613", "147 66 2034", "RSSMRA85T10A562S"],
        "mrn": ["MRN-4410937", "4411", "#7712093", "12A4567B"],
        "phone": ["(415) 555-0142", "+1 212 555 0199 x12", "778.555.5806", "Fax: 617-555-0142"],
        "email": ["maria.keller57@example.org", "jp@example.com", "asa_k@example.net", "Jay <jay@example.org>"],
        "address": ["1870 Harmon Isle", "12 Elm St Apt 4, Springfield", "4753 Orr Junction", "Apt 4B, 9 Elm St"],
    }
)


@pytest.mark.parametrize("field", DIRECT)
@pytest.mark.parametrize("row", range(len(PEOPLE)))
def test_the_search_finds_every_form(field, row):
    index, one = PhiIndex.build(PEOPLE), PEOPLE.iloc[row]
    forms = written_forms(field, one[field])
    assert forms and len(set(forms)) == len(forms)
    for form in forms:
        for text in (f"{form}.", f" {form}, seen today", f"{form}\nBP 120/80", form.upper()):
            found = find(text, index, "Patient:")
            assert any(span.field == field and one["patient_id"] in span.patient_ids for span in found), text


def test_forms_of_known_values():
    assert "keller, maria" in written_forms("full_name", "Maria Keller")
    assert {"john p van dyck", "john van dyck", "van dyck, john paul"} <= set(
        written_forms("full_name", "Dr. John Paul van Dyck Jr.")
    )
    dates = written_forms("date_of_birth", "1957-03-22")
    assert {"1957-03-22", "03/22/1957", "3/22/1957", "22 march 1957", "mar 22, 1957", "22 mar 1957"} <= set(dates)
    assert set(written_forms("ssn", "514-22-9078")) == {"514-22-9078", "514 22 9078", "514229078"}
    assert {"MRN-4410937", "4410937", "MRN: 4410937"} <= set(written_forms("mrn", "MRN-4410937"))
    assert written_forms("mrn", "4411") == ("MRN 4411", "MRN-4411", "MRN: 4411"), "a short number needs its label"
    assert {"(415) 555-0142", "415-555-0142", "+1 415 555 0142"} <= set(written_forms("phone", "(415) 555-0142"))
    assert "12 Elm St" in {form.title() for form in written_forms("address", "12 Elm St Apt 4, Springfield")}


def test_what_identifies_nobody_has_no_form():
    assert written_forms("full_name", "Maria") == () and written_forms("date_of_birth", "1957") == ()
    assert written_forms("email", "none") == () and written_forms("address", "homeless") == ()
    with pytest.raises(ValueError, match="no direct identifier"):
        written_forms("diagnosis", "hypertension")


def test_a_number_of_five_digits_counts_only_after_its_word():

    assert written_forms("mrn", "12345") == ("MRN 12345", "MRN-12345", "MRN: 12345")
