"""Further claims of Jagannatha 2021: leakage at each σ of the paper (§5.2)."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.claims.jagannatha import PL, by_loss
from core.findings.experiments import CLASSROOM, SYNTHETIC, private, seeded
from core.findings.measures.attacks import leakage, single
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import PrivacySpec, RunSpec

_SIGMAS, _SMALLER = (2.0, 1.0, 0.1, 0.01), (1e-3, 1e-4, 1e-20)  # §A.1


def _noisy(sigma: float, seed: int = 0) -> RunSpec:
    spec = private("gpt2", 8.0, seed)
    return spec.model_copy(update={"privacy": PrivacySpec(noise_multiplier=sigma, delta=1e-6)})


def _by_sigma(runs: StoredRuns) -> list[Figure]:
    return [_at(runs, sigma, seed) for seed in SEEDS for sigma in _SIGMAS]


def _by_smaller_sigma(runs: StoredRuns) -> list[Figure]:
    return [_at(runs, sigma, SEEDS[0]) for sigma in _SMALLER]


def _at(runs: StoredRuns, sigma: float, seed: int) -> Figure:
    found = single(by_loss(runs, _noisy(sigma, seed)), leakage)
    return labelled(f"{seeded('gpt2', seed)}, σ = {sigma:g}", found)


CLAIMS = (
    Claim(
        id="J-c8",
        title="Even little noise is enough",
        says="For σ from 2 down to 0.01 the leakage is negligible, although ε is enormous at σ = 0.01.",
        figure="under 1 % PL at σ ∈ {2, 1, .1, .01}",
        place="§5.2; §6",
        quantity=f"{PL} at each of these σ on three seeds, notes by the loss attack",
        unit="points",
        measure=_by_sigma,
        rule=Below(0.01),
        needs=tuple(Need(_noisy(sigma, seed), scores=True) for seed in SEEDS for sigma in _SIGMAS),
        sizes=CLASSROOM,
        differs="The learning rate is that of ε = 8. " + SYNTHETIC,
        why={
            "does not hold": "Leakage grows as the noise falls, and so does usefulness. With σ = 2 and 1 (ε = 1.6 and "
            "5.1) leakage cannot be distinguished from chance; with σ = 0.1 and 0.01 (ε = 760 and 76,000) it can."
        },
        page="tradeoff",
    ),
    Claim(
        id="J-c18",
        title="With almost no noise, leakage passes 1 %",
        says="At σ = 0.001 and below, more than 1 % leaks.",
        figure="more than 1 % PL at σ ∈ {.001, .0001, 1e-20} by attention and by group",
        place="§5.2",
        quantity=f"{PL} at each of these σ, notes by the loss attack",
        unit="points",
        measure=_by_smaller_sigma,
        rule=Above(0.01),
        needs=tuple(Need(_noisy(sigma), scores=True) for sigma in _SMALLER),
        sizes=CLASSROOM,
        differs="The loss attack instead of attention and groups. The learning rate is that of ε = 8. " + SYNTHETIC,
        page="tradeoff",
    ),
)
