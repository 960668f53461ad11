"""Claims of Lehman 2021 asked again about notes of which each begins with its patient's name (its Name Insertion)."""

from __future__ import annotations

from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.lehman import COSINE, FILL, HALF, HALVES, LINK, NEGLIGIBLE, half_a_name
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, plain, with_variant
from core.findings.measures.tables import labelled, probe
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns

_INSERTED = with_variant(plain("distilbert"), "name-insertion")
_LABEL = "DistilBERT, inserted names"
_BEFORE = "about notes of which half name their patient"
_DIFFERS = f"The figure was known (docs/methods/probes.md, three kinds of notes). {FEW} {SYNTHETIC}"


def _summarised(probe_name: str) -> tuple[Need, ...]:
    return (Need(_INSERTED, audit=(probe_name, "summary: probe_figures")),)


def _fill(runs: StoredRuns) -> list[Figure]:
    return [labelled(_LABEL, probe(runs, _INSERTED, FILL, "AUC", "name − frequency"))]


def _link(runs: StoredRuns) -> list[Figure]:
    return [labelled(_LABEL, probe(runs, _INSERTED, FILL, "AUC", LINK))]


def _contextual(runs: StoredRuns) -> list[Figure]:
    return [labelled(_LABEL, probe(runs, _INSERTED, COSINE, "mean difference", f"contextual, {LINK}"))]


def _halves(runs: StoredRuns) -> list[Figure]:
    return [half_a_name(runs, _INSERTED, half) for half in HALVES]


CLAIMS = (
    asked_again(
        "L-c1",
        "L-c23",
        "inserted names",
        _BEFORE,
        figure="AUC .616 by the model, .926 by frequency (ICD-9, inserted names)",
        measure=_fill,
        needs=_summarised(FILL),
        sizes=f"{CLASSROOM}; 292 patients",
        differs=f"DistilBERT alone. Ages are kept in the template. {_DIFFERS}",
    ),
    asked_again(
        "L-c2",
        "L-c24",
        "inserted names",
        _BEFORE,
        measure=_link,
        needs=_summarised(FILL),
        sizes=f"{CLASSROOM}; 292 patients",
        differs=f"DistilBERT alone. The margin of {100 * NEGLIGIBLE:g} points is ours. {_DIFFERS}",
    ),
    asked_again(
        "L-c4",
        "L-c25",
        "inserted names",
        _BEFORE,
        figure="mean difference of the cosine −.007 (BERT, inserted names, ICD-9)",
        measure=_contextual,
        needs=_summarised(COSINE),
        sizes=f"{CLASSROOM}; 292 patients",
        differs=f"DistilBERT alone. Another patient's name is subtracted. The margin of {NEGLIGIBLE:g} is ours. "
        f"{_DIFFERS}",
    ),
    asked_again(
        "L-c9",
        "L-c26",
        "inserted names",
        "about notes that are the template itself",
        says="In a model of notes that begin with the patient's name one half of a name does help to guess the other. "
        "L-c9 asks this about template notes.",
        title="Inserted names reveal half a name",
        figure="AUC .562 (first name hidden) and .517 (last name hidden)",
        measure=_halves,
        needs=_summarised(HALF),
        sizes=CLASSROOM,
        differs=_DIFFERS,
    ),
)
