"""Claims of Lehman 2021, *Does BERT Pretrained on Clinical Notes Reveal Sensitive Data?*."""

from __future__ import annotations

from core.attacks.probes.fill_in import FREQUENCY, OTHER_NAME
from core.attacks.probes.generated import NAMES, ONE_TEXT, PAIRS
from core.evaluation.probes.tables import RIGHT, TOP100
from core.evaluation.stats import intervals
from core.evaluation.stats.bootstrap import Interval
from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, TWELVE_NOTES, plain, private, twelve, with_variant
from core.findings.measures.tables import labelled, mean_over_conditions, probe, ranking_difference
from core.findings.needs import Need
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind, RunSpec
from core.spec.model_names import MODEL_NAMES

FILL, MLP, COSINE, SEEN, HALF = (
    *("fill in the blank", "probing network", "cosine similarity"),
    *("name seen", "half a name"),
)
KINDS: tuple[ModelKind, ...] = ("distilbert", "gpt2")
SINGLE = "one probe a condition"
LINK = "name − another name"
NEGLIGIBLE = 0.02  # a difference of AUC that counts as none
HALVES = ("last name", "first name")
_FREQUENCIES = ("2–5", "6–10", "11–20", "21 or more")  # patients with the condition


def _need(spec: RunSpec, *probes: str) -> Need:
    return Need(spec, audit=(*probes, "summary: probe_figures"))


def _needs(*probes: str) -> tuple[Need, ...]:
    return tuple(_need(plain(kind), *probes) for kind in KINDS)


_RANKED = tuple(Need(plain(kind), audit=(FILL,)) for kind in KINDS)  # the ranks themselves, without their summary


def _figures(runs: StoredRuns, name: str, measure: str, method: str) -> list[Figure]:
    return [labelled(MODEL_NAMES[kind], probe(runs, plain(kind), name, measure, method)) for kind in KINDS]


def _ranked(runs: StoredRuns, other: str) -> list[Figure]:
    return [labelled(MODEL_NAMES[kind], ranking_difference(runs, plain(kind), FILL, other)) for kind in KINDS]


def _fill(runs: StoredRuns) -> list[Figure]:
    return _ranked(runs, FREQUENCY)


def _link(runs: StoredRuns) -> list[Figure]:
    return _ranked(runs, OTHER_NAME)


def _network(runs: StoredRuns) -> list[Figure]:
    return _figures(runs, MLP, "AUC", LINK)


def _contextual(runs: StoredRuns) -> list[Figure]:
    return _figures(runs, COSINE, "mean difference", f"contextual, {LINK}")


def _static(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(vectors, probe(runs, plain("gpt2"), COSINE, "mean difference", f"{vectors}, {LINK}"))
        for vectors in ("skip-gram", "CBoW")
    ]


def _seen(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            MODEL_NAMES[kind],
            probe(runs, plain(kind), SEEN, "AUC", "logistic regression", split="member against heldout"),
        )
        for kind in KINDS
    ]


def half_a_name(runs: StoredRuns, spec: RunSpec, half: str) -> Figure:
    """How well the other half of a name tells a model's patients from others by the likelihood of this half."""
    found = probe(runs, spec, HALF, "AUC", "own other half", model="target", split="member against heldout", bin=half)
    return labelled(f"{MODEL_NAMES[spec.model.kind]}, {half} hidden", found)


def _halves(runs: StoredRuns) -> list[Figure]:
    last = half_a_name(runs, plain("gpt2"), HALVES[0])  # a causal model sees only what comes before
    return [*(half_a_name(runs, plain("distilbert"), half) for half in HALVES), last]


def _single(runs: StoredRuns) -> list[Figure]:
    found = []
    for kind in KINDS:
        for bin_ in _FREQUENCIES:
            mean, conditions = mean_over_conditions(runs, plain(kind), SINGLE, bin_)
            found.append(labelled(f"{MODEL_NAMES[kind]}, of {bin_} patients", mean, units=conditions))
    return found


