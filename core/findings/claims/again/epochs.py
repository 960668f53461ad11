"""Whether leakage grows with every epoch (Jagannatha 2021, figure 1), asked of each of the first four."""

from __future__ import annotations

from itertools import pairwise

from core.demo import SEEDS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import PL, by_loss
from core.findings.experiments import CLASSROOM, SYNTHETIC, plain, seeded, with_epochs
from core.findings.measures.attacks import difference, leakage
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_EPOCHS = (1, 2, 3, 4)


def _after(epochs: int, seed: int) -> RunSpec:
    return with_epochs(plain("gpt2", seed), epochs)


def _each_epoch(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{seeded('gpt2', seed)}, epoch {later} − epoch {earlier}",
            difference(by_loss(runs, _after(later, seed)), by_loss(runs, _after(earlier, seed)), leakage),
        )
        for seed in SEEDS
        for earlier, later in pairwise(_EPOCHS)
    ]


CLAIMS = (
    asked_again(
        "J-c5",
        "J-c42",
        "each of four epochs",
        "about eight epochs and two",
        says="Privacy leakage is higher after each further epoch, from the first to the fourth. J-c5 compares eight "
        "epochs with two.",
        quantity=f"{PL}: after an epoch − after the one before, notes by the loss attack",
        measure=_each_epoch,
        needs=tuple(Need(_after(epochs, seed), scores=True) for seed in SEEDS for epochs in _EPOCHS),
        sizes=CLASSROOM,
        differs="Each number of epochs is a separate training, with a learning rate that falls to 0 at its end, not a "
        f"checkpoint of a longer one. GPT-2 alone. What J-c5 found was known. {SYNTHETIC}",
        why={
            "cannot tell": "All nine differences are positive, by 2 to 7 points. One interval includes 0: from the "
            "second epoch to the third, on one seed of three."
        },
    ),
)
