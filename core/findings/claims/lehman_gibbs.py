"""Claims on names in many texts that a masked model writes by Gibbs sampling (Lehman 2021, §6.6)."""

from __future__ import annotations

from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, plain, with_variant
from core.findings.from_weights.written_links import NAME as LINKS
from core.findings.from_weights.written_names import NAME
from core.findings.measures.names import highest_ranked, linked, patients_written
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.stored_runs import StoredRuns

_NEEDS = (Need(plain("distilbert"), measured=(NAME,)),)
_SIZES = f"{CLASSROOM}; 100,000 texts"
_TEXTS = (
    "100,000 texts of 12 tokens after eight prompts that ask for a name instead of 500,000 of 100 tokens, and full "
    "names found by shape instead of a tagger. Held-out patients as control, which the paper lacks."
)
_KNOWN = "That the 1,400 texts of the audit hold no member's full name was known (docs/methods/recipe.md)."


_INSERTED = with_variant(plain("distilbert"), "name-insertion")
_INSERTED_NEEDS = (Need(_INSERTED, measured=(LINKS,)),)
_INSERTED_TEXTS = (
    "Each note begins with its patient's name, as in the paper's variant. 100,000 texts of 24 tokens after eight "
    "prompts that ask for a name instead of 500,000 of 100 tokens, and full names found by shape instead of a tagger. "
    "Held-out patients, with their names before their notes too, are the control, which the paper lacks."
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


CLAIMS = (
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
        differs=f"The paper counts distinct names, not patients. {_TEXTS} {_KNOWN} {FEW} {SYNTHETIC}",
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
            "patient one member was named (L-c18)."
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
        f"{_INSERTED_TEXTS} {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Only 15 texts pair a member's name with a condition, 12 of them the same member's. Two "
            "name a condition of this patient, where 1.6 would by chance."
        },
        page="probes",
    ),
)
