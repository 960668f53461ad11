"""Claims on when the ratio beats the loss: by length, and by what the reference knows (Mireshghallah 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from core.attacks.membership.decision import LOSS, RATIO
from core.findings.claim import Claim, Figure
from core.findings.claims.again.public_notes import BOTH, DIFFERS, SIZES, attacked
from core.findings.claims.again.public_notes_ratio import VERY_SHORT
from core.findings.claims.mireshghallah import AUC, COMPARED, DOMAIN, LATER, MASKED, REFERENCE, side
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, TWELVE, of, plain, twelve
from core.findings.measures.attacks import difference
from core.findings.measures.difficulty import Pair, advantage_against_spread, spread_left
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec
from core.spec.model_names import MODEL_NAMES

_LENGTHS = ("short", "long")
_REFERENCES = {"similar text": DOMAIN, "public model": RATIO}
_MODELS = (plain("distilbert"), plain("gpt2"))
_BY_BOTH = (LOSS, *_REFERENCES.values())
_NEEDS = (*(Need(spec, audit=_BY_BOTH) for spec in (*_MODELS, twelve(None))), *attacked(*BOTH, attacks=_BY_BOTH))


def _apart(runs: StoredRuns, spec: RunSpec, length: str) -> Pair:
    return side(runs, spec, DOMAIN, length=length), side(runs, spec, LOSS, length=length)


def _by_length(runs: StoredRuns) -> list[Figure]:
    names = {**{of(spec): spec for spec in COMPARED}, "GPT-2, 12,000 notes": twelve(None)}
    return [
        labelled(f"{name}, {length}", difference(*_apart(runs, spec, length)))
        for name, spec in names.items()
        for length in _LENGTHS
    ]


def _reports_by_length(runs: StoredRuns) -> list[Figure]:
    found = []
    for spec in BOTH:
        name = MODEL_NAMES[spec.model.kind]
        ratio, loss = (replace(one, most_tokens=VERY_SHORT) for one in _apart(runs, spec, "all"))
        found.append(labelled(f"{name}, at most {VERY_SHORT} tokens", difference(ratio, loss)))
        for length in _LENGTHS:
            found.append(labelled(f"{name}, {length}", difference(*_apart(runs, spec, length))))
    return found


def _left_on_reports(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{MODEL_NAMES[spec.model.kind]}, {name}",
            spread_left(side(runs, spec, attack).scores, side(runs, spec, LOSS).scores),
        )
        for spec in BOTH
        for name, attack in _REFERENCES.items()
    ]


def _pairs(runs: StoredRuns, *specs: RunSpec) -> list[Pair]:
    return [
        (side(runs, spec, attack, length=length), side(runs, spec, LOSS, length=length))
        for spec in specs
        for attack in _REFERENCES.values()
        for length in _LENGTHS
    ]


def _related(runs: StoredRuns, *, member: bool) -> list[Figure]:
    synthetic, reports = [_pairs(runs, *_MODELS), _pairs(runs, twelve(None))], [_pairs(runs, *BOTH)]
    groups: dict[str, Sequence[Sequence[Pair]]] = {
        "all 20": [*synthetic, *reports],
        "the 12 of synthetic notes": synthetic,
        "the 8 of public reports": reports,
    }
    return [labelled(name, advantage_against_spread(pairs, member=member)) for name, pairs in groups.items()]


def _related_by_others(runs: StoredRuns) -> list[Figure]:
    return _related(runs, member=False)


def _related_by_members(runs: StoredRuns) -> list[Figure]:
    return _related(runs, member=True)


_KNOWN = "The figures were known when this rule was chosen"
_TABLE_3 = "ratio .830 against loss .516 (short), .900 against .662 (long)"
_RELATED = (
    "Spearman's ρ between AUC by ratio − by loss and the standard deviation of the ratio / of the loss over {notes}; "
    "20 points: five models, two references, short and long notes"
)
_RELATED_SIZES = f"{CLASSROOM}, DistilBERT and GPT-2; {TWELVE}, GPT-2; {SIZES}, both models"
_RELATED_DIFFERS = (
    "The paper compares no such points. They are few and not independent: a model's short and long notes, and its two "
    f"references, are four of them. Intervals are over patients, with the points fixed. {_KNOWN}. {FEW}"
)

CLAIMS = (
    Claim(
        id="M-c45",
        title="Ratio beats loss among short and among long notes",
        says="Comparing with a reference finds members better than the loss does, among short samples and among long "
        "ones. M-c1, M-c2 and M-c19 ask this about all notes at once.",
        figure=_TABLE_3,
        place="§4.2, table 3",
        quantity=f"{AUC}: ratio to a reference of the same hospital − loss, the same notes, short and long ones apart",
        unit="points",
        measure=_by_length,
        rule=Above(),
        needs=(
            *(Need(spec, audit=(LOSS, DOMAIN)) for spec in (*MASKED, plain("gpt2"), twelve(None))),
            *(Need(spec, scores=True) for spec in LATER),
        ),
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs="Short is up to the median length of the notes (64 to 68 tokens), not 10 to 20 tokens. GPT-2 is added. "
        f"{REFERENCE}On seeds 1 and 2 of GPT-2 the ratio has the reference of seed 0's audit. {_KNOWN}, but for "
        f"DistilBERT's on seeds 1 and 2. The larger hospital has one training. {SYNTHETIC}",
        why={
            "does not hold": "GPT-2's ratio is behind in both halves: by 17 points among short notes and by 6 among "
            "long ones. On 12,000 notes it is further behind among the long ones (16 points against 12), and "
            "DistilBERT's intervals include 0. So length changes how much the ratio loses, and not in one direction. "
            "It does not explain that it loses: among public reports of all lengths the ratio wins (M-c46). M-c48 and "
            "M-c49 ask what spread the reference leaves."
        },
        page="membership",
    ),
    Claim(
        id="M-c46",
        title="Ratio beats loss among short and among long notes (public reports)",
        says="Comparing with a reference finds members better than the loss does, among short samples and among long "
        "ones. M-c45 asks this about synthetic notes.",
        figure=_TABLE_3,
        place="§4.2, table 3",
        quantity=f"{AUC}: ratio to a reference of other reports − loss, the same notes, by length",
        unit="points",
        measure=_reports_by_length,
        rule=Above(),
        needs=attacked(*BOTH, attacks=(LOSS, DOMAIN)),
        sizes=SIZES + f"; about 400 of them have at most {VERY_SHORT} tokens",
        differs="Short is up to the median length of the notes (176 and 179 tokens), not 10 to 20 tokens, and at most "
        f"{VERY_SHORT} tokens. A small reference. {_KNOWN}. {DIFFERS} {FEW}",
        why={
            "holds": "It wins also among reports of at most 60 tokens, which are as short as the shorter half of the "
            "synthetic notes, where it does not (M-c45): AUC .928 against .773 under GPT-2 and .786 against .582 under "
            "DistilBERT (computed afterwards, without intervals). So it is not length that sets the two apart."
        },
        page="membership",
    ),
    Claim(
        id="M-c47",
        title="A reference takes variation out of the loss (public reports)",
        says="The reference explains away that some samples are harder than others, so among samples that were not in "
        "the training data the ratio varies less than the loss. M-c22 and M-c23 ask this about synthetic notes.",
        figure="the reason the paper gives, without a figure",
        place="§1; §4.1; appendix A.3.4",
        quantity="standard deviation of the ratio / of the loss, over notes that the model never read, for each of two "
        "references: of 420 other reports, and the public model",
        unit="ratio",
        measure=_left_on_reports,
        rule=Below(1.0),
        needs=attacked(*BOTH, attacks=_BY_BOTH),
        sizes=SIZES,
        differs="Our test of the paper's explanation. Small references. The figures of the first reference were known "
        f"(M-c33, M-c34). {DIFFERS} {FEW}",
        why={
            "holds": "The reference of other reports leaves .35 and .37 of the spread, the public model .96. On "
            "synthetic notes GPT-2's references do not take variation out: they leave 1.04 to 1.42 times the spread "
            "(M-c23)."
        },
        page="membership",
    ),
    Claim(
        id="M-c48",
        title="The ratio wins where the reference leaves little spread",
        says="The reference explains away that some samples are harder than others. So the more of the loss's spread "
        "among samples never read it takes out, the more the ratio gains over the loss.",
        figure="the reason the paper gives, without a figure",
        place="§1; §4.1; appendix A.3.4",
        quantity=_RELATED.format(notes="notes that the model never read"),
        unit="number",
        measure=_related_by_others,
        rule=Below(),
        needs=_NEEDS,
        sizes=_RELATED_SIZES,
        differs=f"Our test of the paper's explanation. {_RELATED_DIFFERS}",
        why={
            "holds": "Among the points of synthetic notes the relation is weak. There DistilBERT's reference of other "
            "patients leaves .82 of the spread among long notes never read, and the ratio is 4 points behind the loss "
            "all the same; among short notes it leaves 1.45 times the spread, and the ratio is 1 point ahead (without "
            "intervals). The interval is about other patients, with these twelve pairs fixed: as a sample of pairs "
            "twelve would be few. M-c49 shows what is missing."
        },
        page="membership",
    ),
    Claim(
        id="M-c49",
        title="The ratio wins where the reference leaves little spread among trained notes",
        says="A model that has learned its notes finds them about equally easy. A reference that has not read them "
        "brings their difficulty in again. So the less the ratio varies among trained notes, compared with the loss, "
        "the more it gains: our explanation, in addition to that of M-c48.",
        figure="none; the paper looks at samples that were not in the training data",
        place="§1; §4.1; appendix A.3.4",
        quantity=_RELATED.format(notes="the notes that were trained on"),
        unit="number",
        measure=_related_by_members,
        rule=Below(),
        needs=_NEEDS,
        sizes=_RELATED_SIZES,
        differs=f"Our question. {_RELATED_DIFFERS}",
        why={
            "holds": "Among the synthetic notes that it was trained on, GPT-2's loss hardly varies (standard deviation "
            ".21 nats a token, .63 among notes never read). So what the reference of the same hospital adds comes in "
            "nearly whole, and the ratio varies 4.5 times as much; on 12,000 notes 3.9 times, under DistilBERT 2.0 "
            "times. On public reports it varies .59 and .44 times as much as the loss (computed afterwards, without "
            "intervals). An AUC depends on both spreads, so some relation was to be expected."
        },
        page="membership",
    ),
)
