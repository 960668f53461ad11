"""What a class learned: for each question, the share that was right before and after, and who changed their answer."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from core.evaluation import wording
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.paired import Pairs, careful_difference, mcnemar, pairs
from pages.parts.common import chart_style
from pages.parts.lesson.questions import QUESTIONS
from pages.parts.session.room_values import Chosen

LEVEL = 0.05 / len(QUESTIONS)  # Bonferroni: all three verdicts together are wrong in at most 5 % of classes
LINES = (("before", chart_style.CONTROL, "square-open", 0.16), ("after", chart_style.PRIVATE, "circle", -0.16))
HOW = """
For each question, only people who answered it both times are counted. Each share has Wilson's 95 % interval. The
difference after − before has Newcombe's interval for paired shares (1998, method 10), widened for small classes to what
the exact test below leaves open. Its level is 98.3 %, so that the three intervals hold together in 95 % of classes.

The **exact McNemar test** asks whether more people changed to the right answer than away from it, beyond what a coin
for each of them would give. With three questions a change counts as more than chance at *p* < 0.05/3. People who were
right, or wrong, both times say nothing about a change.

There is no group without the lesson. So a difference shows what changed in between, and not what caused it.
"""


def tables(learned: Sequence[tuple[Chosen, Chosen]]) -> list[Pairs]:
    """For each question, who was right before and after, of those who answered it both times."""
    return [
        pairs(
            (before[number] == question.right, after[number] == question.right)
            for before, after in learned
            if before[number] is not None and after[number] is not None
        )
        for number, question in enumerate(QUESTIONS)
    ]


def chart(found: Sequence[Pairs]) -> go.Figure:
    """A row for each question: the share right before and after, with 95 % intervals, joined by a line."""
    figure = go.Figure()
    rows = [(len(found) - place, one) for place, one in enumerate(found) if one.n]
    for row, one in rows:
        figure.add_scatter(
            x=[one.before.value, one.after.value],
            y=[row + LINES[0][3], row + LINES[1][3]],
            mode="lines",
            line={"color": chart_style.PRIVATE, "width": 2, "dash": "dot"},
            hoverinfo="skip",
            showlegend=False,
        )
    for name, colour, symbol, shift in LINES:
        shares: list[Interval] = [getattr(one, name) for _, one in rows]
        figure.add_scatter(
            x=[share.value for share in shares],
            y=[row + shift for row, _ in rows],
            name=f"{name} the lesson",
            mode="markers",
            marker={"color": colour, "symbol": symbol, "size": 14},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [share.high - share.value for share in shares],
                "arrayminus": [share.value - share.low for share in shares],
                "thickness": 2,
            },
            customdata=chart_style.hover_texts(share.value for share in shares),
            hovertemplate=f"{name}: %{{customdata}}<extra></extra>",
        )
    labels = {len(found) - place: question.short for place, question in enumerate(QUESTIONS)}
    figure.update_yaxes(
        tickvals=list(labels), ticktext=list(labels.values()), range=[0.5, len(found) + 0.5], automargin=True
    )
    figure.update_xaxes(title="share with the right answer", range=[-0.02, 1.02], tickformat="~%")
    figure.update_layout(
        height=340, margin={"l": 0, "r": 10, "t": 30, "b": 0}, legend=chart_style.LEGEND, dragmode=False
    )
    return figure


def sentence(found: Pairs) -> str:
    """What changed in the answers to one question, with n and whether chance explains it."""
    if not found.n:
        return "No one has answered this question both times."
    right = f"right before {found.stayed_right + found.lost} of {found.n}, after {found.stayed_right + found.gained}"
    changed = f"{found.gained} changed to the right answer, {found.lost} away from it"
    difference = careful_difference(found, 1 - LEVEL)
    low, high = (wording.decimal_text(100 * end, "+.1f") for end in (difference.low, difference.high))
    p = mcnemar(found.gained, found.lost)
    said = f"{right}; {changed} ({100 * (1 - LEVEL):.1f}\u00a0% interval of the difference: {low} to {high} points). "
    if not found.gained + found.lost:
        return said + "No answer changed between right and wrong."
    if p >= LEVEL:
        return said + f"Chance can explain that (exact McNemar test, {wording.p_value_text(p)})."
    return said + f"That is more than chance explains (exact McNemar test, {wording.p_value_text(p)})."


def show(found: Sequence[Pairs], *, projected: bool = False) -> None:
    """The chart with a sentence for each question; a sentence alone if nobody answered both times.

    Args:
        found: The answers to each question.
        projected: Whether this is the full-screen view: the chart takes the height that is left, and no fold follows.
    """
    if not any(one.n for one in found):
        st.info("No one has answered a question both before and after the lesson, so there is nothing to compare.")
        return
    told = list(map(sentence, found))
    with st.container(key="screen-chart" if projected else "learned"):
        chart_style.show(chart(found), key="learned-chart", alt=" ".join(told), fills=projected)
    with st.container(key="screen-point" if projected else "learned-sentences"):
        for question, words in zip(QUESTIONS, told, strict=True):
            st.markdown(f"**{question.short}**: {words}")
    if not projected:
        with st.expander("How is this computed?"):
            st.markdown(HOW)
