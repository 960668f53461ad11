"""Sentences and text forms of numbers, computed from figures alone. They hold no markup; pages add it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from core.common.formatting import promised_text, proved_text

Verdict = Literal["exceeds its control", "cannot be told from its control", "below its control"]

# Numbers -------------------------------------------------------------------------------------------------------------

NO_NUMBER = 0.001  # a number nearer to 0 is written as 0
NBSP = "\u00a0"  # keeps a number and its unit on one line
FOUND_BY = ", found by "  # before a detector's name in the note of a figure; those of the shapes lack it
OF_THEIR_OWN = "with a known value of their own"  # in the note of a figure that counts no shared values
FROM_MODEL = "Attacks on the finished model"  # what their bounds rest on, unlike those of planted gradients


def unbroken(text: str) -> str:
    """The text with each `ε = 8` and each `7 %` on one line."""
    text = re.sub(r"([εδσ]) = (?=\S)", rf"\1{NBSP}={NBSP}", text)
    return re.sub(r"(?<=\d) %", f"{NBSP}%", text)


def epsilon_text(epsilon: float) -> str:
    """`0.5`, `8`, `1,000`; `∞ (no privacy)`."""
    if math.isinf(epsilon):
        return "∞ (no privacy)"
    return f"{epsilon:,.0f}" if epsilon >= 100 else f"{epsilon:.3g}"


def guaranteed_text(epsilon: float) -> str:
    """The ε of a guarantee, rounded up as `promised_text`; `∞ (no privacy)`. A settings' ε is `epsilon_text`."""
    return epsilon_text(epsilon) if math.isinf(epsilon) else promised_text(epsilon)


def perplexity_name(kind: str) -> str:
    """Name of a model's figure: perplexity for GPT-2, pseudo-perplexity for kinds that fill gaps."""
    return "perplexity" if kind == "gpt2" else "pseudo-perplexity"


def perplexity_text(perplexity: float) -> str:
    """Three digits: `4.21`, `61.8`, `1.23 million`; all of `9,644`; `∞` for one above every float64.

    A training that went astray, say with too high a learning rate, reaches millions and more.
    """
    if math.isinf(perplexity):
        return "∞"
    if perplexity >= 999_999.5:
        return count_text(perplexity, digits=3)
    if perplexity >= 99.95:
        return f"{perplexity:,.0f}"
    return f"{perplexity:.1f}" if perplexity >= 9.995 else f"{perplexity:.2f}"


def percent(share: float) -> str:
    """`0 %`, `0.07 %`, `3.2 %`, `38 %`, `−2.5 %`; a small share is not 0 %, nor one just below 1 100 %.

    `< 0.01 %` for one that would be rounded to 0, and `> −0.01 %` below 0.
    """
    value = 100 * abs(share)  # −0.0 is 0
    if 0 < value < 0.005:
        return f"{'>' if share < 0 else '<'}{NBSP}{'−' if share < 0 else ''}0.01{NBSP}%"
    if share < 0:
        return f"−{percent(-share)}"
    if 99.5 <= value < 100:
        return f"{min(value, 99.99):.2f}{NBSP}%"
    digits = 0 if value == 0 or value >= 9.95 else 1 if value > 0.95 else 2  # 0.95 as float64 is a little less
    return f"{value:.{digits}f}{NBSP}%"


def set_percent(share: float) -> str:
    """`1 %`, `0.1 %`: a share that was set, without the digits of a measured one."""
    return f"{100 * share:.10g}{NBSP}%"


def chance_text(chance: float) -> str:
    """`62 %`, `0.3 %`; below 0.1 %, where percentages are hard to read, `1 in 25,000` or `1 in 3.2 million`."""
    if chance >= 1e-3:
        return percent(chance)
    if chance <= 1e-12:
        return "below 1 in a trillion"
    return f"1 in {count_text(1 / chance)}"


def count_text(count: float, *, digits: int = 2) -> str:
    """Two or more digits of a count: `7`, `440`, `25,000`, `3.2 million`, `more than a trillion`."""
    if count > 1e12:
        return "more than a trillion"
    rounded = float(f"{count:.{digits}g}")
    for size, name in ((1e9, "billion"), (1e6, "million")):
        if rounded >= size:
            return f"{rounded / size:,g} {name}"
    return f"{rounded:,.0f}"


