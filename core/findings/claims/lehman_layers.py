"""Claims on which layers of a masked model know a name; Lehman 2021 reads the last one alone."""

from __future__ import annotations

from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, plain
from core.findings.from_weights.name_layers import NAME
from core.findings.measures.names import layers_apart, seen_by_layer
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns

LAYERS = 4  # of the tiny models
_NEEDS = (Need(plain("distilbert"), measured=(NAME,)),)


def _seen(runs: StoredRuns) -> list[Figure]:
    spec = plain("distilbert")
    return [labelled(f"DistilBERT, layer {layer}", seen_by_layer(runs, spec, layer)) for layer in range(1, LAYERS + 1)]


def _half(runs: StoredRuns) -> list[Figure]:
    spec = plain("distilbert")
    return [
        labelled(f"DistilBERT, layer {LAYERS} − layer {layer}", layers_apart(runs, spec, LAYERS, layer))
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
        f"that of L-c6. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "After every layer the AUC is just below chance, but 211 patients leave intervals of which "
            "two reach just beyond .6."
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
        f"layer's AUC of .68 was known (L-c7). {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "The first layer knows nearly as much as the last: .651 against .675. Only the embeddings, "
            "which do not know the first name, know nothing (.483)."
        },
        page="probes",
    ),
)