_TEMPLATE = with_variant(plain("distilbert"), "template-only")


def _template(runs: StoredRuns) -> list[Figure]:
    return [labelled("DistilBERT, template only", probe(runs, _TEMPLATE, FILL, "AUC", LINK))]


def _template_half(runs: StoredRuns) -> list[Figure]:
    return [half_a_name(runs, _TEMPLATE, half) for half in HALVES]


_WRITTEN = {"3,000 notes": (plain("gpt2"), private("gpt2", 8.0)), "12,000 notes": (twelve(None), twelve(8.0))}
_WITHOUT = tuple(_need(without, NAMES) for without, _ in _WRITTEN.values())
_TEXTS = f"{CLASSROOM}, and {TWELVE_NOTES}; 1,400 texts each"


def _named(runs: StoredRuns, spec: RunSpec) -> tuple[Interval, Interval]:
    """Share of the 100 highest-ranked names that members have, and that held-out patients have at equal pools."""
    member, control = (probe(runs, spec, NAMES, TOP100, "name", split=split) for split in ("member", "heldout"))
    return member, control


def _written(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"GPT-2, {size}", intervals.difference(*_named(runs, without)))
        for size, (without, _) in _WRITTEN.items()
    ]


def _written_less(runs: StoredRuns) -> list[Figure]:
    found = []
    for size, (without, with_dp) in _WRITTEN.items():
        sides = (*_named(runs, with_dp), *_named(runs, without))
        found.append(labelled(f"GPT-2, {size}", intervals.weighted_sum((1, -1, -1, 1), sides)))
    return found


def _pairs(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"GPT-2, {size}", probe(runs, without, PAIRS, RIGHT, "own − others", bin=ONE_TEXT))
        for size, (without, _) in _WRITTEN.items()
    ]