def with_separators(text: str) -> str:
    """A stored sentence with `1,000` for `1000`; decimals such as `0.0233` stay."""
    return re.sub(r"(?<![\d.,])\d{4,}(?!\d)", lambda found: f"{int(found[0]):,}", text)


def p_value_text(p_value: float) -> str:
    """`p < 0.001`, `p = 0.032`, `p = 0.41`."""
    if p_value < 0.001:
        return "p < 0.001"
    return f"p = {p_value:.3f}" if p_value < 0.1 else f"p = {p_value:.2f}"


def signed(value: float, digits: int = 2) -> str:
    """`+0.12`, `−0.28`, and `0.00` without a sign."""
    text = f"{abs(value):.{digits}f}"
    return text if float(text) == 0 else f"{'−' if value < 0 else '+'}{text}"


def decimal_text(number: float, form: str) -> str:
    """A number in the format `form`, such as `+.1f`, with a real minus sign.

    One just beside 0 gets more digits: the end of an interval must not seem to touch 0. Below NO_NUMBER it is 0.
    """
    text = f"{number:{form}}"
    if float(text) == 0:
        sign = "+" if form.startswith("+") else ""
        text = f"{number:{sign}.1g}" if abs(number) >= NO_NUMBER else f"{0:{form.lstrip('+')}}"
    return text.replace("-", "−")


def interval_text(low: float, high: float, number: Callable[[float], str] = percent) -> str:
    """`95 % interval 1.2 % to 3.4 %`; `without an interval` if it is NaN.

    It gives no reason, since the ends do not say which holds: one seed, one canary or one patient in a group, values
    that are all equal, or an infinite figure (`core.evaluation.stats`).
    """
    if math.isnan(low) or math.isnan(high):
        return "without an interval"
    return f"95{NBSP}% interval {number(low)} to {number(high)}"


def left_out_note(patients: int) -> str:
    """The end of a figure's note, `; 2 left out, because …`; empty if none is."""
    return f"; {patients:,} left out, because other patients have the same value" if patients else ""


def left_out_sentence(members: int, heldout: int) -> str:
    """Who does not count among patients named in full, and why; empty if all do."""
    if not members + heldout:
        return ""
    who = "1 patient" if members + heldout == 1 else f"{members + heldout:,} patients"
    return (
        f"{who} with the same full name as another patient {'is' if members + heldout == 1 else 'are'} left out "
        f"({members:,} trained on, {heldout:,} held out): the name does not show which patient is meant."
    )


def shared_values_sentence(shared: Collection[tuple[str, str]]) -> str:
    """Which identifiers are not counted, and why, where any identifier counts; empty if all are.

    Args:
        shared: (patient id, field) of the values that several patients have (`Corpus.shared_values`).
    """
    patients = len({patient_id for patient_id, _ in shared})
    if not patients:
        return ""
    who = "1 patient shares" if patients == 1 else f"{patients:,} patients share"
    return (
        f"{who} a name, number or address with another patient. Such a value does not show which patient is meant, so "
        "it counts for none of them, trained on or held out."
    )


# What a guarantee means ----------------------------------------------------------------------------------------------


def most_right_guesses(epsilon: float, delta: float = 0.0) -> float:
    """Largest chance that a guess "in or out", prior ½, is right under (ε, δ)-DP: (e^ε + δ)/(1 + e^ε).

    It follows from FPR + FNR ≥ 2(1 − δ)/(1 + e^ε) (Kairouz, Oh & Viswanath 2015). Only ε = ∞ or δ ≥ 1 gives 1.

    Raises:
        ValueError: ε is negative or NaN.
    """
    if not epsilon >= 0:
        raise ValueError(f"ε must be at least 0, not {epsilon}")
    return below_one(1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0))), epsilon, delta)


def below_one(limit: float, epsilon: float, delta: float) -> float:
    """A limit by (ε, δ), which is 1 only where nothing is promised; from ε ≈ 37 on its float64 would be 1 before."""
    return limit if math.isinf(epsilon) or delta >= 1 else min(limit, math.nextafter(1.0, 0.0))


IN_OR_OUT = {"patient": "whether a patient was in the data", "note": "whether one particular note was in the data"}


