"""Cells of dates, ages, sexes and codes: what is read, and that anything else is refused in a sentence."""

from __future__ import annotations

import datetime
import gzip
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus import icd_codes
from core.corpus.importing.cells import check_code, note_text, read_age, read_date, read_sex
from core.phi.shaped import find_shaped

DAYS = st.dates(datetime.date(1700, 1, 1), datetime.date(2300, 12, 31))
FORMS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y%m%d",
    "%Y-%m-%d %H:%M:%S",
    "%Y-%m-%dT%H:%M:%SZ",
    "%d %B %Y",
    "%B %d, %Y",
    "%d-%b-%Y",
)


@given(DAYS, st.sampled_from(FORMS))
def test_a_day_is_read_in_the_usual_forms(day, form):
    read = read_date(day.strftime(form))
    assert read.first == day and read.whole and not read.order and ":" not in read.written


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1700, 2300), st.sampled_from("/.-"))
def test_numbers_are_a_date_if_either_order_is_a_day_of_the_calendar(one, other, year, separator):
    """The oracle tries both orders."""
    days = {}
    for order, month, day in (("month first", one, other), ("day first", other, one)):
        try:
            days[order] = datetime.date(year, month, day)
        except ValueError:
            continue
    text = f"{one}{separator}{other}{separator}{year}"
    if not days or (len(days) == 1 and one <= 12 and other <= 12):  # 0/5 and the like
        with pytest.raises(ValueError, match="not a day in the calendar"):
            read_date(text)
    else:
        assert read_date(text).first == min(days.values())
        assert read_date(text).order == ("" if len(days) == 2 else next(iter(days)))


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("31/31/2020", "not a day"),
        ("2020-02-30", "not a day"),
        ("29.02.2021", "not a day"),
        ("yesterday", "not a date"),
        ("43831", "spreadsheet's serial"),
        ("43831.5", "spreadsheet's serial"),
        ("1/5/20", "two-digit year"),
        ("05-Jan-20", "two-digit year"),
        ("Jan 5 '20", "two-digit year"),
        ("0001-01-01", "between the years"),
        ("9999-12-31", "between the years"),
        ("nan", "not a date"),
        ("1/2", "not a date"),
        ("2020-13-01", "not a day"),
        ("9" * 5_000, "not a date"),
        ("<script>", "not a date"),
        ("12:30", "not a date"),
        ("May", "not a date"),
    ],
)
def test_what_is_no_date_is_refused_in_a_sentence(cell, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        read_date(cell)
    assert len(str(refused.value)) < 200 and str(refused.value).endswith(".")


def test_a_year_alone_is_a_date_but_no_day():
    assert [read_date(cell).whole for cell in ("2020", "2020-03", "March 2020", "2020-03-01")] == [False] * 3 + [True]
    assert read_date("1/5/2020 10:30 PM").written == "1/5/2020"
    for zone in ("", "Z", " UTC", " GMT", "+01:00", " UTC-05:00"):
        assert read_date(f"2020-01-05 00:00:00.000{zone}").written == "2020-01-05"


@given(st.integers(0, 120), st.integers(0, 11))
def test_months_are_whole_years(years, months):
    total = 12 * years + months
    for text in (f"{total} months", f"{total}mo", f"{years} years {months} months", f"{years}y {months}m"):
        assert read_age(text) == years, text
    assert read_age(f"{7 * 52 * 0 + 365 * min(years, 27)} days") == min(years, 27)
    assert read_age(str(years)) == read_age(f"{years}.{months % 10}") == read_age(f" {years} years old ") == years


@pytest.mark.parametrize(
    ("cell", "age"),
    [("18 months", 1), ("6 weeks", 0), ("10 days", 0), ("90+", 90), ("> 89", 90), (">= 90", 90), ("95+", 95)],
)
def test_ages_as_people_write_them(cell, age):
    assert read_age(cell) == age


@pytest.mark.parametrize(
    "cell",
    ["inf", "-inf", "Infinity", "nan", "NaN", "-1", "-0.5", "1e2", "121", "9" * 400, "145 years", "1460 months"]
    + ["old", "", "months", "18 18 months", "85+", "١٢", "0x10", "1_0", "<script>"],
)
def test_what_is_no_age_is_refused_in_a_sentence(cell):
    with pytest.raises(ValueError, match="is not an age") as refused:
        read_age(cell)
    assert len(str(refused.value)) < 120


@given(st.one_of(st.text(max_size=40), st.floats().map(str), st.integers().map(str)))
def test_any_cell_is_read_or_refused_and_nothing_else(cell):
    for by in (read_date, read_age, read_sex, lambda text: check_code(text.upper())):
        try:
            value = by(cell)
        except ValueError as error:
            assert str(error).startswith("“")
            continue
        assert by is not read_age or 0 <= value <= 120


def test_sexes():
    assert [read_sex(cell) for cell in ("m", " Female ", "WOMAN", "Other", "X")] == ["M", "F", "F", "Other", "X"]
    for cell in ("purple", "1", "0", "mf", "male?", "<script>"):
        with pytest.raises(ValueError, match="is not a sex"):
            read_sex(cell)


def test_every_official_code_is_a_code_with_and_without_its_dot():
    import simple_icd_10_cm  # reads all codes when it is imported: two seconds

    ninth = gzip.decompress((Path(icd_codes.__file__).parent / "icd9_codes.csv.gz").read_bytes()).decode().splitlines()
    ninth = [line.split(",")[0] for line in ninth[1:]]
    tenth = [code for code in simple_icd_10_cm.get_all_codes() if simple_icd_10_cm.is_category_or_subcategory(code)]
    assert len(ninth) > 14_000 and len(tenth) > 90_000
    for code in (*ninth, *tenth):
        assert check_code(code) == code and check_code(code.replace(".", ""))


@pytest.mark.parametrize(
    "code", ["<SCRIPT>", "41", "7", "A00-B99", "E1", "E11.", "E11.99999", "TWELVE", "1234567", "E1.19"]
)
def test_what_is_no_code_is_refused(code):
    with pytest.raises(ValueError, match="is not an ICD-9 or ICD-10 code"):
        check_code(code)


@pytest.mark.parametrize("text", ["Mr. José García, tel 555-123-4567", "St. Mary's, naïve"])
def test_a_note_is_read_as_a_keyboard_writes_it(text):
    for written in (
        unicodedata.normalize("NFD", text),
        text.replace(" ", "\u00a0"),
        text.replace(" ", "\u202f").replace("-", "\u2011"),
        text.replace(" ", "\u2007").replace("-", "\u2010"),
    ):
        assert note_text(written) == text
    assert note_text("one\r\ntwo – “three” ½ ﬁ") == "one\ntwo – “three” ½ ﬁ", "nothing that a reader sees changes"


def test_no_form_of_a_letter_or_blank_hides_a_name_in_an_imported_note():
    text = "Patient: Maria García, tel (555) 123-4567. Dr. Müller agreed."
    plain = [(span.field, span.value) for span in find_shaped(text)]
    for hidden in (unicodedata.normalize("NFD", text), text.replace(" ", "\u00a0"), text.replace("-", "\u2011")):
        assert [(span.field, span.value) for span in find_shaped(note_text(hidden))] == plain
    assert {"full_name", "phone", "clinician"} <= {field for field, _ in plain}
