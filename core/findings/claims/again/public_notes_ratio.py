"""Claims of Mireshghallah 2022 asked again about public reports, which were not generated here."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS, RATIO
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.again.public_notes import BOTH, DIFFERS, KINDS, REPORTS, SIZES, attacked, side
from core.findings.claims.mireshghallah import AUC, DOMAIN
from core.findings.experiments import FEW, of_public_notes
from core.findings.measures.attacks import Measure, auc, caught_at, difference
from core.findings.measures.predictors import predictors_apart
from core.findings.measures.tables import labelled
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
    asked_again(
        "M-c1",
        "M-c33",
        *REPORTS,
        quantity=f"{AUC}: ratio to a reference of other reports − loss, the same notes",
        measure=_masked,
        needs=attacked(of_public_notes("distilbert"), attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"A small reference instead of PubMedBERT, which read 4 billion words. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c2",
        "M-c34",
        *REPORTS,
        quantity=f"{AUC}: ratio to a reference of other reports − loss, the same notes",
        measure=_causal_ratio,
        needs=attacked(of_public_notes("gpt2"), attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"Our question, not the paper's. A small reference. {DIFFERS} {FEW}",
        why={
            "holds": "AUC .689 by the loss, .894 by the ratio: nearly the paper's step for masked models. Real reports "
            "differ far more in how hard they are. Among those never read, the reference leaves .35 of the spread of "
            "the loss, against 1.20 times on synthetic notes (M-c23); this was computed afterwards, without an "
            "interval."
        },
    ),
    asked_again(
        "M-c3",
        "M-c35",
        *REPORTS,
        measure=_low_rate,
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"The threshold is set on the evaluated others. A small reference. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c4",
        "M-c36",
        *REPORTS,
        measure=_lengths,
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES,
        differs="Short is up to the median length of the notes, not 10 to 20 tokens. Most notes are nearly 100 words "
        f"long. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c5",
        "M-c37",
        *REPORTS,
        quantity=f"{AUC}: by report − by note, the same attack",
        measure=_levels,
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES,
        differs=f"About six notes a report. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c6",
        "M-c38",
        *REPORTS,
        quantity=f"{AUC}: reference of other reports − public base model as reference, the same notes",
        measure=_references,
        needs=attacked(*BOTH, attacks=(RATIO, DOMAIN)),
        sizes=SIZES + "; the reference was trained on 420 other reports",
        differs=f"The general one has read abstracts of medical papers. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c18",
        "M-c39",
        *REPORTS,
        says="The number of non-alphanumeric characters is the best single predictor of memorised samples. M-c18 asks "
        "this about synthetic notes.",
        quantity="AUC of predicting memorised notes of other reports, in points: characters − another feature",
        measure=_best_feature_masked,
        needs=attacked(of_public_notes("distilbert"), attacks=(_FEATURES,)),
        sizes=SIZES,
        differs=f"AUC instead of precision. {DIFFERS} {FEW}",
    ),
    asked_again(
        "M-c31",
        "M-c40",
        *REPORTS,
        title="Special characters predict memorisation best in GPT-2 (public reports)",
        says="The number of non-alphanumeric characters is the best single predictor of memorised samples. M-c31 asks "
        "this about synthetic notes.",
        quantity="AUC of predicting memorised notes of other reports, in points: characters − another feature",
        measure=_best_feature_causal,
        needs=attacked(of_public_notes("gpt2"), attacks=(_FEATURES,)),
        sizes=SIZES,
        differs=f"GPT-2 instead of a masked model. AUC instead of precision. {DIFFERS} {FEW}",
        why={
            "does not hold": "Rare tokens predict better. Special characters are about as good as length, and better "
            "than digits. On synthetic notes it was digits that were better (M-c31)."
        },
    ),
)
