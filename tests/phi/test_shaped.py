from __future__ import annotations

import pytest

from core.phi.leaks import find_shaped


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Patient: Ada Byron  MRN: 4410937  DOB: 1957-03-22",
         [("full_name", "Ada Byron"), ("mrn", "4410937"), ("date_of_birth", "1957-03-22")]),
        ("Re: Ada B. Byron-King, date of birth March 2nd, 1960.",
         [("full_name", "Ada B. Byron-King"), ("date_of_birth", "March 2nd, 1960")]),
        ("Mrs. Byron was seen with Mr O'Hara", [("full_name", "Byron"), ("full_name", "O'Hara")]),
        ("(415) 555-0142 or +1 415-555-0142", [("phone", "(415) 555-0142"), ("phone", "+1 415-555-0142")]),
        ("SSN 514-22-9078, ada@example.org. The next", [("ssn", "514-22-9078"), ("email", "ada@example.org")]),
        ("lives at 1870 Harmon Isle.", [("address", "1870 Harmon Isle")]),
        ("😀\u200b born 22 March 1957", [("date_of_birth", "22 March 1957")]),
        ("Israel, 1991, 142/88, 30 mg, version 1.2.3, page 12 of 30, the Keller sign, 2020-13-45, 4410937", []),
        ("", []),
    ],
)  # fmt: skip
def test_shapes(text, expected):
    spans = find_shaped(text)
    assert [(span.field, span.value) for span in spans] == expected
    assert all(text[span.start : span.end] == span.value and span.kind == "invented" for span in spans)
