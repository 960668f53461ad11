"""Claims on names in texts that models write, a masked one by Gibbs sampling (Lehman 2021, §6.6)."""

from __future__ import annotations

from core.attacks.probes.generated import NAMES, ONE_TEXT, PAIRS
from core.demo import SEEDS
from core.evaluation.probes.tables import RIGHT
from core.evaluation.stats import intervals
from core.evaluation.stats.bootstrap import Interval
from core.findings.claim import Claim, Figure
from core.findings.claims.lehman import need
from core.findings.experiments import (
    CLASSROOM,
    FEW,
    LATER_SEEDS,
    SYNTHETIC,
    TWELVE_NOTES,
    plain,
    private,
    twelve,
    with_variant,
)
from core.findings.from_weights.written_links import NAME as LINKS
from core.findings.from_weights.written_names import NAME
from core.findings.measures.names import highest_ranked, linked, patients_written, top100_shares
from core.findings.measures.tables import labelled, probe
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_NEEDS = (Need(plain("distilbert"), measured=(NAME,)),)
_SIZES = f"{CLASSROOM}; 100,000 texts"
_TEXTS = (
    "100,000 texts of 12 tokens after eight prompts that ask for a name instead of 500,000 of 100 tokens, and full "
    "names found by shape instead of a tagger. Held-out patients as control, which the paper lacks."
)
_KNOWN = "That the 1,400 texts of the audit hold no member's full name was known (docs/methods/first-recipe.md)."


_INSERTED = with_variant(plain("distilbert"), "name-insertion")
_INSERTED_NEEDS = (Need(_INSERTED, measured=(LINKS,)),)
_INSERTED_TEXTS = (
    "Each note begins with its patient's name; in the paper every sentence does. 100,000 texts of 24 tokens after "
    "eight prompts that ask for a name instead of 500,000 of 100 tokens, and full names found by shape instead of a "
    "tagger. Held-out patients, with their names before their notes too, are the control, which the paper lacks."
)


