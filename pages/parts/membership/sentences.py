"""What attacks catch, in sentences that say whether patients, admissions or notes are evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pandas as pd

from core.common.formatting import promised_text
from core.evaluation.guarantee.odds import group_promise
from core.evaluation.membership.curve import Caught, Ceiling
from core.evaluation.membership.summary import ROC_RATES, population_threshold
from core.evaluation.membership.units import Units
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import most_certain
from core.evaluation.wording import interval_text, percent, set_percent, signed

FEW = 30  # accused: a count is given instead of a share
ALLOWED = 0.10  # share of those held out that may be accused in the first question
WORDS = {"sample": ("note", "notes"), "admission": ("admission", "admissions"), "patient": ("patient", "patients")}
LENGTHS = {f"{length} sample": (f"{length} note", f"{length} notes") for length in ("short", "long")}
UNITS = WORDS | LENGTHS  # what is evaluated, in the singular and the plural


def caught_sentence(found: Caught, level: str) -> str:
    """`Catches 31 of 300 members, accuses 9 of 130 held-out patients.`, or of their notes or admissions."""
    members, others = sides(level)
    return (
        f"Catches {found.members:,} of {found.of_members:,} {members}, "
        f"accuses {found.others:,} of {found.of_others:,} {others}."
    )


def sides(level: str) -> tuple[str, str]:
    """What is evaluated: `members` and `held-out patients`, or their notes, short notes or admissions."""
    things = UNITS[level][1]
    return "members" if level == "patient" else f"members' {things}", f"held-out {things}"


def by_length(level: str, length: str) -> str:
    """A sentence that only short or long notes count for admissions or patients; empty where all do, or for notes."""
    if length == "all" or level == "sample":
        return ""
    thing = "a patient is the mean over their" if level == "patient" else "an admission is the mean over its"
    return f" The score of {thing} {length} notes alone."


def roc_sentence(curves: Mapping[str, pd.DataFrame], attack: str, level: str) -> str:
    """What one attack catches of each model if ALLOWED of those held out may be accused, beside random guessing.

    Args:
        curves: The bands of the attack (`core.evaluation.membership.curve.curve`) by the model's name.
        attack: Its name.
        level: What is evaluated, a key of UNITS.
    """
    things = UNITS[level][1]
    rows = {name: table.iloc[(table["fpr"] - ALLOWED).abs().argmin()] for name, table in curves.items()}
    caught = [f"{percent(row['tpr'])} ({interval_text(row['low'], row['high'])})" for row in rows.values()]
    caught[0] += f" of {sides(level)[0]}"
    by_model = [f"{said} with “{name}”" for said, name in zip(caught, rows, strict=True)]
    chance = next(iter(rows.values()))["fpr"]
    return (
        f"If {set_percent(ALLOWED)} of held-out {things} may be accused by mistake, the attack “{attack}” catches "
        f"{' and '.join(by_model)}; random guessing would catch {percent(chance)}."
    )


def evaluated_sentence(judged: Mapping[str, tuple[Units, int | None]], attack: str, length: str) -> str:
    """How many notes an attack was evaluated on, and why that differs between models of one cohort.

    Args:
        judged: The notes scored (units at the level `sample`) and the most that the training read of a patient (None:
            all of them; `Run.note_cap`), by the model's name.
        attack: The attack's name.
        length: The length of these notes.
    """
    members, others = sides("sample" if length == "all" else f"{length} sample")
    parts = []
    for name, (notes, cap) in judged.items():
        most = "all of a patient's" if cap is None else f"at most {cap:,} of a patient"
        parts.append(f"{notes.members:,} {members} ({most}) and {notes.nonmembers:,} {others} with “{name}”")
    return (
        f"“{attack}” was evaluated on {', and on '.join(parts)}. A member's notes are evaluated if training reads "
        "them; only training that clips notes one by one, as for a guarantee per note, reads all notes of a patient."
    )


def fewer_accused(rates: pd.DataFrame, name: str, attack: str, level: str) -> str:
    """What an attack catches of one model at the lower rates of the table `at_rates`; empty where there is none.

    `If fewer held-out notes may be accused by mistake, “loss” catches, with “no privacy”: at 1 %, 12 % (…).` A rate for
    which too few are held out follows in a sentence with the number that it needs.
    """
    rows = rates[(rates["run"] == name) & (rates["attack"] == attack)].set_index("may accuse")
    caught = {rate: rows.loc[rate] for rate in ROC_RATES[1:] if rate in rows.index}
    few = [rate for rate, row in caught.items() if math.isnan(row["catches"])]  # fewer than 1 / rate are held out
    measured = [
        f"at {set_percent(rate)}, {percent(row['catches'])} ({interval_text(row['low'], row['high'])})"
        for rate, row in caught.items()
        if rate not in few
    ]
    things, at = UNITS[level][1], " or ".join(map(set_percent, few))
    sentences = []
    if measured:
        sentences.append(
            f"If fewer held-out {things} may be accused by mistake, “{attack}” catches, with “{name}”: "
            f"{'; '.join(measured)}."
        )
    if few:
        needed = " or ".join(f"{math.ceil(1 / rate - 1e-9):,}" for rate in few)
        what = (
            f"to measure it at {at}"
            if measured
            else f"held-out {things} to measure what “{attack}” catches, with “{name}”, if only {at} of them may be "
            "accused by mistake"
        )
        sentences.append(f"There are too few {what}: it takes {needed}.")
    return " ".join(sentences)


def for_a_patient(name: str, ceiling: Ceiling) -> str:
    """What an ε per note means for whom the ceiling is drawn: the evaluated patient with the most notes."""
    return (
        f"“{name}” has an ε per note. For the evaluated patient with the most notes ({ceiling.group:,}) this means "
        f"{group_promise(ceiling.of_group, ceiling.delta)}."
    )


def for_an_exchange(name: str, ceiling: Ceiling) -> str:
    """Why the line of a guarantee has a larger ε than its promise: one patient is in, so another one is out."""
    at = (
        f"ε = {promised_text(ceiling.epsilon)} at the same δ"
        if math.isfinite(ceiling.epsilon)
        else "no finite ε, so it rules nothing out"
    )
    return (
        f"The curves compare patients in the training data with others who are not, so that one takes the place of "
        f"another: two changes. The line of “{name}” is that of two changes: {at}."
    )


def surest_sentence(found: pd.DataFrame) -> str:
    """The attack whose AUC has the highest lower end, and the one with the highest AUC if that is another.

    Args:
        found: Rows of AUC: run, attack, value, low, high. There is at least one.
    """
    judged = [Interval.of(row) for row in found.to_dict("records")]
    place, chosen = most_certain(judged, least=0.0)
    best, highest = found.iloc[place], found.loc[found["value"].idxmax()]
    several = found["run"].nunique() > 1
    widened = len(found) > 1 and not math.isnan(chosen.low)
    corrected = f", corrected for choosing among {len(found)}" if widened else ""
    top = f"{best['attack']} on “{best['run']}”, AUC {best['value']:.3f}"
    interval = f"({interval_text(chosen.low, chosen.high, lambda x: f'{x:.3f}')}{corrected})"
    if math.isnan(chosen.low):
        return f"Highest here: {top} {interval}."
    start = f"Best here by the lower end of its interval: {top} {interval}" if len(found) > 1 else f"{top} {interval}"
    if f"{highest['value']:.3f}" == f"{best['value']:.3f}":
        return f"{start}."
    on = f" on “{highest['run']}”" if several else ""
    return f"{start} (highest AUC: {highest['attack']}{on}, {highest['value']:.3f})."


def strongest_sentence(found: pd.DataFrame, name: str, level: str) -> str:
    """The surest of all attacks on one model, which the attack in the picture need not be; empty if only one was run.

    Args:
        found: Rows of AUC at this level: attack, value, low, high.
        name: The model's name.
        level: What is evaluated, a key of UNITS.
    """
    if len(found) < 2:
        return ""
    judged = [Interval.of(row) for row in found.to_dict("records")]
    place, chosen = most_certain(judged, least=0.0)
    attack, ends = found["attack"].iloc[place], interval_text(chosen.low, chosen.high, lambda x: f"{x:.3f}")
    unit = UNITS[level][0]
    return f"Strongest of {len(found)} attacks on “{name}” by {unit}: “{attack}”, AUC {chosen.value:.3f} ({ends})."


def leakage_sentence(found: Caught, level: str) -> str:
    """The privacy leakage (Jagannatha 2021), and how many of those accused are members."""
    tpr, fpr = found.members / found.of_members, found.others / found.of_others
    called = found.members + found.others
    base = percent(found.of_members / (found.of_members + found.of_others))
    sentence = (
        f"That is {percent(tpr)} minus {percent(fpr)}: a privacy leakage of {signed(tpr - fpr, 3)}. Random guessing "
        "gives 0."
    )
    if not called:
        return sentence
    members, (thing, things) = sides(level)[0], UNITS[level]
    if called == 1:
        whose = "a member" if level == "patient" else f"a member's {thing}"
        said = f"The only accused {thing} is {'' if found.members else 'not '}{whose}"
    elif called < FEW:
        said = f"{found.members} of {called} accused {things} are {members}"
    else:
        said = f"Of {called:,} accused {things}, {percent(found.members / called)} are {members}"
    return f"{sentence} {said}; {members} are {base} of all evaluated {things}."


def partial_sentence(attacks: Sequence[str]) -> str:
    """The attacks that a comparison patient by patient leaves out, and why; empty without any."""
    return f" Left out, since they scored only some of the patients: {', '.join(attacks)}." if attacks else ""


def population_sentence(judged: Units, level: str) -> str:
    """The population's thresholds in a sentence; empty for a quick audit, which does not score the population."""
    them, parts = "them" if level == "patient" else f"their {UNITS[level][1]}", []
    for alpha in (0.10, 0.01):
        threshold, note = population_threshold(judged.population, alpha)
        if math.isfinite(threshold):
            at = f"{threshold:.4g}".replace("-", "−")
            parts.append(f"at {at}, at most {set_percent(alpha)} of {them} are accused")
        elif len(judged.population):
            parts.append(note)
    if not parts:
        return ""
    return f" An attacker may set the threshold with patients who were never in the data: {'; '.join(parts)}."
