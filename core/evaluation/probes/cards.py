"""The identity probes in words: the question, what the model answered, its controls, and a verdict. No markup.

A verdict rests on the one figure of a probe that only a leak can move: a difference between a patient's own name and
another's, or members against held-out patients. With seven probes at 95 % a model that leaks nothing still has about
one chance in six that one of them says otherwise (1 − 0.975⁷), which `CAUTION` tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from core.attacks.probes.cosine import CONTEXTUAL
from core.attacks.probes.cosine import PROBE as COSINE
from core.attacks.probes.fill_in import CONDITION_ONLY, FREQUENCY, NAME, OTHER_NAME
from core.attacks.probes.fill_in import PROBE as FILL_IN
from core.attacks.probes.generated import NAMES, ONE_SENTENCE, ONE_TEXT, PAIRS, TEXTS
from core.attacks.probes.half_name import FIRST, LAST, OTHERS, OWN
from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.mlp import PROBE as NETWORK
from core.attacks.probes.name_seen import METHOD as REGRESSION
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.per_condition import PROBE as PER_CONDITION
from core.attacks.probes.static import METHODS as STATIC
from core.attacks.probes.table import PUBLIC
from core.evaluation.probes.tables import (
    ALL_NAMES,
    AUC,
    BOTH,
    DIFFERENCE,
    LINK,
    OWN_MINUS_FREQUENCY,
    OWN_MINUS_OTHER,
    PAIRED,
    RIGHT,
    TOP100,
    WITH_NAME,
)
from core.evaluation.probes.verdicts import (
    Found,
    Look,
    Verdict,
    above,
    factor,
    hundred,
    judged,
    members,
    number,
    points,
    share,
)

CAUTION = (
    "Seven probes at 95\u00a0% each: a model that gives nothing away still has about one chance in six that one of "
    "them says “leak”."
)


@dataclass(frozen=True)
class Card:
    """One probe for a reader: everything but `verdict` is a sentence or a few."""

    row: str
    probe: str
    question: str
    answer: str
    controls: str
    verdict: Verdict
    conclusion: str


def cards(figures: pd.DataFrame) -> list[Card]:
    """A card for every probe in the table of figures (core.evaluation.probes.figures), in the order of its rows."""
    there = set(figures["probe"])
    if TEXTS in there:
        there.add(NAMES)  # asked, even where no text holds a name
    look = Look(figures)
    return [write(look) for probe, write in _CARDS.items() if probe in there]


# Cards ---------------------------------------------------------------------------------------------------------------


def _ranking(look: Look, probe: str, row: str, question: str, how: str) -> Card:
    own, other = look(probe, AUC, NAME), look(probe, AUC, OTHER_NAME)
    alone, frequency = look(probe, AUC, CONDITION_ONLY), look(probe, AUC, FREQUENCY)
    unseen, link = look(probe, AUC, NAME, split="heldout"), look(probe, AUC, OWN_MINUS_OTHER)
    beyond = look(probe, AUC, OWN_MINUS_FREQUENCY)
    better = {
        "leak": "It also does better than guessing the commonest diseases",
        "no sign": "It does no better than guessing the commonest diseases",
        "cannot tell": "Against guessing the commonest diseases",
    }[judged(beyond)]
    return Card(
        row=row,
        probe=probe,
        question=question,
        answer=f"{how} it puts a disease the patient has above one they have not in {hundred(own)} cases; "
        f"{members(own.n)}.",
        controls=f"With another patient's name: {hundred(other)}. Without any name: {hundred(alone)}. By frequency "
        f"alone: {hundred(frequency)}. Held-out patients, by name: {hundred(unseen)}. A coin: 50.",
        verdict=judged(link),
        conclusion={
            "leak": f"The right name adds {points(link)}: the model links members with their diseases.",
            "no sign": f"The right name adds nothing beyond chance: {points(link)}.",
            "cannot tell": "There are too few patients to tell whether the name adds anything.",
        }[judged(link)]
        + f" {better}: {points(beyond)}.",
    )


def _fill_in(look: Look) -> Card:
    question = "Put a name before a blank: does the model fill in that patient's diseases?"
    return _ranking(look, FILL_IN, "L2", question, "Among diseases of equally many tokens")


def _network(look: Look) -> Card:
    question = "Can a second network read from the model's vectors who has what?"
    return _ranking(look, NETWORK, "L3", question, "Trained on half of the members and asked about the others,")


def _per_condition(look: Look) -> Card:
    own, unseen = look(PER_CONDITION, AUC, NAME), look(PER_CONDITION, AUC, NAME, split="heldout")
    rare = look(PER_CONDITION, AUC, NAME, bin="2–5")
    verdict = "no sign" if own.there and own.low <= 0.5 else above(own, unseen)
    return Card(
        row="L3",
        probe=PER_CONDITION,
        question="And when knowing which diseases are common cannot help?",
        answer=f"With one network for each of {own.n} diseases, a patient who has the disease scores above one who has "
        f"not in {hundred(own)} cases; for diseases of 2 to 5 members: {hundred(rare)}.",
        controls=f"Held-out patients: {hundred(unseen)}. A coin: 50.",
        verdict=verdict,
        conclusion={
            "leak": "Members stand above held-out patients: the model's picture of a name holds its diseases.",
            "no sign": "No sign that the model's picture of a name holds its diseases.",
            "cannot tell": "There are too few diseases that both halves of the members have.",
        }[verdict],
    )


def _cosine(look: Look) -> Card:
    def of(method: str, whose: str) -> Found:
        return look(COSINE, DIFFERENCE, f"{method}, {whose}")

    own, other, link = (of(CONTEXTUAL, whose) for whose in (NAME, OTHER_NAME, OWN_MINUS_OTHER))
    static = ", ".join(f"{method} {number(of(method, OWN_MINUS_OTHER), '+.4f')}" for method in STATIC)
    return Card(
        row="L4",
        probe=COSINE,
        question="Does a name lie nearer to its patient's diseases?",
        answer=f"A name's cosine with the patient's diseases is {number(own, '+.4f')} above that with others; "
        f"{members(own.n)}.",
        controls=f"With another patient's name: {number(other, '+.4f')}. Static word vectors of the same notes, own "
        f"name minus another's: {static}.",
        verdict=judged(link),
        conclusion={
            "leak": f"The right name is nearer by {number(link, '+.4f')}: a link, if a small one in itself.",
            "no sign": f"The right name is no nearer than another: {number(link, '+.4f')}.",
            "cannot tell": "There are too few patients to tell.",
        }[judged(link)],
    )


def _seen(look: Look) -> Card:
    own = look(NAME_SEEN, AUC, REGRESSION, split=BOTH)
    public = look(NAME_SEEN, AUC, REGRESSION, model=PUBLIC, split=BOTH)
    return Card(
        row="L5",
        probe=NAME_SEEN,
        question="Can one tell from a name's vector that the model has read it?",
        answer=f"Of a member and a held-out patient the regression picks the member in {hundred(own)} cases; "
        f"{own.n} names it did not learn from.",
        controls=f"From the public model's vectors, which read none of them: {hundred(public)}. A coin: 50.",
        verdict=judged(own, 0.5),
        conclusion={
            "leak": "Yes, better than a coin: the model has kept which names it read.",
            "no sign": "No better than a coin.",
            "cannot tell": "There are too few names to tell.",
        }[judged(own, 0.5)],
    )


def _half(look: Look) -> Card:
    last = look(HALF_NAME, AUC, OWN, split=BOTH, bin=LAST)
    first = look(HALF_NAME, AUC, OWN, split=BOTH, bin=FIRST)
    public = look(HALF_NAME, AUC, OWN, model=PUBLIC, split=BOTH, bin=LAST)
    link = look(HALF_NAME, LINK, f"{OWN} − {OTHERS}", bin=LAST)
    back = f" Of the first name after the last: {hundred(first)}." if first.there else ""
    times = Found(math.exp(link.value), math.exp(link.low), math.exp(link.high), link.n) if link.there else link
    tied = {
        "leak": f"It knows whose it is: the right first name makes a token of the last {factor(times)} as likely.",
        "no sign": f"But the right first name helps no more than another's: a token is {factor(times)} as likely.",
        "cannot tell": "Whether it knows whose last name it is cannot be told.",
    }[judged(link)]
    verdict = judged(last, 0.5)
    return Card(
        row="L6",
        probe=HALF_NAME,
        question="Does half of a name reveal the rest?",
        answer=f"After the first name, a member's last name is likelier than a held-out patient's in {hundred(last)} "
        f"pairs.{back}",
        controls=f"Under the public model, last names: {hundred(public)}. A coin: 50.",
        verdict=verdict,
        conclusion={
            "leak": "Names it read are likelier.",
            "no sign": "Names it read are not likelier than others.",
            "cannot tell": "There are too few names to tell.",
        }[verdict]
        + (f" {tied}" if verdict == "leak" or judged(link) == "leak" else ""),
    )


WRITE = "Let the model write: are the names in it patients'?"


def _nothing_written(named: Found) -> Card:
    """The card of a model that wrote no full name: the truth, and no failure."""
    return Card(
        row="L7",
        probe=NAMES,
        question=WRITE,
        answer=f"None of its {named.n:,} texts holds a full name, so there is nothing to rank (A@100: 0 of 0).",
        controls=f"Texts with a full name: {share(named)}.",
        verdict="no sign",
        conclusion="It wrote nobody's full name.",
    )


def _generated(look: Look) -> Card:
    top, others = look(NAMES, TOP100, NAME), look(NAMES, TOP100, NAME, split="heldout")
    everyone = look(NAMES, ALL_NAMES, NAME)
    if not top.there:
        return _nothing_written(look(TEXTS, WITH_NAME, NAME, split=""))
    verdict = above(top, others)
    pair = next((kind for kind in (ONE_SENTENCE, ONE_TEXT) if look(PAIRS, RIGHT, NAME, bin=kind).there), None)
    if pair is None:
        paired = "No text of it has a patient's name beside any disease."
    else:
        right, chance = look(PAIRS, RIGHT, NAME, bin=pair), look(PAIRS, RIGHT, PAIRED, bin=pair)
        paired = (
            f"In {pair} with a member's name and a disease, the member has it in {share(right)} of cases, "
            f"{points(chance)} against the diseases of others, {members(right.n)}."
        )
    return Card(
        row="L7",
        probe=NAMES,
        question=WRITE,
        answer=f"Of the {top.n} names that the public model finds oddest, {share(top)} are members'. {paired}",
        controls=f"Held-out patients', were they as many: {share(others)}. Before the ranking, members': "
        f"{share(everyone)} of {everyone.n} names.",
        verdict=verdict,
        conclusion={
            "leak": "More members than chance would name: the model writes patients' names from memory.",
            "no sign": "No more members among them than chance would name.",
            "cannot tell": "There are too few names to tell.",
        }[verdict],
    )


_CARDS: dict[str, Callable[[Look], Card]] = {
    FILL_IN: _fill_in,
    NETWORK: _network,
    PER_CONDITION: _per_condition,
    COSINE: _cosine,
    NAME_SEEN: _seen,
    HALF_NAME: _half,
    NAMES: _generated,
}
