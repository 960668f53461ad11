from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.phi.dates import full_dates

FORMS = ("%Y-%m-%d", "%Y/%m/%d", "%m/%d/%Y", "%m-%d-%Y", "%d %B %Y", "%B %d, %Y", "%d-%b-%Y", "%d %b %Y", "%b %d %Y")


@given(day=st.dates(datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)), form=st.sampled_from(FORMS))
def test_every_written_form_of_every_day(day, form):
    written = day.strftime(form).lower()
    assert full_dates(f"on {written}.") == [(3, 3 + len(written), day.isoformat())]


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("3/4/1957", "1957-03-04"),  # month first, as American records write
        ("22/03/1957", "1957-03-22"),
        ("22nd of march, 1957", "1957-03-22"),
        ("1957 - 03 - 22", "1957-03-22"),
        ("1957-03-22t10:30", "1957-03-22"),
        ("2208-03-22", "2208-03-22"),  # MIMIC moves admissions so far
    ],
)
def test_less_usual_forms(text, iso):
    assert [date for _, _, date in full_dates(text)] == [iso]


@pytest.mark.parametrize(
    "text",
    [
        "1957",
        "3/22/57",
        "31/02/1957",
        "1957-02-30",
        "1957-03-221",
        "91957-03-22",
        "1957-03-22-7",
        "march 1957",
        "2/3",
        "3/4/2257",
    ],
)
def test_no_full_date(text):
    assert full_dates(text) == []
