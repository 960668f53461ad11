"""What a board fills in: read from a file, printed as text, and in short on the first page."""

from __future__ import annotations

import pytest

from core.evaluation.report.decision import Decision, in_short, read
from core.evaluation.report.facts import build
from core.evaluation.report.html import render

NASTY = "<script>alert('x')</script>"


@pytest.fixture(scope="module")
def runs(workspace, smoke_specs):
    return [workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")]


def test_answers_are_printed_as_text_and_kept_in_the_json(workspace, runs):
    decision = Decision.model_validate(
        {
            "recipient": NASTY,
            "accepted": f"none\n{NASTY}\u202e",
            "access": "weights",
            "owner": "CISO",
            "review": "2027-01-01",
            "approvers": [{"name": NASTY, "role": "officer"}],
        }
    )
    made = build(workspace, runs, now=0.0, decision=decision)
    page = render(made)
    assert "<script" not in page and page.count("&lt;script&gt;") >= 3 and "2027-01-01" in page
    assert made.facts["decision"]["accepted"] == f"none {NASTY}", "one line, without marks that turn the text"
    assert made.facts["decision"]["review"] == "2027-01-01" and "The weights" in page
    assert "the risk owner" not in " ".join(made.facts["open"]) and "the date of expiry" in made.facts["open"][-1]


def test_the_decision_is_on_the_first_page_in_short(workspace, runs):
    names = ["A. Example", "Prof. Dr. Beatrice Example-Illustration", "Dr. C. Example", "y" * 600]
    people = [{"name": name, "role": "officer"} for name in names]
    people += [{"name": "", "role": "Chair"}, {"name": "", "role": ""}]
    given = {"recipient": "x" * 600, "access": "weights", "owner": NASTY, "expires": "2028-01-01", "approvers": people}
    decision = Decision.model_validate(given)
    made = build(workspace, runs, now=0.0, decision=decision)
    told = {key: text for key, _, text in in_short(made.facts["decision"])}
    assert told == {
        "recipient": "x" * 59 + "…",
        "access": "The weights",
        "owner": NASTY,
        "review": "not filled in / 2028-01-01",
        "approvers": f"{', '.join(names[:3])}, {'y' * 59}…, Chair",
    }
    front, _, annex = render(made).partition('<div class="annex">')
    strip = front.partition('id="in-short"')[2].partition("</p>")[0]
    assert told["approvers"] in strip, "every approver, and not as many as fit a line"
    assert "x" * 59 + "…" in strip and "2028-01-01" in strip and "&lt;script&gt;" in strip and "x" * 600 in annex
    assert all(f'href="#decision-{key}"' in strip and f'id="decision-{key}"' in annex for key in told)
    nothing = in_short(build(workspace, runs, now=0.0).facts["decision"])
    assert [text for _, _, text in nothing] == ["not filled in"] * 5
    assert [name for _, name, _ in nothing] == [
        "Recipient",
        "Access",
        "Risk owner",
        "Review / expires",
        "Approvers (they sign in the annex)",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be used"),
        ('{"recipients": "x"}', "Its keys are recipient"),
        ('{"access": "usb stick"}', "access"),
        ('{"review": "2028-01-01", "expires": "2027-01-01"}', "must not be after"),
        ('{"owner": "' + "x" * 601 + '"}', "owner"),
    ],
)
def test_a_decision_that_cannot_be_used_is_a_sentence(tmp_path, text, words):
    path = tmp_path / "decision.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        read(path)
    with pytest.raises(ValueError, match="cannot be read"):
        read(tmp_path / "none.json")
