"""What a guarantee means as odds, which are easier to understand than ε.

There are two bounds on the same attacker, who guesses "in or out" for somebody put in or left out by a fair coin. The
*promise* (ε, δ) alone allows accuracy (e^ε + δ)/(1 + e^ε) (`core.evaluation.wording.most_right_guesses`). The
*mechanism* behind it allows (1 + δ(0))/2, where δ(0) is the total variation between the two cases: the best test of two
equally likely hypotheses errs with probability (1 − TV)/2 (Kairouz, Oh & Viswanath 2015). The second bound is far lower
for the same training, since ε at a tiny δ describes the worst outcome and not the usual one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from core.common.formatting import delta_text, promised_text
from core.evaluation.wording import (
    ALL_RIGHT,
    IN_OR_OUT,
    NEARLY_ALL,
    below_one,
    guesses_sentence,
    most_right_guesses,
    right_of_100,
    set_percent,
)
from core.spec import Unit
from core.training.accounting.chosen_composition import Chosen
from core.training.accounting.composition import advantage, has_advantage
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.tradeoff import dp_ceiling, tradeoff

PRIORS = (0.01, 0.1, 0.5)  # how likely somebody considered it beforehand
ACCUSED = (0.01, 0.1)  # false-positive rates


def mechanism_accuracy(mechanisms: Sequence[Mechanism]) -> float:
    """Largest chance that a guess "in or out", prior ½, is right against these mechanisms together: (1 + δ(0))/2.

    The attacker may see every noisy step. The result is an upper bound, as tight as `numerical_deltas`; it is 1 if no
    numerical answer can be computed.
    """
    return (1 + advantage(mechanisms)) / 2


def mechanism_sentence(mechanisms: Sequence[Mechanism], unit: Unit) -> str:
    """`mechanism_accuracy` as attackers out of 100."""
    right = right_of_100(mechanism_accuracy(mechanisms))
    if right != ALL_RIGHT:
        limit = guesses_sentence(right, unit)
        return f"By exact accounting of these steps, {limit[0].lower()}{limit[1:]}"
    if not has_advantage(mechanisms):
        return (
            "By exact accounting of these steps, no bound could be computed on how many correctly guess "
            f"{IN_OR_OUT[unit]}."
        )
    return (
        f"By exact accounting of these steps, of 100 attackers who guess {IN_OR_OUT[unit]}, on average {NEARLY_ALL} "
        "may be right if in and out are equally likely beforehand: nothing is limited in practice."
    )


def belief(prior: float, epsilon: float, delta: float = 0.0) -> float:
    """How certain somebody can become that one unit was in the data, if they considered it `prior` likely before.

    p·e^ε/(p·e^ε + 1 − p) by Bayes' rule, since the likelihood ratio is at most e^ε (Kasiviswanathan & Smith 2014). That
    is for δ = 0. With δ, rare outcomes exceed it, and their probability can be some times δ: δ bounds their excess,
    E[(1 − e^(ε − L))₊] of the privacy loss L, and so less than P(L > ε). 1 for ε = ∞, where nothing is promised.

    Raises:
        ValueError: The prior lies outside (0, 1), or ε is negative.
    """
    if not 0 < prior < 1:
        raise ValueError(f"a prior must be between 0 and 1, not {prior}")
    if not epsilon >= 0:
        raise ValueError(f"ε must be at least 0, not {epsilon}")
    if delta >= 1 or math.isinf(epsilon):
        return 1.0
    return below_one(1 / (1 + (1 - prior) / prior * math.exp(-min(epsilon, 700.0))), epsilon, delta)


def odds_table(epsilon: float, delta: float, mechanism: Mechanism | None = None) -> pd.DataFrame:
    """The most that (ε, δ) allows, one statement a row: columns question, at most, without the model.

    With a mechanism there is a column “by exact accounting”: what its own noise allows, NaN where ε alone counts.
    """
    rows = [("Right guesses “in or out”, on average, at even odds", most_right_guesses(epsilon, delta), 0.5)]
    for prior in PRIORS:
        thought = f"Belief of someone who thought it {set_percent(prior)} likely"
        rows.append((thought, belief(prior, epsilon, delta), prior))
    for share in ACCUSED:
        caught = below_one(float(dp_ceiling([share], epsilon, delta)[0]), epsilon, delta)
        rows.append((f"Members caught when {set_percent(share)} of others are accused", caught, share))
    table = pd.DataFrame(rows, columns=["question", "at most", "without the model"])
    if mechanism is not None:
        own = tradeoff([mechanism]).caught(ACCUSED).tolist()
        exact = [mechanism_accuracy([mechanism]), *(math.nan for _ in PRIORS), *own]
        table.insert(2, "by exact accounting", exact)
    return table


def patients_sentence(mechanism: Mechanism, median: int, most: int) -> str:
    """What a promise for one note means for the patient with the median number of notes and the one with the most.

    ε at the promise's own δ by exact accounting of all notes of a patient (`core.training.accounting.group_privacy`).
    """
    promises = f"the one with the most ({most:,}) {_promise_for(mechanism, most)}"
    if median < most:
        half = _promise_for(mechanism, median)
        promises = f"a patient with the median number of training notes ({median:,}) {half}; {promises}"
    return f"At the same δ = {delta_text(mechanism.delta)}, {promises}."


def _promise_for(mechanism: Mechanism, notes: int) -> str:
    epsilon = mechanism.patient_epsilon(notes)
    if math.isinf(epsilon):
        return "is promised nothing"
    empty = right_of_100(most_right_guesses(epsilon, mechanism.delta)) == ALL_RIGHT
    return f"gets ε = {promised_text(epsilon)}{', empty in practice' if empty else ''}"


def group_sentence(mechanism: Mechanism | Chosen, notes: int) -> str:
    """What a promise for one note means for a patient with `notes` notes (Jagannatha 2021, §2), by exact accounting.

    Of a run that was the best of several runs, the choice is part of it.
    """
    if math.isinf(mechanism.epsilon()):
        return f"Nothing is promised for one note, and nothing for a patient with {notes:,} of them."
    means = group_promise(mechanism.patient_epsilon(notes), mechanism.delta)
    return f"For a patient with {notes:,} notes this means {means}."


def group_promise(epsilon: float, delta: float) -> str:
    """What (ε, δ) for all notes of a patient together promises that patient, at the δ of one note.

    `ε = 1,998 at the same δ: in practice nothing is promised to them`
    """
    right = right_of_100(most_right_guesses(epsilon, delta))
    if math.isinf(epsilon) or right == ALL_RIGHT:
        at = f"ε = {promised_text(epsilon)} at the same δ" if math.isfinite(epsilon) else "no finite ε"
        return f"{at}: in practice nothing is promised to them"
    return (
        f"ε = {promised_text(epsilon)} at the same δ = {delta_text(delta)}: on average at most {right} of 100 "
        "attackers are right about them, if in and out were equally likely beforehand"
    )


def group_comparison(mechanism: Mechanism, notes: int) -> str:
    """Exact accounting for a patient's notes beside the group formula, which uses only (ε, δ) of one note."""
    exact = mechanism.patient_epsilon(notes)
    loose, loose_delta = group_epsilon(mechanism.epsilon(), mechanism.delta, notes)
    own = f"ε = {promised_text(exact)} at δ = {delta_text(mechanism.delta)}" if math.isfinite(exact) else "no finite ε"
    return (
        f"For {notes:,} notes of one patient, exact accounting gives {own} (all notes counted in every step). The "
        f"general formula for groups, k·ε and δ·(e^(kε) − 1)/(e^ε − 1), gives ε = {promised_text(loose)} at δ = "
        f"{delta_text(loose_delta)}{', which promises nothing' if loose_delta >= 0.5 else ''}: it uses nothing of "
        "this training except ε and δ of one note."
    )
