"""The identity probes' figures in words: look a figure up, write it with interval and n, give a verdict. No markup."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from core.attacks.probes.table import TARGET
from core.evaluation.wording import decimal_text, percent

Verdict = Literal["leak", "no sign", "cannot tell"]


@dataclass(frozen=True)
class Found:
    """A figure with its interval and n; NaN and 0 if the table lacks it."""

    value: float
    low: float
    high: float
    n: int

    @property
    def there(self) -> bool:
        """True when there is such a figure."""
        return not math.isnan(self.value)


class Look:
    """Finds figures of a table (`core.evaluation.probes.figures`) by their keys."""

    def __init__(self, figures: pd.DataFrame) -> None:
        keys = ["probe", "measure", "method", "model", "split", "bin"]
        self._rows = {
            tuple(row[:6]): Found(*row[6:])
            for row in figures[[*keys, "value", "low", "high", "n"]].itertuples(index=False, name=None)
        }

    def __call__(
        self, probe: str, measure: str, method: str, *, model: str = TARGET, split: str = "member", bin: str = "all"
    ) -> Found:
        """One figure of the table; the arguments are the first columns of `core.evaluation.probes.tables.COLUMNS`."""
        return self._rows.get((probe, measure, method, model, split, bin), Found(math.nan, math.nan, math.nan, 0))


def hundred(found: Found, what: str = "") -> str:
    """`80.0 of 100 cases (95 % interval 74.1 to 85.0)`: a share as cases of a hundred, called `what`.

    With a decimal, like `points`, so that a difference is seen to be that of the two figures beside it.
    """
    if not found.there:
        return "not measured"
    return f"{decimal_text(100 * found.value, '.1f')} of 100{what and f' {what}'} ({_between(found, 100, '.1f')})"


def points(found: Found) -> str:
    """`+16.2 of 100 (95 % interval +11.0 to +22.4)`: a difference of shares."""
    return (
        f"{decimal_text(100 * found.value, '+.1f')} of 100 ({_between(found, 100, '+.1f')})"
        if found.there
        else "not measured"
    )


def share(found: Found) -> str:
    """`13 % (95 % interval 5 % to 33 %)`."""
    if not found.there:
        return "not measured"
    if math.isnan(found.low):
        return f"{percent(found.value)} (no interval: a single patient)"
    return f"{percent(found.value)} (95\u00a0% interval {percent(found.low)} to {percent(found.high)})"


def number(found: Found) -> str:
    """`+0.0037 (95 % interval −0.0036 to +0.0113)`."""
    return f"{decimal_text(found.value, '+.4f')} ({_between(found, 1, '+.4f')})" if found.there else "not measured"


def _between(found: Found, scale: float, form: str) -> str:
    if math.isnan(found.low):
        return "no interval: too few patients"
    return f"95\u00a0% interval {decimal_text(scale * found.low, form)} to {decimal_text(scale * found.high, form)}"


def factor(found: Found) -> str:
    """`2.50 times (95 % interval 2.08 to 2.98)`."""
    return f"{found.value:.2f} times ({_between(found, 1, '.2f')})" if found.there else "an unknown number of times"


def members(count: int) -> str:
    """`1 member`, `48 members`."""
    return f"{count} member{'' if count == 1 else 's'}"


def judged(found: Found, blind: float = 0.0) -> Verdict:
    """“leak” if the whole interval lies above what a blind guess gets; “cannot tell” if there is no interval."""
    if not found.there or math.isnan(found.low):
        return "cannot tell"
    return "leak" if found.low > blind else "no sign"


def above(found: Found, control: Found) -> Verdict:
    """“leak” if the figure's interval lies above its control's, which is stricter than a test at 5 %."""
    if any(math.isnan(end) for end in (found.low, control.high)):
        return "cannot tell"
    return "leak" if found.low > control.high else "no sign"
