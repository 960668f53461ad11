"""What a reader may limit: the risks, how they are measured and written, and the reader's own limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from core.evaluation.wording import percent

UTILITY = "utility_share"
STRONGEST = ("auc_strongest", "members_caught_strongest", "privacy_leakage_strongest")
BY_NOTE = ("auc_loss", "members_caught", "privacy_leakage_loss")
MOST_LETTERS = 200  # of a use case


@dataclass(frozen=True)
class Measure:
    """A risk that can be limited: what it is in words, whether it is a share, and what a blind attacker reaches."""

    label: str
    explanation: str
    share: bool = True
    blind: float = 0.0


RISKS: dict[str, Measure] = {
    "auc_strongest": Measure(
        "membership AUC",
        "how often the strongest attack that was run tells a patient who was trained on from another; 0.5 is a coin",
        False,
        0.5,
    ),
    "members_caught_strongest": Measure(
        "members caught",
        "share of member patients whom the strongest attack finds when it accuses 10 % of others",
        True,
        0.1,
    ),
    "privacy_leakage_strongest": Measure(
        "privacy leakage", "member patients found less others accused, by the strongest attack at its own threshold"
    ),
    "full_name_patients_excess": Measure("full names", "patients whose full name it wrote, less the held-out control"),
    "direct_patients_excess": Measure("any identifier", "patients with any identifier written, less the control"),
    "attempts_with_leak_excess": Measure("texts with a leak", "generated texts with a leak, less the control"),
    "auc_loss": Measure(
        "AUC of the loss attack by note",
        "how often the loss attack, the weakest of them, tells a member's note from another; 0.5 is a coin",
        False,
        0.5,
    ),
    "members_caught": Measure(
        "notes caught by the loss attack",
        "share of members' notes that the loss attack finds when it accuses 10 % of others",
        True,
        0.1,
    ),
    "privacy_leakage_loss": Measure(
        "leakage of the loss attack by note", "members' notes found less others accused, by the loss attack"
    ),
}


@dataclass(frozen=True)
class Limits:
    """What a reader accepts: a highest value for each of some RISKS, and the lowest share of the gain."""

    risks: Mapping[str, float]
    utility: float
    use_case: str = ""

    def __post_init__(self) -> None:
        if not self.risks:
            raise ValueError("a recommendation needs a limit for at least one risk")
        for name, limit in self.risks.items():
            if name not in RISKS:
                raise ValueError(f"there is no risk “{name}”; there are {', '.join(RISKS)}")
            if not 0 <= limit <= 1:
                raise ValueError(f"the limit of {RISKS[name].label} lies between 0 and 1, and is {limit}")
        if len(self.use_case) > MOST_LETTERS:
            raise ValueError(f"the use case is told in {MOST_LETTERS} letters at most, and has {len(self.use_case):,}")
        if not 0 <= self.utility <= 1:
            raise ValueError(f"the least share of the gain lies between 0 and 1, and is {self.utility}")


def measure_text(name: str, value: float) -> str:
    """A measure's value as it is written: shares in percent, an AUC with two digits, `?` where there is none."""
    if math.isnan(value):
        return "?"
    if name.startswith("auc"):
        return f"{value:.2f}"
    return percent(value) if value >= 0 else f"−{percent(-value)}"


def measure_name(name: str) -> str:
    """A measure in words."""
    return "gain kept" if name == UTILITY else RISKS[name].label
