"""A reader's own limits on the figures that the registry lets one limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.evaluation import registry

MOST_LETTERS = 200  # of a use case


@dataclass(frozen=True)
class Limits:
    """What a reader accepts: a highest value for some risks of `registry.limits`, and the lowest share of the gain."""

    risks: Mapping[str, float]
    utility: float
    use_case: str = ""

    def __post_init__(self) -> None:
        if not self.risks:
            raise ValueError("a recommendation needs a limit for at least one risk")
        known = registry.limits()
        for name, limit in self.risks.items():
            if name not in known:
                raise ValueError(f"there is no risk “{name}”; there are {', '.join(known)}")
            least, most = registry.limit_range(name)
            if not least <= limit <= most:
                raise ValueError(
                    f"the limit of {known[name].label} lies between {least:g} and {most:g}, and is {limit}"
                )
        if len(self.use_case) > MOST_LETTERS:
            raise ValueError(f"the use case is told in {MOST_LETTERS} letters at most, and has {len(self.use_case):,}")
        if not 0 <= self.utility <= 1:
            raise ValueError(f"the least share of the gain lies between 0 and 1, and is {self.utility}")
