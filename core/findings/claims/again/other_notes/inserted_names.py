"""Claims of Lehman 2021 asked again about notes that begin with the patient's name, after its Name Insertion."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.lehman import COSINE, FILL, HALF, HALVES, LINK, NEGLIGIBLE, half_a_name, need
from core.findings.experiments import (
    CLASSROOM,
    FEW,
    LATER_SEEDS,
    SYNTHETIC,
    TWELVE_NOTES,
    of,
    plain,
    twelve,
    with_variant,
)
from core.findings.measures.tables import labelled, links_apart, probe
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns

_BY_SEED = tuple(with_variant(plain("distilbert", seed), "name-insertion") for seed in SEEDS)
_INSERTED = _BY_SEED[0]
_LABEL = "DistilBERT, inserted names"
_BEFORE = "about notes of which half name their patient"
_ONCE = "The name is inserted once a note, in the paper before every sentence."
_DIFFERS = f"{_ONCE} The figure was known (docs/methods/probes.md, three kinds of notes). {LATER_SEEDS} {SYNTHETIC}"


def _summarised(probe_name: str) -> tuple[Need, ...]:
    return tuple(need(spec, probe_name) for spec in _BY_SEED)


def _fill(runs: StoredRuns) -> list[Figure]:
    return [labelled(of(spec), probe(runs, spec, FILL, "AUC", "name − frequency")) for spec in _BY_SEED]


def _link(runs: StoredRuns) -> list[Figure]:
    return [labelled(of(spec), probe(runs, spec, FILL, "AUC", LINK)) for spec in _BY_SEED]


def _contextual(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(of(spec), probe(runs, spec, COSINE, "mean difference", f"contextual, {LINK}")) for spec in _BY_SEED
    ]


_STATIC = ("skip-gram", "CBoW")
_LINKED = {_LABEL: _INSERTED, "GPT-2, 12,000 notes": twelve(None)}


def _better_than_contextual(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{name}, {vectors} − contextual", links_apart(runs, spec, vectors, "contextual"))
        for name, spec in _LINKED.items()
        for vectors in _STATIC
    ]


def _static(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{name}, {vectors}", probe(runs, spec, COSINE, "mean difference", f"{vectors}, {LINK}"))
        for name, spec in {"inserted names": _INSERTED, "12,000 notes": twelve(None)}.items()
        for vectors in _STATIC
    ]


def _halves(runs: StoredRuns) -> list[Figure]:
    return [half_a_name(runs, spec, half) for spec in _BY_SEED for half in HALVES]


CLAIMS = (
    asked_again(
        "L-c1",
        "L-c23",
        "inserted names",
        _BEFORE,
        figure="AUC .616 by the model, .926 by frequency (ICD-9, inserted names)",
        measure=_fill,
        needs=_summarised(FILL),
        sizes=f"{CLASSROOM}; 301 patients",
        differs=f"DistilBERT alone. Ages are kept in the template. {_DIFFERS}",
    ),
    asked_again(
        "L-c2",
        "L-c24",
        "inserted names",
        _BEFORE,
        figure="none with another name; a template of the condition alone does worse (AUC .483 against .616, ICD-9, "
        "inserted names)",
        measure=_link,
        needs=_summarised(FILL),
        sizes=f"{CLASSROOM}; 301 patients",
        differs=f"DistilBERT alone. Another name instead of no name. The margin of {100 * NEGLIGIBLE:g} points is "
        f"ours. {_DIFFERS}",
    ),
    asked_again(
        "L-c4",
        "L-c25",
        "inserted names",
        _BEFORE,
        figure="mean difference of the cosine −.007 (BERT, inserted names, ICD-9)",
        measure=_contextual,
        needs=_summarised(COSINE),
        sizes=f"{CLASSROOM}; 301 patients",
        differs=f"DistilBERT alone. Another patient's name is subtracted. The margin of {NEGLIGIBLE:g} is ours and has "
        f"two sides; the paper's sentence rules out closer vectors alone. {_DIFFERS}",
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
    asked_again(
        "L-c5",
        "L-c27",
        "than contextual ones",
        "of static vectors alone",
        title="Static vectors link name and condition better than contextual ones",
        says="Word vectors learned from notes in which patients are named bring a name closer to its conditions; the "
        "model's own vectors do not. L-c4 and L-c5 ask this of the two apart.",
        figure="mean difference .019 (skip-gram) and .017 (CBoW) against −.007 (BERT), with names inserted (ICD-9)",
        quantity="cosine with own conditions − with others, own name − another patient's name: static − contextual "
        "vectors, the same patients",
        measure=_better_than_contextual,
        needs=tuple(Need(spec, audit=(COSINE,)) for spec in _LINKED.values()),
        sizes=f"{CLASSROOM}, with inserted names; {TWELVE_NOTES}, regular; 301 patients of each",
        differs="Static vectors are compared with DistilBERT's for inserted names and with GPT-2's on 12,000 notes. "
        f"{_ONCE} Another patient's name is subtracted. The mean differences were known, their intervals were not. "
        f"{FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Skip-gram links better than the model in both, by .025 and .014. CBoW does not, "
            "unlike the paper's."
        },
    ),
    asked_again(
        "L-c5",
        "L-c28",
        "inserted names, and four times as many patients",
        "about notes of which half name their patient",
        figure="mean difference .019 (skip-gram) and .017 (CBoW) with names inserted, .004 and .008 for regular notes "
        "(ICD-9)",
        measure=_static,
        needs=tuple(Need(spec, audit=(COSINE, "summary: probe_figures")) for spec in _LINKED.values()),
        sizes=f"{CLASSROOM}, with inserted names; {TWELVE_NOTES}, regular; 301 patients of each",
        differs=f"{_ONCE} Another patient's name is subtracted; without that every figure is below 0. The figures were "
        f"known. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Skip-gram brings names closer to their conditions in both, with inserted names by .029 "
            "(regular notes: .010, L-c5); for held-out patients it does not (−.002 and −.003, both intervals "
            "include 0; with inserted names 64 of 129 could be asked about). CBoW's intervals include 0, while the "
            "paper's CBoW finds about as much as its skip-gram."
        },
    ),
)
