"""How sentences everywhere have a δ and a number of epochs."""

from __future__ import annotations

SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def delta_text(delta: float) -> str:
    """`10⁻⁵`, `2.3·10⁻⁷`; from a thousandth on `0.03`."""
    if delta >= 1e-3 or delta == 0:
        return f"{delta:.2g}"
    mantissa, exponent = f"{delta:.1e}".split("e")
    power = f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if mantissa == "1.0" else f"{mantissa.removesuffix('.0')}·{power}"


def epochs_text(epochs: int) -> str:
    """`1 epoch`, `4 epochs`."""
    return f"{epochs} epoch{'' if epochs == 1 else 's'}"