def odds_sentence(epsilon: float, delta: float = 0.0, unit: Literal["note", "patient"] = "patient") -> str:
    """What (ε, δ) promises, as attackers out of 100, on average."""
    if math.isinf(epsilon):
        return f"Trained without privacy: nothing limits how many attackers correctly guess {IN_OR_OUT[unit]}."
    right = right_of_100(most_right_guesses(epsilon, delta))
    if right != ALL_RIGHT:
        return guesses_sentence(right, unit)
    return (
        f"The promise is empty in practice: of 100 attackers who guess {IN_OR_OUT[unit]}, on average {NEARLY_ALL} "
        "may be right if in and out are equally likely beforehand."
    )


def guesses_sentence(right: str, unit: Literal["note", "patient"]) -> str:
    """A bound on the chance of a right guess, as attackers of 100: on average, and for equal odds of in and out.

    In one particular group more attackers may be right by luck. More may also be right if the odds beforehand were not
    equal: someone who knows for certain that a person was in the data is always right.
    """
    return (
        f"Of 100 attackers who see every step of the training and guess {IN_OR_OUT[unit]}, on average at most "
        f"{right} are right, if in and out were equally likely beforehand (50 by tossing a coin)."
    )


ALL_RIGHT = "100"
NEARLY_ALL = "more than 99.9999"  # of 100, where a computed limit rounds to ALL_RIGHT


def right_of_100(chance: float) -> str:
    """How many of 100 are right on average at most, with as few decimals as keep it below 100: `74`, `99.97`.

    Rounded up. If even four decimals do not help, this is ALL_RIGHT. The denominator is always the same, so that
    limits at different ε can be compared at a glance.
    """
    for decimals in range(5):
        right = math.ceil(100 * 10**decimals * chance - 1e-9)
        if right < 100 * 10**decimals:
            return f"{right / 10**decimals:.{decimals}f}"
    return ALL_RIGHT


def percent_up(limit: float) -> str:
    """`69.36 %`: a limit, rounded up so that it is never understated; `just under 100 %` is not `100 %`."""
    if limit >= 1:
        return f"100{NBSP}%"
    hundredths = math.ceil(1e4 * limit - 1e-9)
    return f"just under 100{NBSP}%" if hundredths >= 10_000 else f"{hundredths / 100:g}{NBSP}%"


def at_most_text(chance: float) -> str:
    """`at most 70 %` of guesses right, in the digits of sentences (`right_of_100`), so that one limit has one number.

    `no limit` for a chance of 1, and `–` for one that is not known.
    """
    if math.isnan(chance):
        return "–"
    if chance >= 1:
        return "no limit"
    right = right_of_100(chance)
    return f"just under 100{NBSP}%" if right == ALL_RIGHT else f"at most {right}{NBSP}%"


def auc_sentence(auc: float) -> str:
    """AUC as right choices in 100 pairs of a note that was trained on and one that was not (`pairs_of`)."""
    right, of = pairs_of(auc)
    return (
        f"Shown {of:,} pairs of a note that was trained on and one that was not, the loss attack picks the right one "
        f"{right:,} times ({of // 2:,} by tossing a coin)."
    )


