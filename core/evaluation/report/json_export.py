"""What JSON can hold of figures: the one way tables and facts become JSON."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """Numpy scalars as numbers, ∞ as "inf", NaN as null; dictionaries, lists and tuples with all that is in them."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value
