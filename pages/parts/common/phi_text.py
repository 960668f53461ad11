"""Text with PHI marked, as HTML that contains nothing but text.

Every character of a text, typed or generated, goes through `html.escape`. A mark is a colour **and** a label, so it is
readable without colour too. The colours are Okabe and Ito's, blended with the page's background, so both themes work.
"""

from __future__ import annotations

import html
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from core.phi.fields import FIELD
from core.phi.spans import Extent
from core.tasks.tagging import TYPES

KINDS: dict[str, tuple[str, str]] = {
    "leak": ("phi-leak", "a direct identifier of a patient in the training notes"),
    "linked leak": ("phi-linked", "a health detail together with the same patient's identity"),
    "coincidence": ("phi-coincidence", "fits only patients the model never saw, or no one in particular"),
    "invented": ("phi-invented", "looks like an identifier but belongs to no one"),
}
MOST_NAMED = 3  # patients named in one tag
_UNSEEN = ("Cc", "Cf", "Cs")  # control, format (such as right-to-left overrides), lone surrogates
_KEPT = "\n\t\u200d"
ROLES = (  # of fields (`core.phi.fields`), and last the words that are no field
    ("phi-direct", "direct", "identifies the patient"),
    ("phi-health", "health", "a health detail, a leak only together with an identity"),
    ("phi-physical", "physical", "describes the body, never counted as a leak"),
    ("phi-entity", "entity", "a problem, test or treatment"),
)
_OTHER = ("phi-invented", "other", "found by the detector: a place, a date, an age and the like")

_CURSOR = '<span class="phi-growing">▍</span>'
_NOTHING = "<i>The model wrote nothing more.</i>"  # an empty place would look as if the app had failed
_MARKUP = frozenset("\\`*_{}[]()<>#+-.!|~:$&")


class Marked(Extent, Protocol):
    """What is drawn of a mark: of a `core.phi.spans.Span`, or of a stored one (`playground.stored_attempts.Mark`)."""

    @property
    def field(self) -> str: ...  # noqa: D102
    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def patient_ids(self) -> tuple[str, ...]: ...  # noqa: D102


def visible(text: str) -> str:
    """`text` with each control or invisible format character replaced by a visible ␦, so that offsets stay valid.

    Newlines, tabs and the joiner inside emoji stay.
    """
    return "".join("␦" if unicodedata.category(c) in _UNSEEN and c not in _KEPT else c for c in text)


def literal(text: str, most: int = 200) -> str:
    """`text` escaped for Markdown: names of files and columns, ids, values of records.

    A name could otherwise hold the address of an image, which a browser would fetch. At most `most` characters are
    shown.
    """
    shown = visible(text if len(text) <= most else f"{text[:most]} …").replace("\n", " ")
    return "".join(f"\\{character}" if character in _MARKUP else character for character in shown)


def coded(parts: Iterable[tuple[str, bool]]) -> str:
    """Parts of a sentence for Markdown, each with whether it is code (`report.commands.parts_of_sentence`)."""
    return "".join(f"`{part}`" if code else literal(part, 2_000) for part, code in parts)


def text_html(text: str) -> str:
    """Plain text as escaped HTML."""
    return _block(_escape(text))


def leaks_html(
    text: str, spans: Iterable[Marked], *, prompt: str = "", growing: bool = False, key: str | None = None
) -> str:
    """A generated text with its spans marked and tagged with kind, field and patients.

    The prompt stands before it, drawn differently: typed text never counts as a leak. `growing` puts a cursor at the
    end. With a `key` of the text, each mark can be clicked (`mark_clicks`).
    """
    return _block(f"{_typed(prompt)}{_generated(text, spans, key)}{_end(text, prompt, growing)}")


def cards_html(
    texts: Sequence[str],
    spans: Sequence[Iterable[Marked]],
    *,
    prompt: str,
    growing: bool = False,
    keys: Sequence[str | None] | None = None,
) -> str:
    """Several texts of one prompt as small cards; one with a direct identifier of a training patient is lit.

    Tags name field and patients of leaks alone, and of other marks the kind. A text that stops within a word ends
    before that word. With `growing` nothing is cut, and a cursor is at the end. `keys` as in `leaks_html`, one a text.
    """
    cards = []
    for text, found, key in zip(texts, map(list, spans), keys or [None] * len(texts), strict=True):
        shown = text if growing else _whole_words(text, max((span.end for span in found), default=0))
        lit = " phi-lit" * any(span.kind == "leak" for span in found)
        inner = _generated(shown, found, key, short=True) + _end(text, "", growing)
        cards.append(f'<div class="phi-text phi-card{lit}">{inner}</div>')
    return f'<div class="phi-cards-prompt">{_typed(prompt)} …</div><div class="phi-cards">{"".join(cards)}</div>'


