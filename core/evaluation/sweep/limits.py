"""A reader's limits on the figures that can be limited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.evaluation import registry

MOST_LETTERS = 200  # of a use case


@dataclass(frozen=True)
class Limits:
    """What a reader accepts.

    Args:
        risks: the highest accepted value of some risks of `registry.limits`, by key.
        utility: the lowest accepted share of the gain, 0 to 1.
        use_case: what the model is for, at most MOST_LETTERS characters.

    Raises:
        ValueError: no risk is limited, a risk is unknown, or a limit or the use case is out of range.
    """

    risks: Mapping[str, float]
    utility: float
    use_case: str = ""

    def __post_init__(self) -> None:
        if not self.risks:
            raise ValueError("a recommendation needs a limit for at least one risk")
        check_risks(self.risks)
        if len(self.use_case) > MOST_LETTERS:
            raise ValueError(f"the use case may have at most {MOST_LETTERS} characters, not {len(self.use_case):,}")
        if not 0 <= self.utility <= 1:
            raise ValueError(f"the lowest share of the gain must be between 0 and 1, not {self.utility}")


def check_risks(risks: Mapping[str, float]) -> None:
    """Raise ValueError, with a sentence, for a risk that cannot be limited, or a limit that is out of range."""
    known = registry.limits()
    for name, limit in risks.items():
        if name not in known:
            raise ValueError(f"there is no risk “{name[:60]}”; there are {', '.join(known)}")
        least, most = registry.limit_range(name)
        if not least <= limit <= most:
            raise ValueError(f"the limit of {known[name].label} must be between {least:g} and {most:g}, not {limit}")
