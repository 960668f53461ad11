"""The page Findings: all verdicts above the fold, a claim by its link, and verdicts hidden until after a guess."""

from __future__ import annotations

import html
import re
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.common.database import DatabaseUnusable
from core.evaluation.wording import unbroken
from core.findings.claims import CLAIMS
from core.findings.judging import Finding, stored_findings
from pages.parts.common import scroll
from pages.parts.common.shell import title_of
from pages.parts.findings import card, charts, data, veil
from pages.parts.findings.veil import WAITING
from pages.parts.session import classroom
from tests.pages.visit import said, visit

FOUND = stored_findings(CLAIMS)
VEILED = {str(one.verdict) if one.verdict == "not run" else charts.HIDDEN for one in FOUND}


def of(verdict: str) -> Finding:
    return next(one for one in FOUND if one.verdict == verdict)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))


def test_the_page_opens_with_how_many_claims_hold():
    app = visit("findings")
    number = {verdict: sum(one.verdict == verdict for one in FOUND) for verdict in charts.LOOKS}
    assert f"**{number['holds']} hold**, **{number['does not hold']} do not**" in said(app)
    assert len(app.get("plotly_chart")) == 2, "the tiles and the first claim's figures"


@pytest.mark.parametrize("verdict", ["holds", "does not hold", "cannot tell"])
def test_a_link_opens_a_claim_with_its_verdict_and_why(verdict):
    one = of(verdict)
    app = visit("findings", claim=one.claim.id)
    assert app.header[0].value == f"{one.claim.id}: {one.claim.title}"
    assert unbroken(one.claim.figure) in said(app) and unbroken(one.why or "It") in said(app)
    assert app.code[0].value == f"python -m core findings {one.claim.id}"
    assert f"- **Differs from the paper.** {one.claim.differs}" in said(app)
    (there,) = [link.proto for link in app.get("page_link") if link.proto.label.endswith("the page with such figures")]
    assert there.label == f"{title_of(one.claim.page)}, the page with such figures"


@pytest.fixture
def not_run(monkeypatch) -> str:
    """The id of a claim of which no evidence is stored."""
    found = [Finding(one.claim, None if one.claim.id == "H-c3" else one.evidence) for one in FOUND]
    monkeypatch.setattr(data, "stored_findings", lambda claims, root: found)
    return "H-c3"


def test_a_claim_that_was_not_run_says_how_to_run_it(not_run):
    app = visit("findings", claim=not_run)
    assert "**Not run yet.**" in said(app) and len(app.get("plotly_chart")) == 1
    assert app.code[0].value == "python -m core findings H-c3 --run"


def test_verdicts_are_hidden_until_somebody_has_guessed(not_run):
    one = of("does not hold")
    app = visit("findings", claim=one.claim.id, guess="1")
    assert "say what you expect" in said(app) and "**It does not hold.**" not in said(app)
    assert one.why not in said(app) and not app.code
    table = app.dataframe[-1].value
    assert set(table["Verdict"]) == {charts.HIDDEN, "not run"} and not table.loc[table["Here"] != ""].size
    next(button for button in app.button if button.label == "It holds").click().run()
    assert not app.exception
    assert "You guessed “It holds”. **It does not hold.**" in said(app) and one.why in said(app)
    table = app.dataframe[-1].value.set_index("Id")["Verdict"]
    assert table[one.claim.id] == "does not hold" and (table == charts.HIDDEN).any()


def test_every_claim_has_a_tile_and_a_hidden_one_does_not_show_its_verdict():
    figure = charts.tiles(FOUND, {"J-c2"})
    tiles = {row[0]: trace.name for trace in figure.data for row in trace.customdata}
    assert set(tiles) == {claim.id for claim in CLAIMS}
    assert tiles["J-c2"] == charts.HIDDEN
    assert figure.layout.height <= 800 - 250, "all lines are above the fold: they begin 250 pixels below the top"
    for one in FOUND:
        if one.claim.id != "J-c2":
            assert tiles[one.claim.id].endswith(str(one.verdict))


def test_the_chosen_tile_has_an_outline_and_a_link_scrolls_to_its_claim():
    figure = charts.tiles(FOUND, set(), "L-c7")
    (outline,) = figure.layout.shapes
    trace = next(trace for trace in figure.data if any(row[0] == "L-c7" for row in trace.customdata))
    place = [row[0] for row in trace.customdata].index("L-c7")
    assert (outline.x0, (outline.y0 + outline.y1) / 2) == pytest.approx((trace.base[place], trace.y[place]))
    assert not charts.tiles(FOUND, set()).layout.shapes
    assert visit("findings", claim="L-c7").session_state[scroll._ASKED] == 1
    assert scroll._ASKED not in visit("findings").session_state