def strip_html(cards: Sequence[tuple[str, str, Sequence[Marked]]], *, prompt: str, label: str) -> str:
    """Cards in a row, the first at the left: (heading, text, its spans); one with a leak is lit, as in `cards_html`.

    The row scrolls and opens at its right end, where the newest card is. `label` names it for screen readers.
    """
    drawn = []
    for heading, text, spans in cards:
        shown = _whole_words(text, max((span.end for span in spans), default=0))
        lit = " phi-lit" * any(span.kind == "leak" for span in spans)
        inner = f"<b>{html.escape(heading)}</b>{_typed(prompt)}{_generated(shown, spans, None, short=True)}"
        drawn.append(f'<div class="phi-text phi-card{lit}">{inner}</div>')
    row = "".join(reversed(drawn))  # from right to left, so that the newest is in view (style.css)
    return f'<div class="phi-strip" tabindex="0" role="group" aria-label="{html.escape(label)}">{row}</div>'


def _generated(text: str, spans: Iterable[Marked], key: str | None, *, short: bool = False) -> str:
    marks = [(span.start, span.end, KINDS[span.kind][0], _tag(span, short)) for span in spans]
    return _marked(text, marks, key)


def _end(text: str, prompt: str, growing: bool) -> str:
    """What follows a text: a cursor while it grows; a sentence if nothing was written after the prompt."""
    if growing:
        return _CURSOR
    return "" if text.strip() else f"{' ' * bool(prompt)}{_NOTHING}"


def _tag(span: Marked, short: bool) -> str:
    if short and "leak" not in span.kind:
        return span.kind
    return f"{span.kind}: {field_name(span.field)}{_of(span)}"


def _whole_words(text: str, least: int) -> str:
    """`text` without a last word that may be cut off, but with its first `least` characters."""
    words = text.rsplit(maxsplit=1)
    if len(words) < 2 or not text[-1].isalnum():
        return text
    end = max(least, len(text) - len(words[-1]))
    return text if end == len(text) else f"{text[:end].rstrip()} …"


def fields_html(text: str, spans: Iterable[Mapping[str, Any]]) -> str:
    """A note with its known spans (mappings of start, end, field) marked with the field's name."""
    marks = []
    for span in spans:
        style = f"phi-{FIELD[span['field']].role}" if span["field"] in FIELD else _no_field(span["field"])
        marks.append((span["start"], span["end"], style, field_name(span["field"])))
    return _block(_marked(text, marks))


def legend_html() -> str:
    """What the four kinds of mark mean."""
    return _legend((style, kind, meaning) for kind, (style, meaning) in KINDS.items())


def _no_field(kind: str) -> str:
    """The style of a span that is no field of a record: a marked entity, or what the detector found."""
    return "phi-entity" if kind in TYPES else _OTHER[0]


def fields_legend_html(*, entities: bool, by_detector: bool = False) -> str:
    """What the colours of `fields_html` mean, with marked `entities` or what was found `by_detector` on request."""
    return _legend((*(ROLES if entities else ROLES[:-1]), *([_OTHER] if by_detector else [])))


def _legend(items: Iterable[tuple[str, str, str]]) -> str:
    """A mark and a sentence for each (style, kind, meaning)."""
    marks = (
        f'<span><mark class="phi {style}"><b>{html.escape(kind)}</b></mark> {html.escape(meaning)}</span>'
        for style, kind, meaning in items
    )
    return f'<div class="phi-legend">{"".join(marks)}</div>'


def shared_html(text: str, start: int, end: int) -> str:
    """A note in which the characters [start, end) are marked as the words that a model wrote too."""
    return _block(_marked(text, [(start, end, "phi-leak", "the same words")]))


def _marked(text: str, marks: list[tuple[int, int, str, str]], key: str | None = None) -> str:
    """Wrap each (start, end, style, tag). Of two that overlap the longer one is kept, so the HTML nests properly."""
    chosen: list[tuple[int, int, str, str]] = []  # in the order of the text
    for mark in sorted(marks, key=lambda m: (m[0] - m[1], m[0])):
        place = bisect_left(chosen, mark[:1])
        free_before = place == 0 or chosen[place - 1][1] <= mark[0]
        if mark[0] < mark[1] and free_before and (place == len(chosen) or chosen[place][0] >= mark[1]):
            chosen.insert(place, mark)
    pieces, at = [], 0
    for start, end, style, tag in chosen:
        pieces.append(_escape(text[at:start]))
        click = "" if key is None else f' role="button" tabindex="0" data-why="{html.escape(key)}-{start}"'
        pieces.append(f'<mark class="phi {style}"{click}>{_escape(text[start:end])}<b>{html.escape(tag)}</b></mark>')
        at = end
    return "".join([*pieces, _escape(text[at:])])


def _escape(text: str) -> str:
    return html.escape(visible(text))


def _typed(prompt: str) -> str:
    """The prompt, isolated: otherwise digits after one from right to left would be drawn before it."""
    return f'<bdi class="phi-prompt">{_escape(prompt)}</bdi>' if prompt else ""


def _block(inner: str) -> str:
    return f'<div class="phi-text">{inner}</div>'


def field_name(name: str) -> str:
    """How pages call a field of PHI; one that is not listed has its own name."""
    return FIELD[name].label if name in FIELD else name


def _of(span: Marked) -> str:
    if not span.patient_ids or span.kind in ("coincidence", "invented"):
        return ""
    named = ", ".join(span.patient_ids[:MOST_NAMED])
    more = f" and {len(span.patient_ids) - MOST_NAMED} more" if len(span.patient_ids) > MOST_NAMED else ""
    return f" of patient{'s' if len(span.patient_ids) > 1 else ''} {named}{more}"