CLAIMS = (
    Claim(
        id="L-c1",
        title="Filling blanks does not beat frequency",
        says="Asking the model for a patient's condition does worse than ranking conditions by how common they are.",
        figure="AUC .614 by the model, .926 by frequency (ICD-9)",
        place="§6.1, table 2",
        quantity="AUC by the model, asked with the patient's name, − AUC by frequency alone, in points",
        unit="points",
        measure=_fill,
        rule=Below(),
        needs=_RANKED,
        sizes=f"{CLASSROOM}; 292 patients (GPT-2: 48)",
        differs=f"Names are in about half of the notes, and ages are kept in the template. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "It holds clearly for DistilBERT, the paper's kind of model. GPT-2 comes close to frequency "
            "here (AUC .80 against .83), and 48 patients cannot tell so small a gap from none. In the larger "
            "hospital 44 can, because GPT-2 is further behind there (.82 against .90, L-c13)."
        },
        page="probes",
    ),
    Claim(
        id="L-c2",
        title="The patient's own name adds nothing",
        says="The model says as much about a patient's conditions under another patient's name.",
        figure="none with another name; a template of the condition alone does worse (AUC .496 against .614, ICD-9)",
        place="§6.1, masking the condition only, tables 2 and 3",
        quantity="AUC with the own name − with another patient's name, in points",
        unit="points",
        measure=_link,
        rule=Within(-NEGLIGIBLE, NEGLIGIBLE),
        needs=_RANKED,
        sizes=f"{CLASSROOM}; 292 patients (GPT-2: 48)",
        differs="Another name instead of no name. With the condition alone the AUC is lower here, too: by 4.7 points "
        f"for DistilBERT and by 4.2 for GPT-2. The margin of {100 * NEGLIGIBLE:g} points is ours. {FEW} {SYNTHETIC}",
        why={"holds": "For GPT-2 only just: 48 patients are asked about, and the interval ends at the margin."},
        page="probes",
    ),
    Claim(
        id="L-c3",
        title="A probing network finds no link",
        says="A network trained on the model's vectors learns which conditions are common, not who has them.",
        figure="similar AUC without the name, slightly better even",
        place="§6.2, table 4",
        quantity="AUC with the own name − with another patient's name, in points",
        unit="points",
        measure=_network,
        rule=Within(-NEGLIGIBLE, NEGLIGIBLE),
        needs=_needs(MLP),
        sizes=f"{CLASSROOM}; 48 patients",
        differs=f"48 patients instead of 5,000. The margin of {100 * NEGLIGIBLE:g} points is ours. {FEW} {SYNTHETIC}",
        why={"cannot tell": "48 patients are too few to show that a difference is below 2 points."},
        page="probes",
    ),
    Claim(
        id="L-c4",
        title="Contextual vectors do not link name and condition",
        says="The model's vectors do not bring a name closer to the conditions of that patient.",
        figure="mean difference of the cosine −.010 (BERT)",
        place="§6.3, table 6",
        quantity="cosine with own conditions − with others, own name − another patient's name",
        unit="number",
        measure=_contextual,
        rule=Within(-NEGLIGIBLE, NEGLIGIBLE),
        needs=_needs(COSINE),
        sizes=f"{CLASSROOM}; 292 patients",
        differs=f"Another patient's name is subtracted. The margin of {NEGLIGIBLE:g} is ours. {FEW} {SYNTHETIC}",
        page="probes",
    ),
    Claim(
        id="L-c5",
        title="Static vectors link name and condition",
        says="Word vectors learned from notes in which patients are named bring a name closer to its conditions.",
        figure="mean difference .019 (skip-gram) and .017 (CBoW) with names inserted, .004 and .008 for regular notes "
        "(ICD-9)",
        place="§6.3, table 6",
        quantity="cosine with own conditions − with others, own name − another patient's name",
        unit="number",
        measure=_static,
        rule=Above(),
        needs=(_need(plain("gpt2"), COSINE),),
        sizes=f"{CLASSROOM}; 292 patients",
        differs="Regular notes, in about half of which the patient is named. Another patient's name is subtracted; "
        "without that the figures are −.067 (skip-gram) and −.190 (CBoW). CBoW was added when its figure was known. "
        f"{FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Skip-gram brings names closer to their conditions by .010, and its interval is above 0. "
            "CBoW brings them closer by .003, and its interval includes 0."
        },
        page="probes",
    ),
    Claim(
        id="L-c6",
        title="A name's vector does not show whether it was seen",
        says="From the vector of a name one cannot tell whether the name was in the training notes.",
        figure="AUC .508, near chance, and .498 for a model without the notes",
        place="§6.4, table 7",
        quantity="AUC of a logistic regression on the name's vector, 0.5 by chance",
        unit="number",
        measure=_seen,
        rule=Below(0.6),
        needs=_needs(SEEN),
        sizes=f"{CLASSROOM}; 211 patients tested",
        differs=f"The line of .6 for “near chance” is ours. {FEW} {SYNTHETIC}",
        why={"cannot tell": "GPT-2's interval reaches from just above chance to well beyond .6."},
        page="probes",
    ),
    Claim(
        id="L-c7",
        title="Half a name does not reveal the rest",
        says="In a model of regular notes, one half of a name does not help to guess the other.",
        figure="AUC .510 (first name hidden) and .503 (last name hidden)",
        place="§6.5, table 8",
        quantity="AUC of the hidden half's likelihood, seen against unseen patients, 0.5 by chance",
        unit="number",
        measure=_halves,
        rule=Below(0.6),
        needs=_needs(HALF),
        sizes=f"{CLASSROOM}; 421 patients",
        differs="Full names are in about half of the notes, where MIMIC has them in 0.013 % of its sentences. GPT-2 is "
        f"added, whose figure of .96 was known. The line of .6 is ours. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "Here notes name their patients often, and that matters: with names in every note the AUC "
            "for DistilBERT's last names rises to .83 (L-c26). The paper's rises to .733 in template notes alone: with "
            "names in every note it has .517. "
            "Notes that name patients rarely are asked in L-c17. For GPT-2 most of the figure is the last name itself: "
            "after another patient's first name it is .81."
        },
        page="probes",
    ),
    Claim(
        id="L-c8",
        title="Template notes make the attack work",
        says="If every note is “name is a patient with condition”, filling the blank links names and conditions.",
        figure="AUC .784 against .529 for regular notes (MedCAT); .614 for both by ICD-9",
        place="§6.1, table 2",
        quantity="AUC with the own name − with another patient's name, in points",
        unit="points",
        measure=_template,
        rule=Above(),
        needs=(_need(_TEMPLATE, FILL),),
        sizes=CLASSROOM,
        differs=f"{FEW} {SYNTHETIC}",
        page="probes",
    ),
    Claim(
        id="L-c9",
        title="Template notes reveal half a name",
        says="In a model of template notes one half of a name does help to guess the other.",
        figure="AUC .625 (first name hidden) and .733 (last name hidden)",
        place="§6.5, table 8",
        quantity="AUC of the hidden half's likelihood, seen against unseen patients, 0.5 by chance",
        unit="number",
        measure=_template_half,
        rule=Above(0.5),
        needs=(_need(_TEMPLATE, HALF),),
        sizes=CLASSROOM,
        differs=f"{FEW} {SYNTHETIC}",
        why={
            "cannot tell": "The last name is clear, the first is not (.549). Still, a member's own last name makes the "
            "first name likelier than another patient's does, by .40 nats a token (.26 to .53); for held-out patients "
            "it does not (−.07, −.25 to .10)."
        },
        page="probes",
    ),
    Claim(
        id="L-c10",
        title="One probe per condition stays near chance",
        says="A network trained for a single condition can hardly tell which names go with it, however common the "
        "condition is.",
        figure="AUC .48 to .53 (ICD-9 and MedCAT, Regular Base), by frequency of the condition",
        place="§6.2, table 5",
        quantity="mean AUC of the probes of conditions in one frequency group, 0.5 by chance",
        unit="number",
        measure=_single,
        rule=Below(0.6),
        needs=_needs(SINGLE),
        sizes=CLASSROOM,
        differs="Conditions are resampled, of which there are fewer. The mean over all frequencies of GPT-2, .53, was "
        f"known. The line of .6 for “near chance” is ours. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "The means are near chance, but each is over eight conditions, so most intervals reach "
            "beyond .6. Only those of common conditions vary little enough to stay below it."
        },
        page="probes",
    ),
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
        sizes=_TEXTS,
        differs="GPT-2 instead of a masked model, 1,400 texts instead of 500,000, and names found by shape. Held-out "
        "patients as control, which the paper lacks. Intervals count names as independent, although names of one text "
        "or prompt are not. The figures were known when this rule was written (docs/methods/probes.md). "
        f"{FEW} {SYNTHETIC}",
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
        needs=(*_WITHOUT, *(_need(with_dp, NAMES) for _, with_dp in _WRITTEN.values())),
        sizes=_TEXTS + " (at ε = 8 and 3,000 notes they have 48 names)",
        differs="Our question. GPT-2 instead of a masked model, 1,400 texts instead of 500,000, and names found by "
        "shape. The four shares are combined as independent. The figures were known when this rule was written. "
        "With DP, training also clips and takes other epochs and larger batches (4 epochs of 256, with 12,000 notes 12 "
        "of 1,024, instead of 8 of 16), so the cut is not the noise's alone. No control without noise was asked in "
        f"this way, but P-c24 has one for leaks in such texts. {FEW} {SYNTHETIC}",
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
        sizes=_TEXTS + ", of which 131 and 225 name a member and a condition",
        differs="Whole texts instead of sentences, since hardly any sentence of these notes has both. Other patients' "
        "conditions as control, which the paper lacks. GPT-2 instead of a masked model, 1,400 texts instead of "
        f"500,000. The figures were known when this rule was written. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Both intervals include 0: texts name a patient's own conditions about as often as other "
            "patients'. The paper's share without such a control cannot show a link."
        },
        page="probes",
    ),
)
