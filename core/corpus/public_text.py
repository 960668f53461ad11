"""Synthetic public health text, so that a base model has seen colons, digits, units and short instructions.

It is generated from the sentence templates of leaflets.toml and is about no patient. Training and held-out text share
no template, so held-out perplexity is measured on wording that the model has never read.
"""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path
from typing import Literal

Part = Literal["training", "heldout"]
Topic = list[str]  # a title, then sentence templates in reading order

_TRAINING_DOCUMENTS = 520
_HELDOUT_DOCUMENTS = 36
_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"\{(\d+)\.\.(\d+)\}")


def training_text() -> list[str]:
    """About 250 kB of leaflets for pretraining, the same on every call; one string for each document."""
    return _documents("training", _TRAINING_DOCUMENTS, seed=1)


def heldout_text() -> list[str]:
    """About 15 kB of leaflets on other topics and from other templates, for held-out perplexity."""
    return _documents("heldout", _HELDOUT_DOCUMENTS, seed=2)


def topics(part: Part) -> list[Topic]:
    """The topics of one part of leaflets.toml; the first template of each is its title."""
    source = tomllib.loads((Path(__file__).parent / "leaflets.toml").read_text(encoding="utf-8"))
    return list(source[part].values())


def _documents(part: Part, count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    of_part = topics(part)
    return [_document(of_part[number % len(of_part)], rng) for number in range(count)]


def _document(topic: Topic, rng: random.Random) -> str:
    """A title line and a random subset of the topic's sentences, in their order, as prose or as a list."""
    title, *sentences = topic
    chosen = sorted(rng.sample(range(len(sentences)), rng.randint(4, min(7, len(sentences)))))
    lines = [_expand(sentences[place], rng) for place in chosen]
    bullet, joint = rng.choice([("", " "), ("", " "), ("", "\n"), ("- ", "\n")])
    return _expand(title, rng) + "\n" + joint.join(bullet + line for line in lines)


def _expand(template: str, rng: random.Random) -> str:
    """Replace every choice and number, innermost first, and capitalise the first letter."""
    text = template
    while match := _CHOICE.search(text):
        text = text[: match.start()] + rng.choice(match.group(1).split("|")) + text[match.end() :]
    text = _NUMBER.sub(lambda match: str(rng.randint(int(match.group(1)), int(match.group(2)))), text)
    return text[0].upper() + text[1:]
