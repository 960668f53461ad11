"""Findings: what five papers claim, and whether it holds here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import streamlit as st

from pages.parts.common import chart_style, layout, scroll, shell
from pages.parts.findings import card, charts, data, veil
from pages.parts.pickers import linked_choice

if TYPE_CHECKING:
    from core.findings.judging import Finding

shell.page(
    "findings",
    "Five papers make claims about what models reveal and what privacy costs. Which of them hold here?",
    guesses=True,
)

CHOICE, TILES = "findings-claim", "findings-tiles"


def open_clicked(by_id: Mapping[str, Finding]) -> None:
    """Choose the claim whose tile was clicked."""
    clicked = [point["customdata"][0] for point in st.session_state[TILES].selection.points if point.get("customdata")]
    if clicked and clicked[0] in by_id:
        st.session_state[CHOICE] = clicked[0]
        linked_choice.share("claim", CHOICE, by_id)
        scroll.ask()


def choose(by_id: Mapping[str, Finding]) -> str:
    """The claim of the list, of the link, or of the tile that was clicked."""
    key = CHOICE
    first = next((name for name, one in by_id.items() if one.evidence is not None), next(iter(by_id)))
    st.session_state.setdefault(key, first)
    if linked_choice.adopt("claim", key, by_id):
        scroll.ask()  # the claim of a link is below the tiles
    chosen = st.selectbox(
        "Claim",
        list(by_id),
        key=key,
        format_func=lambda name: f"{name}: {by_id[name].claim.title}",
        on_change=lambda: linked_choice.share("claim", key, by_id),
    )
    linked_choice.shown("claim", chosen)
    return chosen


veil.controls()
found = data.findings()
by_id = {one.claim.id: one for one in found}
hidden = card.hidden(found)
st.markdown(data.headline(found, hidden))
above = st.container()
place = st.container()
claim = choose(by_id)
with above:
    linked_choice.say_missing("claim", by_id, claim, what="claim", why="no claim has this id")
    chart_style.show(
        charts.tiles(found, hidden, claim),
        key=TILES,
        alt="A tile for each claim, sorted by paper; the colour and the sign say whether the claim holds",
        on_select=partial(open_clicked, by_id),
    )
with layout.fresh("claim", (claim, claim in hidden)):
    card.show(by_id[claim])
scroll.here(place)
card.on_other_text(found, hidden)
card.everything(found, hidden)
with st.expander("How are claims judged?"):
    st.markdown(data.HOW)
