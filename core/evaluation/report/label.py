"""The label of a differentially private model: what is promised to whom, by which mechanism, and what is not protected.

The fields follow NIST SP 800-226 and tier 3 of the OpenDP registry of deployments (Nanayakkara, Ghazi & Vadhan 2025).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Required, TypedDict

import numpy as np

from core.common.formatting import delta_text, promised_text
from core.common.versions import program_version, versions_text
from core.evaluation.guarantee.consequences import DRAWN, SHOWN
from core.evaluation.report.glance import OF_A_KEY, OF_A_SEED, ONE_TRAINING, Subject
from core.runs.facts import DEDUPLICATED, FLOATING_POINT, LIMITS, SPEAKS_OF, beside_the_guarantee, guarantee, neighbours
from core.spec import Unit
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.tradeoff import dp_ceiling, tradeoff

MEASURED, CHOSEN = LIMITS[1], LIMITS[2]  # figures of the audit, and settings, that ε does not cover
CHOSEN_BUT_ONE = f"{CHOSEN.rstrip('.')}, except by the choice that is named here."
COUNTED = "The number of notes (through q and σ) and which patients were held out are treated as public."
BESIDE = (
    "The losses and the numbers of tokens of each step are exact; they are for those who train, not for recipients."
)
SHOWN_ONLY = "shown, not promised"
REFUTED = "contradicted by an attack"
ACCOUNTANTS = {
    "prv": "PRV: numerical composition of privacy losses, a certified upper bound",
    "rdp": "RDP: Rényi DP by Opacus, an upper bound",
}
OF_A_CHOICE = "RDP: Rényi divergences of one run and of the choice (Papernot & Steinke 2022, theorem 2), an upper bound"
WIDTH, HEIGHT, EDGE = 268, 200, 42  # of the picture, in pixels; the edge holds the axes' names


class Point(TypedDict):
    """A point of a trade-off curve: at most the share `caught` of members at the share `accused` of others."""

    accused: float
    caught: float


class Label(TypedDict, total=False):
    """The fields of a label. Those of a model without a guarantee are `promised` (False) and `unit` (None) alone."""

    promised: Required[bool]
    unit: Required[Unit | None]
    epsilon: float
    delta: float
    mu: float  # of a single training, as is `curve`
    curve: list[Point]
    choice: str  # of the best of several runs
    neighbours: str
    contribution: str
    mechanism: str
    accountant: str
    implementation: str
    noise: str
    not_protected: list[str]


def label(subject: Subject) -> Label:
    """The label's fields under stable keys; without a guarantee only `promised` (False) and `unit` (None).

    `epsilon`, `delta` and `mu` are those of the whole run, `mu` by `Tradeoff.gaussian_mu`. `curve` has the largest
    true-positive rate (`caught`) at some false-positive rates (`accused`). If `promised` is False but there is a unit,
    all this would hold if the noise were secret and no attack proved more than ε allows.

    Of a run that the ledger has as the best of several runs, `epsilon` is that of the choice. `choice` then says
    how it was chosen, in place of `mu` and `curve`, which are known for a single training only.
    """
    run, mechanism = subject.run, subject.run.privacy
    if mechanism is None:
        return {"promised": False, "unit": None}
    held, choice = guarantee(mechanism, subject.choice), subject.choice
    chosen = CHOSEN if choice is None else CHOSEN_BUT_ONE
    not_protected = [SPEAKS_OF[mechanism.unit], MEASURED, BESIDE, *beside_the_guarantee(run.spec), chosen, COUNTED]
    not_protected.append(FLOATING_POINT)
    if run.spec.corpus.deduplicated is not None:
        not_protected.append(DEDUPLICATED)
    known: Label = {
        "promised": subject.holds,
        "unit": mechanism.unit,
        "epsilon": held["epsilon"],
        "delta": held["delta"],
    }
    if choice is None:
        known["mu"], known["curve"] = _curve(mechanism)
    else:
        known["choice"] = choice.text()
    return {
        **known,
        "neighbours": neighbours(held),
        "contribution": _contribution(subject),
        "mechanism": (
            f"DP-SGD: Poisson sampling with q = {held['sample_rate']:.4g}, {held['steps']:,} steps, Gaussian noise of "
            f"σ·C on the clipped sum, σ = {held['noise_multiplier']:.4g}, C = {held['max_grad_norm']:g}"
        ),
        "accountant": ACCOUNTANTS[held["accountant"]] if choice is None else OF_A_CHOICE,
        "implementation": (
            "PHI Leak Lab, its own clipping, noise and numerical accounting (docs/methods/training.md, accounting.md); "
            f"{trained_text(run.trained_by)}; this report was made with PHI Leak Lab {program_version()}"
        ),
        "noise": OF_A_KEY if subject.protected else OF_A_SEED,
        "not_protected": not_protected,
    }


def trained_text(trained_by: Sequence[Mapping[str, str]] | None) -> str:
    """The versions that trained a run (`Run.trained_by`) in words, without a capital and a full stop."""
    if trained_by is None:
        return "the version that trained it was not recorded"
    turns = [versions_text(one) or "a version that was not recorded" for one in trained_by]
    return f"trained with {', then with '.join(turns)}"


def _curve(mechanism: Mechanism) -> tuple[float, list[Point]]:
    """μ and points of the trade-off curve of one training."""
    curve = tradeoff([mechanism])
    caught = curve.caught(SHOWN).tolist()
    points: list[Point] = [{"accused": rate, "caught": most} for rate, most in zip(SHOWN, caught, strict=True)]
    return curve.gaussian_mu(), points


def _contribution(subject: Subject) -> str:
    mechanism, most = subject.run.privacy, subject.most_notes
    assert mechanism is not None  # only a private run has a label
    norm = f"{mechanism.max_grad_norm:g}"
    words = mechanism.vocabulary
    counted = (
        "" if words is None else f" At most {words.words} words of a {mechanism.unit} are counted for the word list."
    )
    if mechanism.unit == "patient":
        cap = subject.run.note_cap
        read = "all their notes" if cap is None else f"their first {cap:,} notes"
        return f"A patient adds a gradient of norm at most C = {norm} to a step, from {read} together.{counted}"
    return (
        f"A note adds a gradient of norm at most C = {norm} to a step. The number of notes of a patient is not bounded "
        f"(at most {most:,} in this cohort).{counted}"
    )


def mu_text(made: Label) -> str:
    """μ of a label with three digits, rounded up; above 6.18 the trade-off curve does not determine it."""
    return "above 6.18" if math.isinf(made["mu"]) else promised_text(made["mu"])


def _status(made: Label, alarmed: bool) -> str:
    """Whether the ε of a label is promised, in words."""
    if alarmed:
        return REFUTED
    return "promised" if made["promised"] else SHOWN_ONLY


def rows(made: Label, alarmed: bool = False) -> list[tuple[str, str, str]]:
    """The label as (key, name, text), in the order in which it is printed; empty without a unit.

    `alarmed`: an attack proves more than ε allows (`Subject.alarmed`).
    """
    if made["unit"] is None:
        return []
    status = _status(made, alarmed)
    return [
        ("status", "Status", status if status != SHOWN_ONLY else f"{status}: it would hold if the noise were secret"),
        ("unit", "Unit of privacy", f"one {made['unit']}"),
        ("epsilon", "ε at δ", f"ε = {promised_text(made['epsilon'])} at δ = {delta_text(made['delta'])}"),
        _mu_row(made),
        ("contribution", "Contribution bound", made["contribution"]),
        ("neighbours", "Neighbours", made["neighbours"]),
        ("mechanism", "Mechanism", made["mechanism"]),
        ("accountant", "Accountant", made["accountant"]),
        ("implementation", "Implementation", made["implementation"]),
        ("noise", "Noise", made["noise"]),
    ]


def _mu_row(made: Label) -> tuple[str, str, str]:
    """μ of a label; of a chosen run how it was chosen, and why there is no μ."""
    if "choice" in made:
        return "choice", "Chosen", f"The {made['choice']}. ε includes the choice. {ONE_TRAINING}"
    told = f"{mu_text(made)}, the smallest with its trade-off curve above this run’s at error rates of at least 0.1 %"
    return "mu", "μ of Gaussian DP", told


def essentials(made: Label, alarmed: bool = False) -> list[tuple[str, str]]:
    """The label in one line for the first page: (key of its row, text); empty without a unit. As `rows`."""
    if made["unit"] is None:
        return []
    return [
        ("status", _status(made, alarmed)),
        ("unit", f"one {made['unit']}"),
        ("epsilon", f"ε = {promised_text(made['epsilon'])} at δ = {delta_text(made['delta'])}"),
        ("choice", made["choice"].partition(" (")[0])
        if "choice" in made
        else ("mu", f"μ {'' if math.isinf(made['mu']) else '= '}{mu_text(made)}"),
        ("accountant", f"accountant {made['accountant'].partition(':')[0]}"),
        ("noise", "noise from a secret key" if made["noise"] == OF_A_KEY else "noise from a public seed"),
    ]


def picture(subject: Subject) -> dict[str, str]:
    """Points of the trade-off curve, and of the bound by (ε, δ) alone, for an SVG of WIDTH × HEIGHT; empty without."""
    mechanism = subject.run.privacy
    if mechanism is None or subject.choice is not None:
        return {}
    rates = np.concatenate([[0.0], DRAWN])
    own, ceiling = tradeoff([mechanism]).caught(rates), dp_ceiling(rates, mechanism.epsilon(), mechanism.delta)
    return {name: _points(rates, line) for name, line in (("own", own), ("ceiling", ceiling))}


def _points(rates: np.ndarray, caught: np.ndarray) -> str:
    """Rates of errors and of finds, both from 0 to 1, as the points of an SVG line."""
    across, down = WIDTH - EDGE - 6, HEIGHT - EDGE - 6
    return " ".join(f"{EDGE + x * across:.1f},{6 + (1 - y) * down:.1f}" for x, y in zip(rates, caught, strict=True))
