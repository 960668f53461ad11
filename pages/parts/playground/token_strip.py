"""A text token by token: what each model expected at each place, with the arrow keys or by click.

Colour says how much likelier a token is in the first model than in the reference. Everything reaches the browser as
data, and the component writes it as text, never as HTML.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import streamlit as st

from core.evaluation.wording import chance_text
from pages.parts.common import page_files
from pages.parts.common.phi_text import visible

if TYPE_CHECKING:
    from core.models.token_view import TokenView

FULL_HEAT = math.log(1_000.0)  # a token this much likelier than in the reference has the full colour


@dataclass(frozen=True)
class Seen:
    """A text as one model sees it."""

    name: str
    views: Sequence[TokenView]


def draw(text: str, models: Sequence[Seen], *, reference: int | None, at: int = 0, key: str) -> None:
    """Draw the tokens of the first model, those of the others below.

    Args:
        text: what was judged.
        models: the model in question first. Another one whose tokens are cut differently is shown where they begin at
            the same character.
        reference: the place in `models` of the model that the colour compares with; None: no colour.
        at: the character whose token is chosen at first.
        key: of the component.
    """
    css, js = (page_files.component(f"token_strip.{ending}") for ending in ("css", "js"))
    strip = st.components.v2.component("philab_token_strip", html='<div class="strip"></div>', css=css, js=js)
    strip(key=key, data=data(text, models, reference=reference, at=at))


def data(text: str, models: Sequence[Seen], *, reference: int | None, at: int = 0) -> dict[str, Any]:
    """What the component draws: tokens with the text before each, their heat from -1 to 1, and a table for each."""
    text = visible(text)  # as long as before
    begins = [dict(zip(_places(model.views), model.views, strict=True)) for model in models]
    tokens = []
    written = 0
    for place, view in zip(_places(models[0].views), models[0].views, strict=True):
        start = max(view.start, written)
        here = [one.get(place) for one in begins]
        tokens.append(
            {
                "before": text[written:start],
                "text": text[start : view.end],
                "heat": _heat(view, None if reference is None else here[reference]),
                "models": [_row(model.name, one) for model, one in zip(models, here, strict=True)],
            }
        )
        written = max(written, view.end)
    chosen = next((number for number, view in enumerate(models[0].views) if view.end > at), 0)
    return {"tokens": tokens, "after": text[written:], "chosen": chosen}


def _places(views: Sequence[TokenView]) -> list[tuple[int, int]]:
    """Where each token begins, and its number among those that begin there: one character can be several tokens."""
    seen: Counter[int] = Counter()
    places = []
    for view in views:
        places.append((view.start, seen[view.start]))
        seen[view.start] += 1
    return places


def _heat(view: TokenView, other: TokenView | None) -> float:
    """The log-ratio of the two models' chances over FULL_HEAT, from -1 to 1; 0 where it is not known."""
    if other is None or math.isnan(view.log_p) or math.isnan(other.log_p) or view.end != other.end:
        return 0.0
    return max(-1.0, min(1.0, (view.log_p - other.log_p) / FULL_HEAT))


def _row(name: str, view: TokenView | None) -> dict[str, Any]:
    if view is None:
        return {"name": name, "chance": "other tokens here", "likeliest": []}
    chance = "" if math.isnan(view.log_p) else chance_text(math.exp(view.log_p))
    likeliest = [[visible(piece), chance_text(share), share] for piece, share in view.likeliest]
    return {"name": name, "chance": chance, "likeliest": likeliest}
