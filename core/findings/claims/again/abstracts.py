"""Claims of Hoory 2021 about entities, asked again about real abstracts."""

from __future__ import annotations

from itertools import product

from core.demo.plan import spec_of
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.hoory import F1_EPSILONS, LITTLE, PUBLIC_BERT
from core.findings.experiments import CLASSROOM, FEW
from core.findings.from_weights.abstract_entities import NAME
from core.findings.labelled_abstracts import CORPORA
from core.findings.measures.tables import abstracts_difference, labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_ABSTRACTS = (
    f"{CLASSROOM}; heads fitted on 400 and judged on up to 1,000 sentences of each corpus: BC5CDR (diseases and "
    "chemicals) and NCBI disease"
)
_HERE = "A DistilBERT trained on 3,000 short notes instead of BERT with a million steps of 128,000 samples."

_UNIT = (
    "The corpora do not say where an abstract begins, so every ten consecutive sentences are treated as one. These cut "
    "across abstracts, so the intervals are still somewhat too narrow."
)


def _trained(epsilon: float | None) -> RunSpec:
    return spec_of("3k", "distilbert", epsilon, 0)


def _cost(runs: StoredRuns) -> list[Figure]:
    plain = (_trained(None), "target")
    return [
        labelled(
            f"{corpus}, without privacy − ε = {epsilon:g}",
            abstracts_difference(runs, plain, (_trained(epsilon), "target"), corpus),
        )
        for corpus, epsilon in product(CORPORA, F1_EPSILONS)
    ]


def _gain(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{corpus}, ε = {epsilon:g} − public",
            abstracts_difference(runs, (_trained(epsilon), "target"), (_trained(epsilon), "base"), corpus),
        )
        for corpus, epsilon in product(CORPORA, F1_EPSILONS)
    ]


CLAIMS = (
    asked_again(
        "H-c1",
        "H-c24",
        "real abstracts",
        "about held-out patients' notes",
        measure=_cost,
        needs=tuple(Need(_trained(epsilon), measured=(NAME,)) for epsilon in (None, *F1_EPSILONS)),
        sizes=_ABSTRACTS,
        differs=f"{_HERE} The margin of {100 * LITTLE:g} points is ours. {_UNIT} {FEW}",
        why={
            "cannot tell": "On BC5CDR the F1 is about 2 points lower, on NCBI disease not lower at all. But the "
            "interval that reaches furthest ends just beyond the margin. With sentences treated as independent it "
            "ended 0.1 points below it."
        },
    ),
    asked_again(
        "H-c2",
        "H-c25",
        "real abstracts",
        "about held-out patients' notes",
        measure=_gain,
        needs=tuple(Need(_trained(epsilon), measured=(NAME,)) for epsilon in F1_EPSILONS),
        sizes=_ABSTRACTS,
        differs=f"{_HERE} {PUBLIC_BERT} {_UNIT} {FEW}",
        why={
            "cannot tell": "Training with DP on 3,000 notes changes the F1 by at most 2.4 points, and every interval "
            "includes 0."
        },
    ),
)
