"""Claims of Lehman 2021, *Does BERT Pretrained on Clinical Notes Reveal Sensitive Data?*."""

from __future__ import annotations

from core.attacks.probes.fill_in import FREQUENCY, NAME, OTHER_NAME
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, LATER_SEEDS, SYNTHETIC, of, plain, with_variant
from core.findings.measures.tables import labelled, mean_over_conditions, probe, ranking_difference
from core.findings.needs import Need
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind, RunSpec

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


def need(spec: RunSpec, *probes: str) -> Need:
    """A run, and the summary of these probes on it."""
    return Need(spec, audit=(*probes, "summary: probe_figures"))


_RUNS = tuple(plain(kind, seed) for kind in KINDS for seed in SEEDS)


def _needs(*probes: str) -> tuple[Need, ...]:
    return tuple(need(spec, *probes) for spec in _RUNS)


# The ranks themselves, which are a megabyte, and of later seeds the figures in the summary, of 1,000 resamples
_RANKED = (
    *(Need(plain(kind), audit=(FILL,)) for kind in KINDS),
    *(need(spec, FILL) for spec in _RUNS if spec.training.seed),
)


def _figures(runs: StoredRuns, name: str, measure: str, method: str) -> list[Figure]:
    return [labelled(of(spec), probe(runs, spec, name, measure, method)) for spec in _RUNS]


def _ranked(runs: StoredRuns, other: str) -> list[Figure]:
    found = []
    for spec in _RUNS:
        if spec.training.seed:
            found.append(labelled(of(spec), probe(runs, spec, FILL, "AUC", f"{NAME} − {other}")))
        else:
            found.append(labelled(of(spec), ranking_difference(runs, spec, FILL, other)))
    return found


def _fill(runs: StoredRuns) -> list[Figure]:
    return _ranked(runs, FREQUENCY)


def _link(runs: StoredRuns) -> list[Figure]:
    return _ranked(runs, OTHER_NAME)


def _network(runs: StoredRuns) -> list[Figure]:
    return _figures(runs, MLP, "AUC", LINK)


def _contextual(runs: StoredRuns) -> list[Figure]:
    return _figures(runs, COSINE, "mean difference", f"contextual, {LINK}")


def _static(runs: StoredRuns) -> list[Figure]:
    # learned from the notes, which are the same whatever the model's seed
    return [
        labelled(vectors, probe(runs, plain("gpt2"), COSINE, "mean difference", f"{vectors}, {LINK}"))
        for vectors in ("skip-gram", "CBoW")
    ]


def _seen(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(of(spec), probe(runs, spec, SEEN, "AUC", "logistic regression", split="member against heldout"))
        for spec in _RUNS
    ]


def half_a_name(runs: StoredRuns, spec: RunSpec, half: str) -> Figure:
    """How well the other half of a name tells a model's patients from others by the likelihood of this half."""
    found = probe(runs, spec, HALF, "AUC", "own other half", model="target", split="member against heldout", bin=half)
    return labelled(f"{of(spec)}, {half} hidden", found)


def _halves(runs: StoredRuns) -> list[Figure]:
    masked = [half_a_name(runs, plain("distilbert", seed), half) for seed in SEEDS for half in HALVES]
    # a causal model sees only what comes before
    return [*masked, *(half_a_name(runs, plain("gpt2", seed), HALVES[0]) for seed in SEEDS)]


def _single(runs: StoredRuns) -> list[Figure]:
    found = []
    for spec in _RUNS:
        for bin_ in _FREQUENCIES:
            mean, conditions = mean_over_conditions(runs, spec, SINGLE, bin_)
            found.append(labelled(f"{of(spec)}, of {bin_} patients", mean, units=conditions))
    return found


_TEMPLATE = tuple(with_variant(plain("distilbert", seed), "template-only") for seed in SEEDS)


def _template(runs: StoredRuns) -> list[Figure]:
    return [labelled(of(spec), probe(runs, spec, FILL, "AUC", LINK)) for spec in _TEMPLATE]


