"""A note as a heat map of how training changed each word's likelihood: computed on demand, then cached."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.runs.run import Run
from pages.parts.common.phi_text import visible
from pages.parts.session import models, resources

if TYPE_CHECKING:
    from core.evaluation.memorisation.note_heat import Token
    from core.models.build import LanguageModel

FULL = 8.0  # nats from which a colour is at its strongest
STEPS = 5
COLOURS = {"learned": "#d55e00", "unlearned": "#56b4e9"}


def _rules() -> str:
    """CSS rules with a background and an underline for each colour and step, blended with the page's background."""
    return "\n".join(
        f".{name}{step} {{ background: color-mix(in srgb, {colour} {75 * step // STEPS}%, transparent); "
        f"border-bottom: {step}px solid {colour}; border-radius: 2px; }}"
        for name, colour in COLOURS.items()
        for step in range(1, STEPS + 1)
    )


STYLE = f"""<style>
.heat {{ white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.9; }}
.heat-key {{ display: flex; gap: 0.4em 1.4em; flex-wrap: wrap; font-size: 0.85em; }}
{_rules()}
</style>"""


@resources.cached_object(max_entries=3, show_spinner="Loading the model")
def _public_model(name: str, words_of: str, _run: Run) -> LanguageModel:
    from core.models.dp_vocabulary import public_model  # torch: seconds, not at first paint

    return public_model(_run.spec.model, _run.vocabulary)


@resources.cached_data(max_entries=500, show_spinner="Scoring every word with both models")
def gains(folder: str, text: str, _run: Run) -> list[Token]:
    """The gain in log-likelihood (nats) of each token over the public model. Raises what loading a model raises."""
    from core.evaluation.memorisation.note_heat import note_gains

    spec = _run.spec.model
    words_of = "" if _run.vocabulary is None else _run.id  # the run's own words are added to the public model's
    base = _public_model(f"{spec.kind}-{spec.size}-{spec.base}", words_of, _run)
    return note_gains(models.model(_run), base, text)


def key_html() -> str:
    """What the colours mean."""
    return (
        f'{STYLE}<div class="heat-key"><span><span class="learned{STEPS}">orange</span> likelier to this model than to '
        f"the public model; the strongest colour starts at {FULL:.0f} nats ({math.exp(FULL):,.0f} times)</span>"
        f'<span><span class="unlearned{STEPS}">blue</span> less likely</span>'
        "<span>thicker line: larger difference</span></div>"
    )


def heat_html(text: str, tokens: Sequence[Token]) -> str:
    """The note as escaped HTML, each token coloured by its gain."""
    pieces, at = [], 0
    for token in tokens:
        pieces.append(html.escape(visible(text[at : token.start])))
        step = min(STEPS, round(STEPS * abs(token.gain) / FULL))
        style = f' class="{"learned" if token.gain > 0 else "unlearned"}{step}"' if step else ""
        gain = f"{token.gain:+.1f} nats"
        pieces.append(f'<span{style} title="{gain}">{html.escape(visible(text[token.start : token.end]))}</span>')
        at = token.end
    return f'<div class="heat">{"".join(pieces)}{html.escape(visible(text[at:]))}</div>'


def summary(text: str, tokens: Sequence[Token]) -> str:
    """The heat map in words: the mean gain, and the five tokens with the largest gains."""
    if not tokens:
        return "No word to compare."
    mean = sum(token.gain for token in tokens) / len(tokens)
    top = sorted(tokens, key=lambda token: -token.gain)[:5]
    named = ", ".join(f"“{visible(text[token.start : token.end]).strip()}” {token.gain:+.1f}" for token in top)
    return f"Mean gain {mean:+.2f} nats per token over {len(tokens)} tokens; largest for {named}."
