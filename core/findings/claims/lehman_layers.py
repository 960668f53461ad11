"""Claims on which layers of a masked model know a name; Lehman 2021 reads the last one alone."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, LATER_SEEDS, SYNTHETIC, of, plain
from core.findings.from_weights.name_layers import NAME
from core.findings.measures.names import layers_apart, seen_by_layer
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns

LAYERS = 4  # of the tiny models
_READ = tuple(plain("distilbert", seed) for seed in SEEDS)
_NEEDS = tuple(Need(spec, measured=(NAME,)) for spec in _READ)


def _seen(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{of(spec)}, layer {layer}", seen_by_layer(runs, spec, layer))
        for spec in _READ
        for layer in range(1, LAYERS + 1)
    ]


def _half(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{of(spec)}, layer {LAYERS} − layer {layer}", layers_apart(runs, spec, LAYERS, layer))
        for spec in _READ
        for layer in range(LAYERS)
    ]


CLAIMS = (
    Claim(
        id="L-c11",
        title="No layer's vector says a name was seen",
        says="From the vector of a name one cannot tell whether the name was in the training notes. The paper reads "
        "the last layer; here every layer is read.",
        figure="AUC .508 from the last layer",
        place="§6.4, table 7",
        quantity="AUC of a logistic regression on the name's vector after one layer, 0.5 by chance",
        unit="number",
        measure=_seen,
        rule=Below(0.6),
        needs=_NEEDS,
        sizes=f"{CLASSROOM}; 211 patients tested",
        differs="Our question for all layers but the last, whose figure of .48 was known (L-c6). The line of .6 is "
        f"that of L-c6. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "After every layer the AUC is near chance (.48 to .55), but 211 patients leave intervals "
            "that all reach beyond .6."
        },
        page="probes",
    ),
    Claim(
        id="L-c12",
        title="The last layer knows last names best",
        says="Attacks on names read the model's last layer. If the knowledge is there, earlier layers know less.",
        figure="none; only the last layer is read",
        place="§6.4 and §6.5",
        quantity="AUC of the hidden last name's likelihood, seen against unseen patients, in points: read out after "
        "the last layer − after an earlier one",
        unit="points",
        measure=_half,
        rule=Above(),
        needs=_NEEDS,
        sizes=f"{CLASSROOM}; the 292 members whom a training note names, and all 129 others",
        differs="Our question. The model's own head reads every layer, although it was trained on the last. The last "
        f"layer's AUC of .68 was known (L-c7). {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "The first layer knows nearly as much as the last: .651 against .675 on seed 0, and 3 to 4 "
            "points less on the others. Only the embeddings, which do not know the first name, know clearly less, by "
            "19 to 21 points on each seed (.483 on seed 0, near chance)."
        },
        page="probes",
    ),
)
