"""The fill-in-the-blank probe (Lehman 2021, §6.1) for one name and one condition that a user typed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.probes.fill_in import condition_ids, condition_scores, openings
from core.models.build import LanguageModel
from core.models.encoding import encode

MOST_TOKENS = 24  # in a typed condition


@dataclass(frozen=True)
class Reply:
    """Scores are mean log p in nats per token. `rank` 1 is the most likely of `compared` conditions of equal length."""

    tokens: int
    own: float
    others: np.ndarray  # with every other name; title and age unchanged
    alone: float  # without a name
    rank: int
    compared: int
    likeliest: tuple[str, ...]  # the most likely conditions of equal length after this name, best first

    @property
    def times(self) -> float:
        """How many times as likely a token of the condition is after this name as after the others (geometric mean)."""
        return float(np.exp(self.own - self.others.mean()))

    @property
    def beaten(self) -> int:
        """The number of other names after which the condition is less likely."""
        return int((self.others < self.own).sum())


def ask(
    lm: LanguageModel,
    name: str,
    condition: str,
    *,
    title: str,
    age: int,
    other_names: Sequence[str],
    wordings: Sequence[str],
    top: int = 5,
) -> Reply:
    """Probe a typed name and condition, compared with `other_names` and with the hospital's `wordings`.

    Raises:
        ValueError: for an empty or too long name or condition, or when there is nothing to compare with. The message
            is a sentence to show to the user.
    """
    name, condition = " ".join(name.split()), " ".join(condition.split())
    if not name or not condition:
        raise ValueError("Type a name and a disease: the probe needs both.")
    if not other_names:
        raise ValueError("There is no other name to compare with.")
    known = [wording for wording in wordings if wording.lower() != condition.lower()]
    ids = condition_ids(lm, [condition, *known])
    if len(ids[0]) > MOST_TOKENS:
        raise ValueError(f"The disease takes {len(ids[0])} tokens; at most {MOST_TOKENS} are allowed: shorten it.")
    same = [place for place, one in enumerate(ids) if len(one) == len(ids[0])]
    people = pd.DataFrame({"first": [name, *other_names], "last": "", "title": title, "age": age})
    texts = [" ".join(text.split()) for text in openings(people)]
    special = set(lm.tokenizer.all_special_ids) - {lm.tokenizer.unk_token_id}
    if any(special.intersection(found) for found in (*ids[:1], *encode(lm, texts[:1]))):
        raise ValueError("The name or the disease contains a special token of the model, such as [MASK]: remove it.")
    if len(texts[0]) > 200:
        raise ValueError("The name is too long: type a first and a last name.")
    own = condition_scores(lm, texts[:1], [ids[place] for place in same])[0]
    others = condition_scores(lm, texts[1:], ids[:1])[:, 0]
    alone = condition_scores(lm, [""], ids[:1])[0, 0]
    order = np.argsort(-own, kind="stable")[:top]
    return Reply(
        tokens=len(ids[0]),
        own=float(own[0]),
        others=others,
        alone=float(alone),
        rank=1 + int((own[1:] > own[0]).sum()),
        compared=len(same),
        likeliest=tuple([condition, *known][same[place]] for place in order),
    )
