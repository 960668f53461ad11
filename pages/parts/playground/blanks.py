"""What masked models fill into the blanks of a prompt, as HTML that contains nothing but text."""

from __future__ import annotations

import html
from collections.abc import Sequence

from core.evaluation.wording import percent
from core.serving.server import MASK
from pages.parts.common import phi_text

MOST_BLANKS, MOST_GUESSES = 8, 6  # tables on screen, and their rows
JOINED = "##"  # WordPiece's mark of a piece that continues a word

Candidates = Sequence[tuple[str, float]]  # (word piece, probability), best first


def ranked_html(prompt: str, ranked: Sequence[Candidates]) -> str:
    """The prompt with its best guesses in place, and a table of candidates with their probabilities for each blank."""
    tables = "".join(_table(number, candidates) for number, candidates in enumerate(ranked[:MOST_BLANKS], start=1))
    more = len(ranked) - MOST_BLANKS
    rest = f"<p>The prompt has {more} more blank{'s' * (more > 1)}, not shown.</p>" if more > 0 else ""
    return f'<div class="phi-text">{_filled(prompt, ranked)}</div><div class="blanks">{tables}</div>{rest}'


def _filled(prompt: str, ranked: Sequence[Candidates]) -> str:
    """The prompt with each blank filled by its likeliest piece and marked with the number of its table."""
    first, *others = prompt.split(MASK)
    text = f'<span class="phi-prompt">{_shown(first)}</span>'
    for number, (candidates, after) in enumerate(zip(ranked, others, strict=False), start=1):
        guess = f'<b class="blank">{_shown(candidates[0][0]) if candidates else ""}<sub>{number}</sub></b>'
        text += f'{guess}<span class="phi-prompt">{_shown(after)}</span>'
    return text


def _table(number: int, candidates: Candidates) -> str:
    """One blank's candidates, each with a bar as long as its probability."""
    rows = "".join(
        f'<tr><td>{_shown(piece)}</td><td><i style="width:{100 * chance:.1f}%"></i></td>'
        f"<td>{html.escape(percent(chance))}</td></tr>"
        for piece, chance in candidates[:MOST_GUESSES]
    )
    return f"<table><caption>blank {number}</caption>{rows}</table>"


def _shown(piece: str) -> str:
    """A piece or text, escaped; `##ing`, the end of a word, as `…ing`, and `##.` as a plain `.`."""
    end = piece.removeprefix(JOINED)
    joined = piece != end and end.isalnum()
    return html.escape(phi_text.visible(f"…{end}" if joined else end or piece))
