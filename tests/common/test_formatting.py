"""Text forms of numbers in sentences and tables."""

from __future__ import annotations

import math

from core.common.formatting import figure_text


def test_a_figure_has_four_digits_and_thousands_separators() -> None:
    figures = (0.83124, 5.0, 9999.4, 9999.6, 12345.4, -12345.4, 999_999_999.0, 1e9, 0.0000923, math.nan, math.inf)
    written = ["0.8312", "5", "9999", "10,000", "12,345", "-12,345", "999,999,999", "1e+09", "9.23e-05", "nan", "inf"]
    assert [figure_text(one) for one in figures] == written