def pairs_of(auc: float, *, low: float = 0.0) -> tuple[int, int]:
    """(right, pairs), rounded to the nearest, for the fewest pairs from 100 on that give neither all nor none.

    `low`: the lower end of its interval; if that lies above a coin, it must not seem to reach down to it.
    """
    for crowd in (100, 1_000, 10_000, 100_000, 1_000_000):
        right = round(crowd * auc)
        if (0 < right < crowd or auc in (0.0, 1.0)) and not (low > 0.5 and round(crowd * low) == crowd // 2):
            break
    return right, crowd


# Verdicts ------------------------------------------------------------------------------------------------------------


def verdict(low: float, high: float, control_low: float, control_high: float) -> Verdict:
    """Compare a figure with its control by their 95 % intervals; only intervals that do not touch count as different.

    This is stricter than a test at 5 %.

    Raises:
        ValueError: an interval is missing (NaN).
    """
    if any(math.isnan(end) for end in (low, high, control_low, control_high)):
        raise ValueError("a verdict needs the intervals of the figure and of its control, and one is missing")
    if low > control_high:
        return "exceeds its control"
    return "below its control" if high < control_low else "cannot be told from its control"


BESIDE: dict[Verdict, str] = {  # a verdict on a figure whose control was named just before
    "exceeds its control": "exceeds it",
    "cannot be told from its control": "cannot be distinguished from it",
    "below its control": "is no better than it",
}


def leak_sentence(
    value: float,
    low: float,
    high: float,
    control: float,
    control_low: float,
    control_high: float,
    number: Callable[[float], str] = percent,
) -> str:
    """A leak rate, its control and the verdict in one sentence."""
    found = verdict(low, high, control_low, control_high)
    ending = {
        "exceeds its control": "this is more than chance: the model memorised patients.",
        "cannot be told from its control": "this cannot be distinguished from chance.",
        "below its control": "this is less than chance.",
    }[found]
    return (
        f"{number(value)} ({interval_text(low, high, number)}) against {number(control)} "
        f"({interval_text(control_low, control_high, number)}) for held-out patients: {ending}"
    )


def audit_sentence(bound: float, promised: float, ceiling: float) -> str:
    """An empirical lower bound on ε, the most that its trials could show, and the promised ε; above it is an alarm.

    A bound says little without its ceiling: at δ = 10⁻⁵, twelve canaries show at most 1.25, whatever the model leaks.
    """
    most = f"these trials could show at most {proved_text(ceiling)}"
    if math.isinf(promised):
        proved = f"that it is at least {proved_text(bound)}" if bound > 0 else "no lower bound above 0"
        return f"Without privacy, nothing limits ε. {FROM_MODEL} prove {proved} ({most})."
    limit = f"ε is {promised_text(promised)} by accounting"
    if bound <= 0:
        return f"{FROM_MODEL} prove no lower bound on ε above 0 ({most}); {limit}."
    if bound > promised:
        return (
            f"Alarm: an attack on the finished model proves ε ≥ {proved_text(bound)}, above "
            f"ε = {promised_text(promised)} of its accounting ({most}). Chance alone seldom does this: look for a bug."
        )
    return (
        f"{FROM_MODEL} prove ε ≥ {proved_text(bound)} ({most}), which is within ε = {promised_text(promised)} "
        "of its accounting."
    )


def planted_sentence(proof: Mapping[Any, Any]) -> str:
    """What an attacker who sees every step proves about ε (`core.evaluation.guarantee.step_audit`), in a few sentences.

    Apart from the attacks on the finished model: this attacker sees what no recipient of a model does.
    """
    promised, own = promised_text(float(proof["promised"])), float(proof["proved_by_curve"])
    proved = _at_least(float(proof["proved"]))
    by_curve = "" if math.isnan(own) else f", and by the run’s own trade-off curve {_at_least(own)}"
    told = (
        f"An attacker who sees every step (white-box) of a second run with {int(proof['canaries']):,} planted "
        f"gradients guesses {int(proof['correct']):,} of {int(proof['guesses']):,} right. "
        f"This proves {proved}{by_curve}; the most it could have proved is ε = "
        f"{proved_text(float(proof['ceiling']))} (95{NBSP}% confidence each). By accounting, such a training has ε = "
        f"{promised}."
    )
    if proof["alarm"]:
        return f"{told} Alarm: this contradicts the promise. At most one in ten correct programs shows this by chance."
    few = f"With this few planted gradients, no result could contradict ε = {promised}."
    return told if proof["can_alarm"] else f"{told} {few}"


def _at_least(bound: float) -> str:
    return f"ε ≥ {proved_text(bound)}" if bound > 0 else "nothing"


def curve_sentence(
    bound: float, guesses: int, promised: float, unit: Literal["note", "patient"], *, alarm: bool
) -> str:
    """What the audit fixed beforehand proves by the run's own trade-off curve; an alarm if it rules out its noise."""
    found = f"ε ≥ {proved_text(bound)}" if bound > 0 else "nothing about ε"
    told = (
        "Taking into account that the noise was Gaussian, with this run's sampling and steps, the same "
        f"{guesses} guesses prove {found} (ε per {unit}, 95{NBSP}% confidence)."
    )
    if not alarm:
        return told
    return (
        f"{told} Alarm: the noise from which ε = {promised_text(promised)} was computed does not allow this many right "
        "guesses. At most one in twenty runs whose guarantee holds shows this alarm by chance."
    )
