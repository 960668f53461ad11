"""What stays on one line: a value with its symbol and its unit."""

from __future__ import annotations

import re

from core.evaluation.wording import NBSP


def unbroken(text: str) -> str:
    """The text with each `ε = 8` and each `7 %` on one line."""
    text = re.sub(r"([εδσ]) = (?=\S)", rf"\1{NBSP}={NBSP}", text)
    return re.sub(r"(?<=\d) %", f"{NBSP}%", text)
