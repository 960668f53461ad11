"""Fold text before values are searched in it, and map places in the folded text back to the original.

One searchable string holds three views of a text, one after the other, each ended by a line feed:

| view | what it keeps | what it finds |
|---|---|---|
| words | runs of letters and digits, one space between, one at each end | names, e-mails, addresses, health details |
| digits | only digits; a bar where more than punctuation is between | phone, social security and record numbers |
| dates | every full date, in ISO form after an `@` | dates of birth |

A pattern found there is only a candidate: `core.phi.index` checks it against the folded characters themselves.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache

from core.phi.dates import full_dates

_PLAIN = re.compile(r"[\t\n\r -~]*")  # ASCII without control characters: folding keeps every offset
_WORD = re.compile(r"[^\W_]+")
_DIGITS = re.compile(r"[0-9]+")
_JOINED_GAP = re.compile(r"[\s\-.()/]{1,3}")
_BETWEEN_DIGITS = re.compile(r"(?<=[0-9])[\s\-.()/]{1,3}(?=[0-9])")
_OTHER = re.compile(r"[^0-9]+")
_REPLACED = {**dict.fromkeys("‐‑‒–—―−", "-"), **dict.fromkeys("‘’‛′`´", "'")}
DATE_WIDTH = len("@1957-03-22\n")


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    """The folded form of one character: case, accents and width removed; control and zero-width characters dropped."""
    if character in _REPLACED:
        return _REPLACED[character]
    if character.isspace():
        return character
    parts = unicodedata.normalize("NFKD", character).casefold()
    return "".join(_REPLACED.get(part, part) for part in parts if unicodedata.category(part) not in ("Mn", "Cf", "Cc"))


def fold(text: str) -> tuple[str, list[int] | None]:
    """`text` with case, accents and width folded, and the original offset of every folded character.

    The offsets are None if they are unchanged. Zero-width and control characters are dropped, so that they cannot hide
    a value. Dashes and apostrophes become the ASCII ones.
    """
    if _PLAIN.fullmatch(text):
        return text.lower(), None
    folded: list[str] = []
    offsets: list[int] = []
    for offset, character in enumerate(text):
        parts = _fold_character(character)
        folded.append(parts)
        offsets.extend([offset] * len(parts))
    return "".join(folded), offsets


def unfolded(offsets: list[int], length: int, start: int, end: int) -> tuple[int, int]:
    """The place in a text of `length` characters of its folded characters from `start` to before `end`.

    Accents that stand after a letter are dropped in folding, and belong to it.
    """
    after = offsets[end] if end < len(offsets) else length
    return offsets[start], max(offsets[end - 1] + 1, after)


def words(text: str) -> list[str]:
    """Folded words (runs of letters and digits) of `text`."""
    return _WORD.findall(fold(text)[0])


def digits(text: str) -> str:
    """The ASCII digits of folded `text`, without anything between them."""
    return "".join(_DIGITS.findall(fold(text)[0]))


@dataclass
class FoldedText:
    """A text with its three views. Patterns are searched in `searchable`; offsets are computed on demand."""

    folded: str
    offsets: list[int] | None
    length: int  # of the original text
    searchable: str
    words_end: int
    digits_end: int
    dates: list[tuple[int, int, str]]
    _word_spans: list[tuple[int, int]] = field(default_factory=list)
    _word_starts: list[int] = field(default_factory=list)
    _digit_groups: list[tuple[int, int]] = field(default_factory=list)
    _digit_starts: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, text: str) -> FoldedText:
        """Fold `text` and concatenate its views."""
        folded, offsets = fold(text)
        word_view = f" {' '.join(_WORD.findall(folded))} \n"
        digit_view = _OTHER.sub("|", _BETWEEN_DIGITS.sub("", folded)) + "\n"
        dates = full_dates(folded)
        date_view = "".join(f"@{iso}\n" for _, _, iso in dates)
        return cls(
            folded=folded,
            offsets=offsets,
            length=len(text),
            searchable=word_view + digit_view + date_view,
            words_end=len(word_view),
            digits_end=len(word_view) + len(digit_view),
            dates=dates,
        )

    def word_spans(self, start: int, end: int) -> list[tuple[int, int]]:
        """Folded spans of the words that searchable[start:end] covers; that range begins and ends with a space."""
        if not self._word_spans:
            self._word_spans = [match.span() for match in _WORD.finditer(self.folded)]
            position = 1
            for first, last in self._word_spans:
                self._word_starts.append(position)
                position += last - first + 1
        first_word = bisect_right(self._word_starts, start + 1) - 1
        last_word = bisect_right(self._word_starts, end - 2) - 1
        return self._word_spans[first_word : last_word + 1]

    def digit_span(self, start: int, end: int) -> tuple[int, int]:
        """Folded span of the digits that searchable[start:end] (inside the digits view) covers."""
        if not self._digit_groups:
            self._place_digit_groups()
        start, last = start - self.words_end, end - 1 - self.words_end
        group = bisect_right(self._digit_starts, start) - 1
        last_group = bisect_right(self._digit_starts, last) - 1
        return (
            self._digit_groups[group][0] + start - self._digit_starts[group],
            self._digit_groups[last_group][0] + last - self._digit_starts[last_group] + 1,
        )

    def _place_digit_groups(self) -> None:
        self._digit_groups = [match.span() for match in _DIGITS.finditer(self.folded)]
        position, previous_end = 0, 0
        for number, (first, last) in enumerate(self._digit_groups):
            gap = self.folded[previous_end:first]
            bar = (gap != "") if number == 0 else not _JOINED_GAP.fullmatch(gap)
            position += bar
            self._digit_starts.append(position)
            position += last - first
            previous_end = last

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Offsets in the original text of folded[start:end], which must not be empty."""
        if self.offsets is None:
            return start, end
        return unfolded(self.offsets, self.length, start, end)