def _template_half(runs: StoredRuns) -> list[Figure]:
    return [half_a_name(runs, spec, half) for spec in _TEMPLATE for half in HALVES]


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
        differs="Names are in about half of the notes, and ages are kept in the template. On seeds 1 and 2 "
        f"intervals rest on 1,000 resamples. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "It holds clearly for DistilBERT, the paper's kind of model. GPT-2 comes close to frequency "
            "here (2.5 to 3.2 points behind), and 48 patients cannot tell so small a gap from none. In the larger "
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
        differs="Another name instead of no name. On seeds 1 and 2 intervals rest on 1,000 resamples. With the "
        "condition alone the AUC is lower here, too: by 4.7 points for DistilBERT and by 4.2 for GPT-2 (seed 0). "
        f"The margin of {100 * NEGLIGIBLE:g} points is ours. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "For DistilBERT it holds on every seed. GPT-2's differences are below half a point, too, "
            "but only 48 patients are asked about, and two of three intervals reach beyond the margin. With seed 0 "
            "alone it held, only just."
        },
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
        differs=f"48 patients instead of 5,000. The margin of {100 * NEGLIGIBLE:g} points is ours. "
        f"{LATER_SEEDS} {SYNTHETIC}",
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
        differs=f"Another patient's name is subtracted. The margin of {NEGLIGIBLE:g} is ours and has two sides; the "
        f"paper's sentence rules out closer vectors alone. {LATER_SEEDS} {SYNTHETIC}",
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
        needs=(need(plain("gpt2"), COSINE),),
        sizes=f"{CLASSROOM}; 292 patients",
        differs="Regular notes, in about half of which the patient is named. Another patient's name is subtracted; "
        "without that the figures are −.067 (skip-gram) and −.190 (CBoW). CBoW was added when its figure was known. "
        f"The vectors do not depend on a model's seed. {SYNTHETIC}",
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
        differs=f"The line of .6 for “near chance” is ours. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "DistilBERT is near chance (.48 to .53), GPT-2 a little above it (.57 to .62), and with 211 "
            "patients only one of six intervals stays below .6."
        },
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
        sizes=f"{CLASSROOM}; the 292 members whom a training note names, and all 129 others",
        differs="Full names are in about half of the notes, where MIMIC has them in 0.013 % of its sentences. GPT-2 is "
        f"added; its figure of .96 was known. The line of .6 is ours. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "does not hold": "Here notes name their patients often, and that matters: with names in every note the AUC "
            "for DistilBERT's last names rises to .83 (L-c26). The paper's rises to .733 in template notes alone: with "
            "names before every sentence it has .517. "
            "Notes that name patients rarely are asked in L-c17. For GPT-2 most of the figure is the last name itself: "
            "after another patient's first name it is .81 (seed 0)."
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
        needs=tuple(need(spec, FILL) for spec in _TEMPLATE),
        sizes=CLASSROOM,
        differs=f"{LATER_SEEDS} {SYNTHETIC}",
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
        needs=tuple(need(spec, HALF) for spec in _TEMPLATE),
        sizes=CLASSROOM,
        differs=f"{LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "Both halves are above chance on every seed (last names .58 to .64, first names .55 to "
            ".61), but three of six intervals include .5. Still, on seed 0 a member's own last name makes the first "
            "name likelier than another patient's does, by .40 nats a token (.26 to .53); for held-out patients it "
            "does not (−.07, −.25 to .10)."
        },
        page="probes",
    ),
    Claim(
        id="L-c10",
        title="One probe per condition stays near chance",
        says="A network trained for a single condition can hardly tell which names go with it, however common the "
        "condition is, except for the rarest (fewer than five patients).",
        figure="AUC .48 to .53 (ICD-9 and MedCAT, Regular Base), by frequency of the condition",
        place="§6.2, table 5",
        quantity="mean AUC of the probes of conditions in one frequency group, 0.5 by chance",
        unit="number",
        measure=_single,
        rule=Below(0.6),
        needs=_needs(SINGLE),
        sizes=CLASSROOM,
        differs="Conditions are resampled, of which there are fewer. The mean over all frequencies of GPT-2, .53, was "
        f"known. The line of .6 for “near chance” is ours. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "cannot tell": "Most means are near chance, but each is over eight conditions, so nearly all of the 24 "
            "intervals reach beyond .6. Only GPT-2's of common conditions stay below it."
        },
        page="probes",
    ),
)
