"""Figures that only “Which ε?” uses, computed from the scores or figures of several attacks or runs; not stored."""

from __future__ import annotations

import math
from typing import Any

from core.evaluation.figures.audit import DIFFERENCES, PATIENTS_RESAMPLED, SHARES
from core.evaluation.figures.record import AUC, SHARE, Basis, Direction, Figure, Limit

UTILITY = "utility_share"

DIFFERENCE = "MOVER, from both Wilson intervals (Zou & Donner 2008)"
WIDENED = f"{PATIENTS_RESAMPLED}; widened for the choice among N attacks (Bonferroni)"
LIMITS_SECTION, MEMBERSHIP_SECTION = "Recommended ε", "Membership in limits"


def _limited(
    key: str,
    label: str,
    explanation: str,
    basis: Basis,
    *,
    formula: str,
    interval: str,
    range: tuple[float, float] = SHARES,
    better: Direction = "lower",
    start: float = 0.05,
    chosen: bool = False,
    **more: Any,
) -> Figure:
    """A figure that only “Which ε?” uses, computed from the scores or figures of several runs."""
    facts: dict[str, Any] = {
        "unit": "share",
        "number": SHARE,
        "source": "",
        "section": LIMITS_SECTION if basis == "text" else MEMBERSHIP_SECTION,
        "leak": False,
        "limit": Limit(label, explanation, basis, start, chosen),
    }
    return Figure(
        key=key,
        label=label,
        explanation=f"{explanation[0].upper()}{explanation[1:]}.",
        range=range,
        better=better,
        interval=interval,
        formula=formula,
        **{**facts, **more},
    )


def _excess(of: str, label: str, explanation: str, *, chosen: bool = False) -> Figure:
    return _limited(
        f"{of}_excess",
        label,
        explanation,
        "text",
        formula=f"`{of}` − the same for held-out patients",
        interval=DIFFERENCE,
        range=DIFFERENCES,
        blind=0.0,
        controls=("held-out patients, subtracted",),
        excess_of=of,
        chosen=chosen,
    )


LIMITED_FIGURES: tuple[Figure, ...] = (
    _limited(
        "auc_strongest",
        "membership AUC",
        "how often the strongest attack that was run picks a patient who was trained on over another; 0.5 is a coin",
        "strongest",
        formula="P[mean score of a member's notes > that of another patient's] + ½ P[equal], the attack with the "
        "highest lower end",
        interval=WIDENED,
        number=AUC,
        unit="share of pairs of patients",
        blind=0.5,
        start=0.60,
        chosen=True,
    ),
    _limited(
        "members_caught_strongest",
        "members caught",
        "share of member patients whom the strongest attack finds when it accuses 10 % of others",
        "strongest",
        formula="TPR at the threshold that at most 10 % of other patients reach, the attack with the highest lower end",
        interval=f"{WIDENED}, threshold recomputed each time",
        unit="share of patients",
        blind=0.1,
        start=0.20,
    ),
    _limited(
        "privacy_leakage_strongest",
        "privacy leakage",
        "member patients found minus others accused, by the strongest attack at its own threshold",
        "strongest",
        formula="TPR − FPR at the attack's own threshold, the attack with the highest lower end",
        interval=WIDENED,
        source="Jagannatha 2021, eq. 2",
        unit="difference of shares",
        range=DIFFERENCES,
        blind=0.0,
    ),
    _excess(
        "full_name_patients",
        "full names beyond the control",
        "patients whose full name it wrote, minus the same share of held-out patients",
        chosen=True,
    ),
    _excess(
        "direct_patients",
        "identifiers beyond the control",
        "patients with any identifier written, minus the same share of held-out patients",
    ),
    _excess(
        "attempts_with_leak",
        "texts with a leak beyond the control",
        "generated texts with a leak, minus those with an identifier of a held-out patient, scaled to as many patients",
    ),
    _limited(
        "members_caught",
        "notes caught by the loss attack",
        "share of members' notes that the loss attack finds when it accuses 10 % of others",
        "loss",
        formula="TPR at the threshold that at most 10 % of other patients' notes reach",
        interval=f"{PATIENTS_RESAMPLED}, threshold recomputed each time",
        blind=0.1,
        start=0.20,
        unit="share of notes",
    ),
    _limited(
        UTILITY,
        "gain kept",
        "share of the gain of training without privacy on held-out notes that the run has, too",
        "text",
        formula="(ln pp_base − ln pp) / (ln pp_base − ln pp_∞), pp = `perplexity_heldout`",
        interval="held-out patients resampled for the three models together, expanded percentiles (Hesterberg 2015)",
        unit="share of the gain",
        range=(-math.inf, math.inf),
        better="higher",
        start=0.25,
        section="Over ε",
        controls=("public base model (0), run without privacy of the same seed (1)",),
    ),
)
