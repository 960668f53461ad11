"""Text forms in sentences: ε and δ of a guarantee, a proven ε, epochs, moments and durations."""

from __future__ import annotations

import calendar
import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Context

REPRODUCIBLE = "reproducible: ε is shown, not promised"  # shown for every private run whose noise has a public seed
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def delta_text(delta: float) -> str:
    """The δ of a guarantee with two digits, rounded up: `10⁻⁵`, `2.4·10⁻⁷` for 2.31e-7; from 0.001 upwards `0.04`."""
    return _two_digits(delta, lambda value: math.ceil(value - 1e-6))


def time_text(moment: str) -> str:
    """`26 November 2026, 04:38 UTC`: a date and time in ISO 8601, which has an offset."""
    at = datetime.fromisoformat(moment).astimezone(UTC)
    return f"{at.day} {calendar.month_name[at.month]} {at:%Y, %H:%M} UTC"


def duration_text(seconds: float) -> str:
    """An estimated time: `40 s`, `4 min`, `2.5 h`, `12 days`."""
    if seconds < 90:
        return f"{max(5, 5 * round(seconds / 5))} s"
    if seconds < 90 * 60:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 72 * 3600 else f"{round(seconds / 86_400):,} days"


def limit_text(limit: float) -> str:
    """The largest δ that is allowed, as `delta_text` but rounded down."""
    return _two_digits(limit, lambda value: math.floor(value + 1e-6))


def _two_digits(delta: float, whole: Callable[[float], int]) -> str:
    if delta > 0:
        step = 10.0 ** (math.floor(math.log10(delta)) - 1)
        delta = whole(delta / step) * step
    if delta >= 1e-3 or delta == 0:
        return f"{delta:.2g}"
    mantissa, exponent = f"{delta:.1e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if mantissa == "1.0" else f"{mantissa.removesuffix('.0')}·{power}"


def setting_text(epsilon: float) -> str:
    """An ε that was asked for or measured at, not rounded: `0.5`, `8`, `1,000`; `∞` without privacy."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:,g}"


def promised_text(epsilon: float) -> str:
    """A guaranteed ε with three digits, rounded up: `8` for 7.997, `10.1` for 10.04, `1,235` for 1234.5, `2.1e+12`."""
    return _three_digits(epsilon, lambda value: math.ceil(value - 1e-6))


def accounted_text(epsilon: float) -> str:
    """A guaranteed ε with six digits, rounded up, where it is computed with: `7.98659` for 7.986581, `8`; `inf`."""
    if not math.isfinite(epsilon):
        return f"{epsilon:g}"
    six = Context(prec=6, rounding=ROUND_CEILING)
    return f"{float(six.create_decimal(repr(float(epsilon)))):.6g}"


def proved_text(epsilon: float) -> str:
    """A proven lower bound on ε, or one that may still be spent, with three digits, rounded down: `2.74` for 2.746."""
    return _three_digits(epsilon, lambda value: math.floor(value + 1e-6))


def computed_text(epsilon: float) -> str:
    """An ε that is neither guaranteed nor proven, such as by a wrong formula, with three digits: `9.94`, `1,234`."""
    return _three_digits(epsilon, round)


def _three_digits(epsilon: float, whole: Callable[[float], int]) -> str:
    if not 0 < epsilon < math.inf:
        return f"{epsilon:.3g}"
    if 100 <= epsilon < 1e9:
        return f"{whole(epsilon):,}"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return f"{whole(epsilon / step) * step:.3g}"


def figure_text(value: float) -> str:
    """A measured figure in text output with four digits: `0.8312`, `9.2e-05`; from 10,000 up to a billion `12,345`."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e9 else f"{value:.4g}"


def score_text(score: float) -> str:
    """`0.61`, `−0.03`: two digits; a score that rounds to 0 has no sign."""
    return f"{score:.2f}".replace("-0.00", "0.00").replace("-", "−")


def epochs_text(epochs: int) -> str:
    """`1 epoch`, `4 epochs`."""
    return f"{epochs} epoch{'' if epochs == 1 else 's'}"
