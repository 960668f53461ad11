"""Which detector an output filter needs: what each stops, how many ordinary words it takes, and its time a text.

`core.evaluation.defences.filter_evasion` counts the leaks that pass. Here is what that table cannot show: the same
answers with names that are on no list, since the synthetic hospital draws its names from the lists that the shapes
know, and false alarms in generated texts themselves.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from core.corpus.tables import Corpus
from core.evaluation.stats.intervals import proportion_interval
from core.phi.detector.engine import Detector
from core.phi.detector.vocabulary import is_first_name, is_last_name
from core.phi.fields import DIRECT
from core.phi.output_filter import OutputFilter
from core.phi.spans import Place

_WORD = re.compile(r"[^\W\d_]+")
_ONSETS, _VOWELS, _CODAS = ("b", "dr", "f", "gl", "k", "pl", "qu", "sn", "tr", "v", "z"), "aeiou", ("", "k", "lt", "x")


@dataclass(frozen=True)
class Timed(Detector):
    """A detector that searches each text once and keeps the processor seconds of each search in `seconds`."""

    places: dict[str, list[Place]] = field(default_factory=dict, compare=False)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    def find(self, text: str) -> list[Place]:
        """As the detector of this name; a text that was searched before is looked up."""
        if text not in self.places:
            started = time.process_time()
            self.places[text] = super().find(text)
            self.seconds[text] = time.process_time() - started
        return self.places[text]


def made_up(name: str) -> str:
    """A name of as many words that are on no list of names; the same name gives the same one."""
    rng = random.Random(name)
    return " ".join(_made_up(rng) for _ in name.split())


def _made_up(rng: random.Random) -> str:
    while True:
        syllables = (rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(2))
        word = "".join(syllables).capitalize()
        if not is_first_name(word) and not is_last_name(word):
            return word


def renamed(generations: pd.DataFrame, hits: pd.DataFrame) -> pd.DataFrame:
    """The texts that hold a member's full name, with made-up names in place of these; names cut by the prompt stay.

    Args:
        generations: Columns generation_id, prompt and text.
        hits: Of these texts, by value (`core.attacks.memorisation.extraction.value_hits`).

    Returns:
        Columns prompt, text and names: the made-up names in the text, as a tuple.
    """
    of_members = hits[(hits["field"] == "full_name") & (hits["split"] == "member") & (hits["start"] > 0)]
    texts = generations.set_index("generation_id")
    rows = []
    for number, spans in of_members.groupby("generation_id", sort=True):
        text, names = str(texts.at[number, "text"]), []
        for start, end in sorted(set(zip(spans["start"], spans["end"], strict=True)), reverse=True):
            names.append(made_up(text[start:end].casefold()))
            text = text[:start] + names[-1] + text[end:]
        rows.append((texts.at[number, "prompt"], text, tuple(names)))
    return pd.DataFrame(rows, columns=["prompt", "text", "names"])


def unlisted_names(texts: pd.DataFrame, through: Mapping[str, OutputFilter | None]) -> pd.DataFrame:
    """Share of texts of `renamed` that show a whole made-up name behind each filter, with Wilson's 95 % interval.

    Columns: filter, value, low, high, n.
    """
    rows = []
    for name, one in through.items():
        seen = [text if one is None else one.apply(text, prompt) for text, prompt in texts[["text", "prompt"]].values]
        passed = sum(any(who in text for who in names) for text, names in zip(seen, texts["names"], strict=True))
        rows.append((name, *_share(passed, len(texts))))
    return pd.DataFrame(rows, columns=["filter", "value", "low", "high", "n"])


def ordinary_words(corpus: Corpus) -> frozenset[str]:
    """Words of the cohort's notes outside patients' direct identifiers that are on no list of names, as written."""
    found = {word for text in _without_identifiers(corpus.notes) for word in _WORD.findall(text)}
    return frozenset(word for word in found if not is_first_name(word) and not is_last_name(word))


def _without_identifiers(notes: pd.DataFrame) -> Iterator[str]:
    for text, spans in zip(notes["text"], notes["phi_spans"], strict=True):
        at = 0
        for span in sorted(spans, key=lambda span: span["start"]):
            if span["field"] in DIRECT:
                yield text[at : span["start"]]
                at = span["end"]
        yield text[at:]


def words_lost(
    generations: pd.DataFrame, ordinary: frozenset[str], through: Mapping[str, OutputFilter]
) -> pd.DataFrame:
    """Share of the ordinary words of generated texts of which a filter blacks out a part, with Wilson's 95 % interval.

    Columns: filter, value, low, high, n. Words of one text are not independent, so the true interval is wider.
    """
    rows = []
    for name, one in through.items():
        lost = words = 0
        for text, prompt in generations[["text", "prompt"]].values:
            places = one.places(text, prompt)
            for match in _WORD.finditer(text):
                if match.group() in ordinary:
                    words += 1
                    lost += any(start < match.end() and match.start() < end for start, end in places)
        rows.append((name, *_share(lost, words)))
    return pd.DataFrame(rows, columns=["filter", "value", "low", "high", "n"])


def _share(count: int, of: int) -> Sequence[float]:
    if not of:
        return float("nan"), float("nan"), float("nan"), 0
    return count / of, *proportion_interval(count, of), of