def _patients(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT", patients_written(runs, plain("distilbert")))]


def _ranked(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT", highest_ranked(runs, plain("distilbert")))]


def _inserted_patients(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT, inserted names", patients_written(runs, _INSERTED, LINKS))]


def _inserted_ranked(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT, inserted names", highest_ranked(runs, _INSERTED, LINKS))]


def _inserted_linked(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT, inserted names", linked(runs, _INSERTED))]


_WRITTEN = {
    **{f"3,000 notes, seed {seed}": (plain("gpt2", seed), private("gpt2", 8.0, seed)) for seed in SEEDS},
    "12,000 notes": (twelve(None), twelve(8.0)),
}
_WITHOUT = tuple(need(without, NAMES) for without, _ in _WRITTEN.values())
_COMPARED = f"{CLASSROOM}, and {TWELVE_NOTES}; 1,400 texts each"


def _named(runs: StoredRuns, spec: RunSpec) -> tuple[Interval, Interval]:
    return top100_shares(runs, spec, len(_WRITTEN))


def _written(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"GPT-2, {size}", intervals.difference(*_named(runs, without)), joint=True)
        for size, (without, _) in _WRITTEN.items()
    ]


def _written_less(runs: StoredRuns) -> list[Figure]:
    found = []
    for size, (without, with_dp) in _WRITTEN.items():
        sides = (*_named(runs, with_dp), *_named(runs, without))
        found.append(labelled(f"GPT-2, {size}", intervals.weighted_sum((1, -1, -1, 1), sides), joint=True))
    return found


def _pairs(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"GPT-2, {size}", probe(runs, without, PAIRS, RIGHT, "own − others", bin=ONE_TEXT))
        for size, (without, _) in _WRITTEN.items()
    ]


CLAIMS = (
    Claim(
        id="L-c14",
        title="Generated text reveals names",
        says="Among the names in text that a model generates, those that it finds likelier than the public model does "
        "are often names of patients in the training notes.",
        figure="A@100 .16 for regular notes, .84 with inserted names, and .34 for the public BERT",
        place="§6.6, table 9",
        quantity="share of the 100 highest-ranked names that members have − that held-out patients have at equal "
        "pools, in points",
        unit="points",
        measure=_written,
        rule=Above(),
        needs=_WITHOUT,
        sizes=_COMPARED,
        differs="GPT-2 instead of a masked model, 1,400 texts instead of 500,000, and names found by shape. Held-out "
        "patients as control, which the paper lacks. Intervals count names as independent, although names of one text "
        "or prompt are not. The figures were known when this rule was written (docs/methods/probes.md). "
        f"{LATER_SEEDS} {SYNTHETIC}",
        page="probes",
    ),
    Claim(
        id="L-c15",
        title="DP keeps names out of generated text",
        says="A model trained with DP reveals fewer of its patients' names in generated text than one without: our "
        "question on the paper's attack.",
        figure="none; the paper trains without DP",
        place="§6.6, table 9",
        quantity="share of the 100 highest-ranked names that members have − that held-out patients have at equal "
        "pools: at ε = 8 − without privacy, in points",
        unit="points",
        measure=_written_less,
        rule=Below(),
        needs=(*_WITHOUT, *(need(with_dp, NAMES) for _, with_dp in _WRITTEN.values())),
        sizes=_COMPARED + " (at ε = 8 and 3,000 notes they have 39 to 57 names)",
        differs="Our question. GPT-2 instead of a masked model, 1,400 texts instead of 500,000, and names found by "
        "shape. The four shares are combined as independent. The figures were known when this rule was written. "
        "With DP, training also clips and takes other epochs and larger batches (4 epochs of 256, with 12,000 notes 12 "
        "of 1,024, instead of 8 of 16), so the cut is not due to noise alone. No control without noise was asked in "
        f"this way, but P-c24 has one for leaks in such texts. {LATER_SEEDS} {SYNTHETIC}",
        page="probes",
    ),
    Claim(
        id="L-c16",
        title="Generated text links names with conditions",
        says="A generated text with a patient's name has one of that patient's conditions more often than one of "
        "another patient's.",
        figure="23.5 % of sentences with a name and a condition are right (regular notes), 4.17 % with inserted names; "
        "the paper leaves open whether that is memorised",
        place="§6.6, table 9",
        quantity="share of texts with a member's name and a condition that the member has − that other patients have, "
        "in points",
        unit="points",
        measure=_pairs,
        rule=Above(),
        needs=_WITHOUT,
        sizes=_COMPARED + ", of which 131 (3,000 notes, seed 0) and 225 name a member and a condition",
        differs="Whole texts instead of sentences, since hardly any sentence of these notes has both. Other patients' "
        "conditions as control, which the paper lacks. GPT-2 instead of a masked model, 1,400 texts instead of "
        f"500,000. The figures were known when this rule was written. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "All four intervals include 0: texts name a patient's own conditions about as often as "
            "other patients'. The paper's share without such a control cannot show a link."
        },
        page="probes",
    ),
    Claim(
        id="L-c18",
        title="A masked model writes its patients' names, given many texts",
        says="Among very many texts that a masked model generates are full names of patients in its training notes, "
        "and more of them than of other patients.",
        figure=".94 % of the first names and 3.14 % of the last names in the texts are the data's (regular notes); "
        "full names are not counted",
        place="§6.6, table 9",
        quantity="share of patients with their full name in at least one text: members − held-out patients, in points",
        unit="points",
        measure=_patients,
        rule=Above(),
        needs=_NEEDS,
        sizes=_SIZES,
        differs=f"The paper counts distinct names, not patients, and does not compare with other patients. {_TEXTS} "
        f"{_KNOWN} {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "One text of 100,000 holds a member's full name and none a held-out patient's, which chance "
            "can do. A search for all patients' names by value finds the same. GPT-2 writes the names of 115 of the "
            "301 members in 1,400 texts."
        },
        page="probes",
    ),
    Claim(
        id="L-c19",
        title="The names that a masked model ranks first are its patients'",
        says="Among the names in text that a masked model generates, those that it finds likelier than the public "
        "model does are often names of patients in the training notes.",
        figure="A@100 .16 for regular notes, .84 with inserted names, and .34 for the public BERT",
        place="§6.6, table 9",
        quantity="share of the 100 highest-ranked names that members have − that held-out patients have at equal "
        "pools, in points",
        unit="points",
        measure=_ranked,
        rule=Above(),
        needs=_NEEDS,
        sizes=_SIZES,
        differs=f"{_TEXTS} If fewer than 100 names are written, all count. Intervals count names as independent, "
        f"although names after one prompt are not. {_KNOWN} {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "The 100,000 texts hold only 83 full names, and 82 belong to no patient. The member's ranks "
            "41st."
        },
        page="probes",
    ),
    Claim(
        id="L-c20",
        title="A masked model writes its patients' names, given many texts (inserted names)",
        says="Among very many texts that a masked model generates are full names of patients in its training notes, "
        "and more of them than of other patients, if each note begins with the name.",
        figure="2.65 % of the first names and 4.56 % of the last names in the texts are the data's (inserted names); "
        "full names are not counted",
        place="§6.6, table 9",
        quantity="share of patients with their full name in at least one text: members − held-out patients, in points",
        unit="points",
        measure=_inserted_patients,
        rule=Above(),
        needs=_INSERTED_NEEDS,
        sizes=_SIZES,
        differs=f"The paper counts distinct names, not patients. {_INSERTED_TEXTS} {FEW} {SYNTHETIC}",
        why={
            "holds": "12 of the 301 members are named in 68 of the texts, and none of the 129 held-out patients. These "
            "are few: 8,755 of the 8,767 names in the texts belong to neither. Where half of the notes name their "
            "patient one member was named (L-c18), but those texts have 12 tokens and not 24, and hold 83 names, so "
            "the two counts do not compare."
        },
        page="probes",
    ),
    Claim(
        id="L-c21",
        title="The names that a masked model ranks first are its patients' (inserted names)",
        says="Among the names in text that a masked model generates, those that it finds likelier than the public "
        "model does are often names of patients in the training notes, if each note begins with the name.",
        figure="A@100 .84 with inserted names, .16 for regular notes, and .34 for the public BERT",
        place="§6.6, table 9",
        quantity="share of the 100 highest-ranked names that members have − that held-out patients have at equal "
        "pools, in points",
        unit="points",
        measure=_inserted_ranked,
        rule=Above(),
        needs=_INSERTED_NEEDS,
        sizes=_SIZES,
        differs=f"{_INSERTED_TEXTS} If fewer than 100 names are written, all count. Intervals count names as "
        f"independent, although names after one prompt are not. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Four of the hundred highest-ranked names are members' and none is a held-out patient's, "
            "which chance can do. The rank finds members' names (12 of 8,767 are theirs), but far from as well as in "
            "the paper."
        },
        page="probes",
    ),
    Claim(
        id="L-c22",
        title="A masked model's texts link names with conditions (inserted names)",
        says="A text of a masked model with a patient's name has one of that patient's conditions more often than one "
        "of another patient's.",
        figure="4.17 % of sentences with a name and a condition are right (inserted names), 23.5 % for regular notes; "
        "the paper leaves open whether that is memorised",
        place="§6.6, table 9",
        quantity="share of texts with a member's name and a condition that the member has − that other members have, "
        "in points",
        unit="points",
        measure=_inserted_linked,
        rule=Above(),
        needs=_INSERTED_NEEDS,
        sizes=_SIZES,
        differs="Whole texts instead of sentences, and other members' conditions as control, which the paper lacks. "
        "Only four members are in such texts, so the interval is the whole range of their resamples, and the truth "
        f"may lie beyond. {_INSERTED_TEXTS} {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Only 15 texts pair a member's name with a condition, 12 of them the same member's. Two "
            "name a condition of this patient, where 1.6 would by chance."
        },
        page="probes",
    ),
)
