"""Claims on the ratio and the loss where notes differ more in difficulty, by training (Mireshghallah 2022)."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.claims.again.asking import again
from core.findings.claims.mireshghallah import AUC, DOMAIN, LATER, REFERENCE, side
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, TWELVE, half_generic, of, plain, twelve
from core.findings.measures.attacks import Side, change, difference
from core.findings.measures.difficulty import spread_ratio
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_PAIRS = tuple((half_generic(plain("gpt2", seed)), plain("gpt2", seed)) for seed in SEEDS)
_MORE = (half_generic(twelve(None)), twelve(None))
_BOTH = (LOSS, DOMAIN)
_GENERIC = tuple(Need(generic, audit=_BOTH) for generic, _ in _PAIRS)
_NEEDS = (*_GENERIC, Need(plain("gpt2"), audit=_BOTH), *(Need(spec, scores=True) for spec in LATER))
_LOSSES = (*(Need(generic, audit=(LOSS,)) for generic, _ in _PAIRS), Need(plain("gpt2"), audit=(LOSS,)))


def _sides(runs: StoredRuns, spec: RunSpec) -> tuple[Side, Side]:
    """The ratio and the loss on the same notes."""
    return side(runs, spec, DOMAIN), side(runs, spec, LOSS)


def _wider(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(of(usual), spread_ratio(*(side(runs, spec, LOSS).scores for spec in (generic, usual))))
        for generic, usual in _PAIRS
    ]


def _ahead(runs: StoredRuns) -> list[Figure]:
    return [labelled(of(generic), difference(*_sides(runs, generic))) for generic, _ in _PAIRS]


def _gained(runs: StoredRuns) -> list[Figure]:
    return [labelled(of(usual), change(_sides(runs, generic), _sides(runs, usual))) for generic, usual in _PAIRS]


def _ahead_of_more(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2", difference(*_sides(runs, _MORE[0])))]


def _gained_of_more(runs: StoredRuns) -> list[Figure]:
    generic, usual = (_sides(runs, spec) for spec in _MORE)
    return [labelled("GPT-2", change(generic, usual))]


_SIZES = (
    "about 3,000 notes of 301 patients, and 129 others, as `classroom` but with half of the notes generic: one or two "
    "sentences about the ward, without any detail of a patient"
)
_REASON = "the reason the paper gives, without a figure"
_PLACE = "§1; §4.1; appendix A.3.4"
_OURS = "Our experiment, which varies what the paper gives as the reason. GPT-2 instead of a masked model. "
_GENERIC_NOTES = (
    "The generic notes are shorter, and the other notes all name their patient, so that half of all notes do, as where "
    "one in twenty is generic. "
)
_DIFFERS = f"{_OURS}{REFERENCE}{_GENERIC_NOTES}The rule was fixed before any figure was known. "
_MORE_SIZES = f"{TWELVE}; half of the notes generic, as in M-c53"
_MORE_DIFFERS = (
    f"{_OURS}The reference is a model of 240 other patients of the same hospital instead of PubMedBERT. "
    f"{_GENERIC_NOTES}M-c53 to M-c55 were known when this rule was written, the figures were not. {FEW} {SYNTHETIC}"
)
_USUAL = "Without generic notes, seeds 1 and 2 have the reference of seed 0's audit. "

_FIRST = (
    Claim(
        id="M-c53",
        title="Generic notes make difficulty vary more",
        says="Some samples are harder than others for any model. This checks that the experiment of M-c54 and M-c55 "
        "does what it is for.",
        figure=_REASON,
        place=_PLACE,
        quantity="standard deviation of the loss over notes that the model never read: half of the notes generic / one "
        "in twenty, the same patients",
        unit="ratio",
        measure=_wider,
        rule=Above(1.0),
        needs=(*_LOSSES, *(Need(spec, scores=True) for spec in LATER)),
        sizes=f"{_SIZES}; and {CLASSROOM}",
        differs=f"{_DIFFERS}{SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c54",
        title="Ratio beats loss where half of the notes are generic",
        says="The more samples differ in difficulty, the more a reference should help. M-c2 asks this where one note "
        "in twenty is generic.",
        figure="AUC .662 → .900",
        place="§4.1, table 2",
        quantity=f"{AUC}: ratio to a reference of the same hospital − loss, the same notes",
        unit="points",
        measure=_ahead,
        rule=Above(),
        needs=_GENERIC,
        sizes=_SIZES,
        differs=f"{_DIFFERS}{SYNTHETIC}",
        why={
            "cannot tell": "The ratio is 1.5 to 1.7 points behind (AUC .63 against .65), and every interval includes "
            "0. Where one note in twenty is generic it is 6 points behind, and its interval excludes 0 (M-c2). M-c55 "
            "asks about the change."
        },
        page="membership",
    ),
    Claim(
        id="M-c55",
        title="The ratio gains on the loss as difficulty varies more",
        says="If a reference helps because it explains away that some samples are harder, it helps more where they "
        "differ more.",
        figure=_REASON,
        place=_PLACE,
        quantity=f"{AUC}: ratio − loss with half of the notes generic, − the same with one in twenty",
        unit="points",
        measure=_gained,
        rule=Above(),
        needs=_NEEDS,
        sizes=f"{_SIZES}; and {CLASSROOM}",
        differs=f"{_DIFFERS}{_USUAL}{SYNTHETIC}",
        why={
            "cannot tell": "The gap closes by about 4.7 points of 6.3 on each seed, as the paper's reason says, but "
            "the intervals still include 0. The reference now explains difficulty: it leaves .57 of the loss's "
            "spread among notes never read, where it left 1.20 times. Among trained notes it does the opposite, as "
            "in M-c49: the loss varies by .30 nats a token, the ratio by .95 (computed afterwards). Both AUCs are "
            "lower, .63 and .65 instead of .82 and .88: generic notes of members and of others are alike. "
            "M-c57 asks again with more patients, and there the change is clear."
        },
        page="membership",
    ),
)
_, _AHEAD, _GAINED = _FIRST
_WHERE, _BEFORE = "four times as many patients", "in a smaller hospital, where the intervals include 0"

CLAIMS = (
    *_FIRST,
    again(
        _AHEAD,
        "M-c56",
        _WHERE,
        _BEFORE,
        measure=_ahead_of_more,
        needs=(Need(_MORE[0], audit=_BOTH),),
        sizes=_MORE_SIZES,
        differs=_MORE_DIFFERS,
        why={
            "cannot tell": "The ratio is 1.6 points behind (AUC .61 against .62), as with fewer patients, and the "
            "interval still includes 0. Where one note in twenty is generic it is 8 points behind (M-c19)."
        },
    ),
    again(
        _GAINED,
        "M-c57",
        _WHERE,
        _BEFORE,
        measure=_gained_of_more,
        needs=tuple(Need(spec, audit=_BOTH) for spec in _MORE),
        sizes=f"{_MORE_SIZES}; and the same hospital with one in twenty",
        differs=_MORE_DIFFERS,
        why={
            "holds": "The paper's reason shows: the ratio is 1.6 points behind the loss instead of 7.9. The reference "
            "leaves .74 of the loss's spread among notes never read, where it left 1.04 times. It gains, but it does "
            "not win (M-c56): among trained notes the ratio varies 3.3 times as much as the loss, as in M-c49 "
            "(computed afterwards)."
        },
    ),
)