def test_a_link_to_a_claim_that_does_not_exist_is_called_that():
    app = visit("findings", claim="X-c1")
    (warning,) = (one.value.replace("\\", "") for one in app.warning)
    assert warning.startswith("The claim in this link, “X-c1”, is not offered here: no claim has this id.")
    assert warning.endswith(f"Shown instead: {FOUND[0].claim.id}.")
    assert not visit("findings", claim="L-c7").warning


def test_an_axis_of_a_plain_number_says_what_it_is_and_labels_keep_the_seeds_number():
    one = next(one for one in FOUND if one.claim.id == "L-c7")
    title = charts.figures(one).layout.xaxis.title.text
    assert title.replace("<br>", " ") == html.escape(one.claim.quantity)
    assert charts._label("BERT tiny − micro, seed 0") == "BERT tiny − micro,<br>seed\u00a00"


def test_no_line_of_tiles_is_too_long_for_a_telephone_and_papers_do_not_share_one():
    figure = charts.tiles(FOUND, set())
    places = {
        row[0]: (base, line)
        for trace in figure.data
        for row, base, line in zip(trace.customdata, trace.base, trace.y, strict=True)
    }
    assert len(set(places.values())) == len(CLAIMS) and max(base for base, _ in places.values()) < charts.PER_LINE
    papers = {line: {name[0] for name, (_, at) in places.items() if at == line} for _, line in places.values()}
    assert all(len(letters) == 1 for letters in papers.values())
    middle = dict(zip(figure.layout.yaxis.ticktext, figure.layout.yaxis.tickvals, strict=True))
    assert len(middle) == 5 and list(middle.values())[0] == (
        max(line for line, who in papers.items() if "J" in who) / 2
    )


@pytest.mark.parametrize("one", [one for one in FOUND if one.evidence], ids=lambda one: one.claim.id)
def test_the_picture_shows_every_interval_and_where_the_claim_is_supported(one):
    figure = charts.figures(one)
    measured = [found for found in one.evidence.figures if found.has_interval]
    scale = charts.SCALE[one.claim.unit]
    marks = figure.data[0]
    assert list(marks.x) == pytest.approx([scale * found.value for found in reversed(measured)])
    ends = [x + up for x, up in zip(marks.x, marks.error_x.array, strict=True)]
    assert ends == pytest.approx([scale * found.high for found in reversed(measured)])
    shaded = SimpleNamespace(low=figure.layout.shapes[0].x0, high=figure.layout.shapes[0].x1)
    if one.verdict == "holds":
        lows = [x - down for x, down in zip(marks.x, marks.error_x.arrayminus, strict=True)]
        assert all(shaded.low <= low + 1e-9 for low in lows) and all(high <= shaded.high + 1e-9 for high in ends)
    low, high = figure.layout.xaxis.range
    assert all(low <= end <= high for end in ends)


def test_the_words_about_judging_name_every_verdict():
    for verdict in ("Holds", "Does not hold", "Cannot tell", "Not run yet"):
        assert re.search(rf"\*\*{verdict}\*\*", data.HOW)


# In a class ----------------------------------------------------------------------------------------------------------


def press(app: AppTest, key: str) -> AppTest:
    next(button for button in app.button if button.key == key).click().run()
    assert not app.exception
    return app


def keys(app: AppTest) -> set[str]:
    return {button.key for button in app.button}


def test_a_presenter_who_leads_hides_the_verdicts_from_everybody_until_they_show_them():
    code, key = classroom.classroom().open()
    one = of("does not hold")
    asked = f"finding-{one.claim.id}"
    host = visit("findings", claim=one.claim.id, room=code, host=key, guess="0")
    assert "findings-veil" not in keys(host), "only a presenter who leads has the button"
    host.toggle(key="class-lead").set_value(True).run()
    student = visit("findings", claim=one.claim.id, room=code, guess="0")
    assert one.why in said(student) and "findings-veil" not in keys(student)

    press(host, "findings-veil")
    assert one.why not in said(host), "a projector shows the presenter's page"
    assert next(b.label for b in host.button if b.key == "findings-veil") == "Show verdicts"
    student.run()
    assert "The presenter will show the verdicts." in said(student) and one.why not in said(student)
    assert set(student.dataframe[-1].value["Verdict"]) == VEILED and not student.code
    assert f"{asked}-show" not in keys(student), "nothing skips the guess"
    next(toggle for toggle in student.toggle if toggle.key == "guess-switch").set_value(True).run()
    assert one.why not in said(student), "the switch does not reveal either"
    press(student, f"{asked}-0")
    assert "You guessed “It holds”." in said(student) and one.why not in said(student)
    assert WAITING in [caption.value for caption in student.caption]
    assert set(student.dataframe[-1].value["Verdict"]) == VEILED

    press(host, "findings-veil")
    student.run()
    assert "You guessed “It holds”. **It does not hold.**" in said(student) and one.why in said(student)


