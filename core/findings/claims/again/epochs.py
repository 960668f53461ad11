"""Whether leakage grows with every epoch (Jagannatha 2021, figure 1), asked of each of the first four epochs."""

from __future__ import annotations

from itertools import pairwise

from core.demo import SEEDS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import PL, by_loss
from core.findings.experiments import CLASSROOM, SYNTHETIC, gpt2_after, seeded
from core.findings.measures.attacks import difference, leakage, mean_difference
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns

_EPOCHS = (1, 2, 3, 4)


def _each_epoch(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{seeded('gpt2', seed)}, epoch {later} − epoch {earlier}",
            difference(by_loss(runs, gpt2_after(later, seed)), by_loss(runs, gpt2_after(earlier, seed)), leakage),
        )
        for seed in SEEDS
        for earlier, later in pairwise(_EPOCHS)
    ]


def _mean_each_epoch(runs: StoredRuns) -> list[Figure]:
    found = []
    for earlier, later in pairwise(_EPOCHS):
        pairs = [(by_loss(runs, gpt2_after(later, seed)), by_loss(runs, gpt2_after(earlier, seed))) for seed in SEEDS]
        label = f"GPT-2, mean of {len(SEEDS)} seeds, epoch {later} − epoch {earlier}"
        found.append(labelled(label, mean_difference(pairs, leakage)))
    return found


_NEEDS = tuple(Need(gpt2_after(epochs, seed), scores=True) for seed in SEEDS for epochs in _EPOCHS)
_SEPARATE = (
    "Each number of epochs is a separate training, with a learning rate that falls to 0 at its end, not a checkpoint "
    "of a longer one. GPT-2 alone."
)

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
        needs=_NEEDS,
        sizes=CLASSROOM,
        differs=f"{_SEPARATE} What J-c5 found was known. {SYNTHETIC}",
        why={
            "cannot tell": "All nine differences are positive, by 2 to 7 points. One interval includes 0: from the "
            "second epoch to the third, on one seed of three. Averaged over the three seeds, leakage grows with "
            "each epoch (J-c48)."
        },
    ),
    asked_again(
        "J-c5",
        "J-c48",
        "each of four epochs, averaged over three seeds",
        "about eight epochs and two",
        says="On average, privacy leakage is higher after each further epoch, from the first to the fourth. J-c42 asks "
        "this of each seed, where the intervals are wider.",
        quantity=f"mean over three seeds of {PL}: after an epoch − after the one before, notes by the loss attack",
        measure=_mean_each_epoch,
        needs=_NEEDS,
        sizes=CLASSROOM,
        differs="Averaged over seeds alone, by one attack. The interval resamples patients and takes the trainings as "
        f"they are, so it says nothing about other seeds. {_SEPARATE} The figures of J-c42 were known when this "
        f"was asked; the rule is that of J-c5. {SYNTHETIC}",
    ),
)
