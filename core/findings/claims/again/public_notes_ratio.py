"""Claims of Mireshghallah 2022 asked again about public reports, which were not generated here."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS, RATIO
from core.findings.claim import Claim, Figure
from core.findings.claims.again.public_notes import BOTH, DIFFERS, KINDS, SIZES, attacked, side
from core.findings.claims.mireshghallah import AUC, DOMAIN
from core.findings.experiments import FEW, of_public_notes
from core.findings.measures.attacks import Measure, auc, caught_at, difference
from core.findings.measures.predictors import predictors_apart
from core.findings.measures.tables import labelled
from core.findings.rules import Above
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind
from core.spec.model_names import MODEL_NAMES

_FEATURES = "memorised notes"
_C, _OTHERS = "C: other characters", ("A: digits", "B: length", "D: three rarest tokens")


def _ratio_minus_loss(kind: ModelKind, measure: Measure, runs: StoredRuns) -> list[Figure]:
    sides = [side(runs, of_public_notes(kind), attack) for attack in (DOMAIN, LOSS)]
    return [labelled(f"{MODEL_NAMES[kind]}, ratio − loss", difference(sides[0], sides[1], measure))]


def _masked(runs: StoredRuns) -> list[Figure]:
    return _ratio_minus_loss("distilbert", auc, runs)


def _causal_ratio(runs: StoredRuns) -> list[Figure]:
    return _ratio_minus_loss("gpt2", auc, runs)


def _low_rate(runs: StoredRuns) -> list[Figure]:
    return [one for kind in KINDS for one in _ratio_minus_loss(kind, caught_at(0.01), runs)]


def _lengths(runs: StoredRuns) -> list[Figure]:
    found = []
    for kind in KINDS:
        for attack in (DOMAIN, LOSS):
            long, short = (side(runs, of_public_notes(kind), attack, length=length) for length in ("long", "short"))
            found.append(labelled(f"{MODEL_NAMES[kind]}, {attack}", difference(long, short)))
    return found


def _levels(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{MODEL_NAMES[kind]}, {attack}",
            difference(side(runs, of_public_notes(kind), attack, "patient"), side(runs, of_public_notes(kind), attack)),
        )
        for kind in KINDS
        for attack in (DOMAIN, LOSS)
    ]


def _references(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            MODEL_NAMES[kind],
            difference(side(runs, of_public_notes(kind), DOMAIN), side(runs, of_public_notes(kind), RATIO)),
        )
        for kind in KINDS
    ]


def _best_feature(kind: ModelKind, runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{MODEL_NAMES[kind]}, C − {other}", predictors_apart(runs, of_public_notes(kind), _C, other))
        for other in _OTHERS
    ]


def _best_feature_masked(runs: StoredRuns) -> list[Figure]:
    return _best_feature("distilbert", runs)


def _best_feature_causal(runs: StoredRuns) -> list[Figure]:
    return _best_feature("gpt2", runs)


CLAIMS = (
    Claim(
        id="M-c33",
        title="Ratio beats loss on masked models (public reports)",
        says="Comparing with a reference model finds members of a masked model far better than the loss alone. M-c1 "
        "asks this about synthetic notes.",
        figure="AUC .662 → .900",
        place="§4.1, table 2",
        quantity=f"{AUC}: ratio to a reference of other reports − loss, the same notes",
        unit="points",
        measure=_masked,
        rule=Above(),
        needs=attacked(of_public_notes("distilbert"), attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"A small reference instead of PubMedBERT, which read 4 billion words. {DIFFERS} {FEW}",
        page="membership",
    ),
    Claim(
        id="M-c34",
        title="Ratio beats loss on causal models too (public reports)",
        says="The same comparison helps against GPT-2, which the paper does not try. M-c2 asks this about synthetic "
        "notes.",
        figure="none for causal models; .662 → .900 for masked ones",
        place="§4.1, table 2",
        quantity=f"{AUC}: ratio to a reference of other reports − loss, the same notes",
        unit="points",
        measure=_causal_ratio,
        rule=Above(),
        needs=attacked(of_public_notes("gpt2"), attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"Our question, not the paper's. A small reference. {DIFFERS} {FEW}",
        why={
            "holds": "AUC .689 by the loss, .894 by the ratio: nearly the paper's step for masked models. Real reports "
            "differ far more in how hard they are. Among those never read, the reference leaves .35 of the spread of "
            "the loss, against 1.20 times on synthetic notes (M-c23); this was computed afterwards, without an "
            "interval."
        },
        page="membership",
    ),
    Claim(
        id="M-c35",
        title="At 1 % false alarms the ratio wins clearly (public reports)",
        says="Where few may be accused by mistake, the ratio is many times as powerful as the loss. M-c3 asks this "
        "about synthetic notes.",
        figure="51 times as many members found at a false-positive rate of 1 %",
        place="§1; appendix A.3.1, table 10",
        quantity="share of member notes found at 1 % of the others accused: ratio − loss, in points",
        unit="points",
        measure=_low_rate,
        rule=Above(),
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"The threshold is set on the evaluated others. A small reference. {DIFFERS} {FEW}",
        page="membership",
    ),
    Claim(
        id="M-c36",
        title="Long notes leak more than short ones (public reports)",
        says="Both attacks find longer samples more easily. M-c4 asks this about synthetic notes.",
        figure="ratio .900 long against .830 short; loss .662 against .516",
        place="§4.2, table 3",
        quantity=f"{AUC}: long notes − short notes, the same attack",
        unit="points",
        measure=_lengths,
        rule=Above(),
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES,
        differs="Short is up to the median length of the notes, not 10 to 20 tokens. Most notes are nearly 100 words "
        f"long. {DIFFERS} {FEW}",
        page="membership",
    ),
    Claim(
        id="M-c37",
        title="Patients are easier than notes (public reports)",
        says="Whether a patient is in the training data is easier to tell than whether a single note is. M-c5 asks "
        "this about synthetic notes.",
        figure="ratio .992 by patient, .900 by sample; loss .915 and .662",
        place="§4.1, table 2",
        quantity=f"{AUC}: by report − by note, the same attack",
        unit="points",
        measure=_levels,
        rule=Above(),
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES,
        differs=f"About six notes a report. {DIFFERS} {FEW}",
        page="membership",
    ),
    Claim(
        id="M-c38",
        title="A reference from the domain is better (public reports)",
        says="A reference trained on similar text makes a stronger attack than a general one. M-c6 asks this about "
        "synthetic notes.",
        figure="AUC .900 (PubMedBERT) against .883 (BERT)",
        place="§4.3, table 5",
        quantity=f"{AUC}: reference of other reports − public base model as reference, the same notes",
        unit="points",
        measure=_references,
        rule=Above(),
        needs=attacked(*BOTH, attacks=(RATIO, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"The general one has read abstracts of medical papers. {DIFFERS} {FEW}",
        page="membership",
    ),
    Claim(
        id="M-c39",
        title="Special characters predict memorisation best in a masked model (public reports)",
        says="The number of non-alphanumeric characters is the best single predictor of memorised samples. M-c18 asks "
        "this about synthetic notes.",
        figure="precision 69.2 %, against 63.8 % for rare tokens and 0 % for digits and length",
        place="§4.4, table 7",
        quantity="AUC of predicting memorised notes of other reports, in points: characters − another feature",
        unit="points",
        measure=_best_feature_masked,
        rule=Above(),
        needs=attacked(of_public_notes("distilbert"), attacks=(_FEATURES,)),
        sizes=SIZES,
        differs=f"AUC instead of precision. {DIFFERS} {FEW}",
        page="canaries",
    ),
    Claim(
        id="M-c40",
        title="Special characters predict memorisation best in GPT-2 (public reports)",
        says="The number of non-alphanumeric characters is the best single predictor of memorised samples. M-c31 asks "
        "this about synthetic notes.",
        figure="precision 69.2 %, against 63.8 % for rare tokens and 0 % for digits and length",
        place="§4.4, table 7",
        quantity="AUC of predicting memorised notes of other reports, in points: characters − another feature",
        unit="points",
        measure=_best_feature_causal,
        rule=Above(),
        needs=attacked(of_public_notes("gpt2"), attacks=(_FEATURES,)),
        sizes=SIZES,
        differs=f"GPT-2 instead of a masked model. AUC instead of precision. {DIFFERS} {FEW}",
        why={
            "does not hold": "Rare tokens predict better. Special characters are about as good as length, and better "
            "than digits. On synthetic notes it was digits that were better (M-c31)."
        },
        page="canaries",
    ),
)
