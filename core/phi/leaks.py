"""PHI in a text, by value: which characters belong to whom, and how serious that is.

| kind | what it says |
|---|---|
| leak | a direct identifier of a patient who was trained on |
| linked leak | that patient's diagnosis, medication or procedure, in the same text as their direct identifier |
| coincidence | belongs only to patients not trained on, or is a health detail not linked to anybody in the text |
| invented | looks like PHI to a detector and belongs to nobody |

Typed text never counts: neither a value in the prompt that the model repeats, nor a typed name as the identity that a
generated diagnosis would be linked to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from core.phi.detector.engine import Detector, shapes
from core.phi.fields import HEALTH
from core.phi.index import Match, PhiIndex
from core.phi.normalise import digits, fold, words
from core.phi.old_rule import old_rule
from core.phi.shaped import find_shaped
from core.phi.spans import KINDS, Kind, Span

__all__ = ["KINDS", "Kind", "Span", "find", "find_many", "find_shaped", "old_rule"]

_SEAM = 40  # characters searched around the end of the prompt, in addition to the longest value
_FEWEST_GENERATED = 4  # letters or digits of a partly typed value that the model must have added


def find(text: str, index: PhiIndex, prompt: str = "") -> list[Span]:
    """Spans of PHI in `text`, in order and without overlaps; offsets refer to `text`.

    `prompt` is what was typed before `text`. A partly typed value counts only if the model added enough of it: a whole
    word of a name, or at least four letters or digits of anything else (for an e-mail address, before its @).
    """
    return find_many([text], index, [prompt])[0]


def find_many(
    texts: Sequence[str], index: PhiIndex, prompts: Sequence[str] | None = None, detector: Detector | None = None
) -> list[list[Span]]:
    """`find` for many texts, each with its prompt; each distinct prompt is searched once.

    `detector` finds what is invented; None: the shapes, which are fast enough to mark a text while it is written.

    Raises:
        ValueError: when `prompts` is given and its length differs from that of `texts`.
    """
    prompts = [""] * len(texts) if prompts is None else prompts
    if len(prompts) != len(texts):
        raise ValueError(f"{len(texts)} texts came with {len(prompts)} prompts; every text needs its own prompt")
    detector = shapes() if detector is None else detector
    typed: dict[str, set[int]] = {}
    found = []
    for text, prompt in zip(texts, prompts, strict=True):
        if prompt not in typed:
            typed[prompt] = {value for match in index.search_all(prompt) for value in match.values}
        found.append(_find(text, index, prompt, typed[prompt], detector))
    return found


def _find(text: str, index: PhiIndex, prompt: str, typed: set[int], detector: Detector) -> list[Span]:
    matches = index.search(text)
    if prompt:
        matches = [match for match in matches if not _continues_typed(match, text, prompt)]
        matches = _with_seam(matches, text, index, prompt)
    generated = [match for match in matches if not typed.intersection(match.values)]
    known = _label(generated, index)
    taken = [(match.start, match.end) for match in matches]
    invented = [
        span
        for span in (Span(start, end, field, text[start:end], "invented") for start, end, field in detector.find(text))
        if not any(start < span.end and span.start < end for start, end in taken) and not _was_typed(span, prompt)
    ]
    return sorted([*known, *invented], key=lambda span: span.start)


def _continues_typed(match: Match, text: str, prompt: str) -> bool:
    """True if the match only continues typed text: digits after digits, or lower-case letters after letters.

    For example, “Br” may be continued as “ian Smith”, which is not Ian Smith. `_with_seam` finds values that prompt and
    text form together.
    """
    end, begin = prompt[-1], text[0]
    return match.start == 0 and ((begin.isdigit() and end.isdigit()) or (begin.islower() and end.isalpha()))


def _with_seam(matches: list[Match], text: str, index: PhiIndex, prompt: str) -> list[Match]:
    """Add values that begin in the prompt and end in the text, if the model added enough of them."""
    reach = index.longest + _SEAM
    tail, head = prompt[-reach:], text[:reach]
    crossing = []
    for match in index.search(tail + head):
        if match.start < len(tail) < match.end:
            values = tuple(v for v in match.values if _adds_the_rest(index.values[v].field, match, tail, head))
            if values:
                crossing.append(Match(0, match.end - len(tail), values))
    if not crossing:
        return matches
    return [*crossing, *(match for match in matches if match.start >= crossing[0].end)]


def _adds_the_rest(field: str, match: Match, tail: str, head: str) -> bool:
    typed, added = tail[match.start :], head[: match.end - len(tail)]
    if field == "full_name":
        cut = typed[-1:].isalnum() and added[:1].isalnum()  # "Kel" + "ler": the first piece is not a whole word
        return any(len(word) > 1 for word in words(added)[1 if cut else 0 :])
    if field in ("ssn", "phone", "mrn"):
        return len(digits(added)) >= _FEWEST_GENERATED
    if field == "email":
        added = added.partition("@")[0] if "@" in added else ""
    return sum(map(len, words(added))) >= _FEWEST_GENERATED


def _label(matches: list[Match], index: PhiIndex) -> list[Span]:
    identified: set[int] = set()
    for match in matches:
        for number in match.values:
            value = index.values[number]
            if value.field not in HEALTH:
                identified.update(value.holders)
    return [_labelled(match, index, identified) for match in matches]


def _labelled(match: Match, index: PhiIndex, identified: set[int]) -> Span:
    """One span for all values at a place: the field of the most serious one, and every patient it belongs to."""
    candidates = []
    for number in match.values:
        value = index.values[number]
        health = value.field in HEALTH
        holders = identified.intersection(value.holders) if health else set(value.holders)
        trained = any(index.members[holder] for holder in holders)
        kind: Kind = ("linked leak" if health else "leak") if trained else "coincidence"
        candidates.append((KINDS.index(kind), number, value, holders))
    candidates.sort(key=lambda candidate: candidate[:2])
    rank, _, best, _ = candidates[0]
    holders = set().union(*(holders for _, _, value, holders in candidates if value.field == best.field))
    trained_first = sorted(holders, key=lambda holder: (not index.members[holder], holder))
    ids = tuple(index.patient_ids[holder] for holder in trained_first)
    return Span(match.start, match.end, best.field, best.stored, KINDS[rank], ids)


def _was_typed(span: Span, prompt: str) -> bool:
    """True if the prompt contains the span's value, ignoring spacing, case and punctuation."""
    if not prompt:
        return False
    plain = re.sub(r"[\W_]+", "", fold(span.value)[0])
    return plain in re.sub(r"[\W_]+", "", fold(prompt)[0])