def test_verdicts_that_the_presenter_shows_are_seen_also_where_guess_first_is_on():
    """In a class it is on from the start, so that “Show verdicts” would otherwise show none."""
    code, key = classroom.classroom().open()
    one = of("does not hold")
    host = visit("findings", claim=one.claim.id, room=code, host=key)
    host.toggle(key="class-lead").set_value(True).run()
    student = visit("findings", claim=one.claim.id, room=code)
    assert one.why not in said(host) and one.why not in said(student), "each guesses first"
    tooltips = []
    for _ in ("hide", "show"):
        tooltips.append(next(button.help for button in host.button if button.key == "findings-veil"))
        press(host, "findings-veil")
    assert tooltips == [veil.HIDE, veil.SHOW]
    for app in (host, student.run()):
        assert one.why in said(app) and "**It does not hold.**" in said(app)
        assert charts.HIDDEN not in set(app.dataframe[-1].value["Verdict"])
    host.toggle(key="class-lead").set_value(False).run()
    assert one.why in said(student.run()), "what was seen stays"


def test_who_skipped_the_guess_before_is_asked_again_under_the_veil():
    code, key = classroom.classroom().open()
    one = of("holds")
    student = visit("findings", claim=one.claim.id, room=code)
    press(student, f"finding-{one.claim.id}-show")
    assert "**It holds.**" in said(student), "in a class without a veil anybody may skip the guess"
    rooms = classroom.classroom()
    rooms.veil(code, True)
    assert "**It holds.**" in said(student.run()), "the presenter does not lead"
    rooms.lead(code, "findings", [("claim", one.claim.id)])
    assert "**It holds.**" not in said(student.run()) and f"finding-{one.claim.id}-show" not in keys(student)
    press(student, f"finding-{one.claim.id}-0")
    assert "You guessed “It holds”." in said(student) and "**It holds.**" not in said(student)
    rooms.release(code)
    assert "**It holds.**" in said(student.run())


def test_the_veil_stays_while_the_room_cannot_be_read(monkeypatch):
    code, _ = classroom.classroom().open()
    rooms = classroom.classroom()
    rooms.lead(code, "findings", [])
    rooms.veil(code, True)
    student = visit("findings", room=code, guess="0")
    assert "The presenter will show the verdicts." in said(student)

    def broken(*_: object) -> None:
        raise DatabaseUnusable("disk I/O error")

    with monkeypatch.context() as unreadable:
        unreadable.setattr(type(rooms), "counts", broken)
        assert "The presenter will show the verdicts." in said(student.run())
    rooms.veil(code, False)
    one = of("holds")
    student = visit("findings", room=code, claim=one.claim.id)
    assert "**It holds.**" in said(student), "shown, although Guess first is on in a class"
    monkeypatch.setattr(type(rooms), "counts", broken)
    assert "**It holds.**" in said(student.run())


def test_a_student_cannot_lift_the_veil_and_outside_a_class_there_is_none():
    code, _ = classroom.classroom().open()
    rooms = classroom.classroom()
    rooms.lead(code, "findings", [])
    rooms.veil(code, True)
    student = visit("findings", room=code, host="A" * 12, guess="0")
    assert "The presenter will show the verdicts." in said(student) and "findings-veil" not in keys(student)
    alone = visit("findings", guess="0")
    assert "hold**" in said(alone) and "findings-veil" not in keys(alone)


@pytest.mark.parametrize(
    ("claim", "options"),
    [
        ("M-c33", " --run --public-notes mtsamples.txt"),
        ("H-c24", " --run --labelled bio-ner"),
        ("J-c1", " --run"),
        ("J-c2", None),
    ],
)
def test_the_command_of_a_claim_that_is_not_run_names_what_it_needs(claim: str, options: str | None):
    (one,) = [found for found in FOUND if found.claim.id == claim]
    assert card._options(Finding(one.claim, None if options else one.evidence)) == (options or "")
