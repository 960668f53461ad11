"""The claim of Jagannatha 2021 about sizes of models, asked again with a third size, `small`."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import ALL_KINDS, by_loss, of_size
from core.findings.experiments import CLASSROOM, SYNTHETIC, seeded
from core.findings.measures.attacks import difference, leakage
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind, ModelSize, RunSpec, recipe

LARGER: ModelSize = "small"
SMALLER: ModelSize = "tiny"


def _by_its_recipe(kind: ModelKind, seed: int) -> RunSpec:
    """The larger size with the recipe for it, which has a lower rate for BERT alone."""
    spec = of_size(kind, LARGER, seed)
    training = recipe(kind, spec.privacy, notes=spec.corpus.training_notes, seed=seed, size=LARGER)
    return spec.model_copy(update={"training": training})


def _larger(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{seeded(kind, seed)}, small − tiny",
            difference(by_loss(runs, _by_its_recipe(kind, seed)), by_loss(runs, of_size(kind, SMALLER, seed)), leakage),
        )
        for kind in ALL_KINDS
        for seed in SEEDS
    ]


CLAIMS = (
    asked_again(
        "J-c1",
        "J-c43",
        "a third size",
        "about two smaller sizes",
        measure=_larger,
        needs=tuple(
            Need(spec, scores=True)
            for kind in ALL_KINDS
            for seed in SEEDS
            for spec in (_by_its_recipe(kind, seed), of_size(kind, SMALLER, seed))
        ),
        sizes=f"{CLASSROOM}; models of 4.8 or 4.9 and of 1.2 million parameters",
        differs="Two sizes with one recipe, which was chosen for the smaller; for BERT of the larger size it has half "
        "the rate, because the full one destroys it (a perplexity of 421 or 422 on held-out notes on each of three "
        "seeds, 26 before training). The larger bases are not shipped: `python -m core pretrain --size small` makes "
        "them. How well the attacks do on GPT-2 and DistilBERT was known when this was asked, and BERT was added "
        f"afterwards. The rule is that of J-c1. {SYNTHETIC}",
        why={
            "cannot tell": "GPT-2's larger model leaks 9 to 10 points more on every seed. By the loss attack "
            "DistilBERT's and BERT's leak about as much as the smaller ones. DistilBERT's reads held-out notes no "
            "better either (perplexity 3.6 and 3.5), BERT's does (3.1 and 3.5). But the larger models wrote more: "
            "DistilBERT's a member's identifier in 11 of 4,200 texts, the smaller one's in 1, which is more than "
            "chance (p = .006, Fisher's test, with texts as independent); BERT's in 8, the smaller one's in 2 (p = "
            ".11)."
        },
        page="membership",
    ),
)
