"""Hovers of charts write shares as sentences do: one just below 1 is not 100 %, and one just above 0 is not 0 %."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
import pytest

from pages.parts.canaries.charts import leak_curve
from pages.parts.common import chart_style
from pages.parts.lesson.picture import dots
from pages.parts.membership.charts import roc

PAGES = Path(__file__).resolve().parents[3] / "pages"
ALMOST_ALL, HARDLY_ANY = 0.9996, 0.0004


def hovers(figure: go.Figure) -> list[str]:
    """Every prepared text of every point."""
    rows = [row for trace in figure.data if trace.customdata is not None for row in trace.customdata]
    cells = [[row] if isinstance(row, str) else list(row) for row in rows]
    return [str(cell).replace("\u00a0", " ") for row in cells for cell in row]


def test_numbers_are_written_as_in_sentences():
    told = chart_style.hover_texts([ALMOST_ALL, HARDLY_ANY, 0.0, 1.0, math.nan])
    assert [one.replace("\u00a0", " ") for one in told] == ["99.96 %", "0.04 %", "0 %", "100 %", "–"]
    frame = pd.DataFrame({"low": [0.5], "high": [ALMOST_ALL]}, index=["a"])
    assert chart_style.hover_columns(frame, "{:.2f}".format).loc["a"].tolist() == ["0.50", "1.00"]
    assert chart_style.hover_columns(frame.iloc[:0]).columns.tolist() == ["low", "high"]


@pytest.mark.parametrize("path", sorted(PAGES.rglob("*.py")), ids=lambda path: str(path.relative_to(PAGES)))
def test_no_hover_lets_plotly_round_a_share(path):
    assert not re.findall(r"%\{+[a-z]+(?:\[\d+\])?:[^}]*%\}", path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("share", [ALMOST_ALL, HARDLY_ANY])
def test_charts_draw_the_prepared_text(share):
    told = "99.96 %" if share > 0.5 else "0.04 %"
    curve = pd.DataFrame({"fpr": [0.0, 0.1, 1.0], "tpr": [0.0, share, 1.0], "low": [0, 0, 1], "high": [0, share, 1]})
    curves = {(0, "run", "loss"): curve}
    figure = roc(curves, curves, {}, log=False)
    assert hovers(figure).count(told) == 2
    (unseen,) = [trace for trace in figure.data if trace.marker.opacity == 0]
    assert unseen.hoverlabel.bgcolor == unseen.marker.color, "a hover is not as invisible as its marker"
    read = pd.DataFrame({"arm": ["run"], "samples": [1], "share": [share], "low": [share], "high": [share]})
    assert hovers(leak_curve({"run": read})) == [told] * 3
    row = pd.DataFrame({"arm": ["run"], "what": ["names"], "value": [share], "low": [math.nan], "high": [math.nan]})
    assert hovers(dots(row, "share", shares=True)) == [told]
