"""Claims of Jagannatha 2021 about kinds and sizes of models, asked again with BERT, and on average of three seeds."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import ALL_KINDS, PL, SIZED, SIZES, by_loss, of_size
from core.findings.experiments import CLASSROOM, SYNTHETIC
from core.findings.measures.attacks import difference, leakage, mean_difference
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec.model_names import MODEL_NAMES

MASKED = ALL_KINDS[1:]


def _causal(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"GPT-2 − {MODEL_NAMES[kind]}, seed {seed}",
            difference(
                by_loss(runs, of_size("gpt2", "tiny", seed)), by_loss(runs, of_size(kind, "tiny", seed)), leakage
            ),
        )
        for kind in MASKED
        for seed in SEEDS
    ]


def _mean_sizes(runs: StoredRuns) -> list[Figure]:
    found = []
    for kind in ALL_KINDS:
        sides = {size: [by_loss(runs, of_size(kind, size, seed)) for seed in SEEDS] for size in SIZED}
        pairs = list(zip(sides["tiny"], sides["micro"], strict=True))
        label = f"{MODEL_NAMES[kind]} tiny − micro, mean of {len(SEEDS)} seeds"
        found.append(labelled(label, mean_difference(pairs, leakage)))
    return found


CLAIMS = (
    asked_again(
        "J-c2",
        "J-c38",
        "with BERT",
        "about models from public bases that have read abstracts and leaflets alone",
        quantity=f"{PL}: GPT-2 − a masked model, the same notes by the loss attack",
        measure=_causal,
        needs=tuple(Need(of_size(kind, "tiny", seed), scores=True) for kind in ALL_KINDS for seed in SEEDS),
        sizes=f"{CLASSROOM}; models of 1.2 million parameters from the bases `clinical`",
        differs="GPT-2 reads the notes 8 times, the masked models 16 times, each by its own recipe. What GPT-2 leaks "
        f"was known, and of the masked models the first seed. {SYNTHETIC}",
    ),
    asked_again(
        "J-c1",
        "J-c39",
        "averaged over three seeds",
        "of each seed, where the intervals are wider",
        quantity=f"mean over three seeds of {PL}: that of the larger model − that of the smaller, notes by the loss "
        "attack",
        measure=_mean_sizes,
        needs=SIZES,
        sizes=f"{CLASSROOM}; models of 1.2 and 0.4 million parameters",
        differs="The interval resamples patients and takes the three trainings as they are, so it says nothing about "
        "other seeds. Two sizes with one recipe, which was chosen for the larger. The figures of J-c1 were known when "
        f"this was asked; the rule is that of J-c1. {SYNTHETIC}",
    ),
)
