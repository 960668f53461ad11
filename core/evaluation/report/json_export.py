"""Conversion of tables and facts to values that JSON can hold; every JSON export uses it."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Convert NumPy scalars to numbers, ∞ to "inf" and NaN to None, also inside dictionaries, lists and tuples."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
