"""What an attacker's threshold catches, in sentences that say whether patients, admissions or notes are judged."""

from __future__ import annotations

import math

from core.evaluation.membership.curve import Caught
from core.evaluation.membership.summary import population_threshold
from core.evaluation.membership.units import Units
from core.evaluation.wording import percent

WORDS = {"sample": ("note", "notes"), "admission": ("admission", "admissions"), "patient": ("patient", "patients")}


def caught_sentence(found: Caught, level: str) -> str:
    """`Catches 31 of 300 members, accuses 9 of 130 others.`, or of their notes or admissions."""
    members, others = sides(level)
    return (
        f"Catches {found.members:,} of {found.of_members:,} {members}, "
        f"accuses {found.others:,} of {found.of_others:,} {others}."
    )


def sides(level: str) -> tuple[str, str]:
    """What is judged: `members` and `others`, or their notes or admissions."""
    return (
        ("members", "others") if level == "patient" else (f"members' {WORDS[level][1]}", f"others' {WORDS[level][1]}")
    )


def leakage_sentence(found: Caught, level: str) -> str:
    """The privacy leakage (Jagannatha 2021), and how many of those accused are members."""
    tpr, fpr = found.members / found.of_members, found.others / found.of_others
    called = found.members + found.others
    base = percent(found.of_members / (found.of_members + found.of_others))
    leakage = f"{tpr - fpr:+.3f}".replace("-", "−")
    sentence = f"That is {percent(tpr)} minus {percent(fpr)}: a privacy leakage of {leakage}. Random guessing gives 0."
    if not called:
        return sentence
    members, things = sides(level)[0], WORDS[level][1]
    return (
        f"{sentence} Of {called:,} accused {things}, {percent(found.members / called)} are {members} (of all: {base})."
    )


def population_sentence(judged: Units, level: str) -> str:
    """The population's thresholds in a sentence; empty for a quick audit, which does not score the population."""
    them, parts = "them" if level == "patient" else f"their {WORDS[level][1]}", []
    for alpha in (0.10, 0.01):
        threshold, note = population_threshold(judged.population, alpha)
        if math.isfinite(threshold):
            parts.append(f"at {threshold:.4g}".replace("-", "−") + f", at most {percent(alpha)} of {them} are accused")
        elif len(judged.population):
            parts.append(note)
    if not parts:
        return ""
    return f" An attacker may set the threshold with patients who were never in the data: {'; '.join(parts)}."
