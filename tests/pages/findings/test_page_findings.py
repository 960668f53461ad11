"""The page Findings: all verdicts above the fold, a claim by its link, and verdicts hidden until after a guess."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from core.findings.claims import CLAIMS
from core.findings.judging import Finding, stored_findings
from pages.parts.findings import charts, data
from tests.pages.visit import said, visit

FOUND = stored_findings(CLAIMS)


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
    assert one.claim.figure in said(app) and (one.why or "It") in said(app)
    assert app.code[0].value == f"python -m core findings {one.claim.id}"
    assert f"- **Differs from the paper.** {one.claim.differs}" in said(app)


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
    for one in FOUND:
        if one.claim.id != "J-c2":
            assert tiles[one.claim.id].endswith(str(one.verdict))


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
