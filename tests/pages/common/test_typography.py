"""What stays on one line."""

from __future__ import annotations

from pages.parts.common.typography import unbroken


def test_an_epsilon_and_a_delta_stay_on_one_line_with_their_values() -> None:
    assert unbroken("ε = 1,998 at δ = 10⁻⁵") == "ε\u00a0=\u00a01,998 at δ\u00a0=\u00a010⁻⁵"


def test_a_percent_sign_stays_on_one_line_with_its_number() -> None:
    assert unbroken("up to 7 % PL, .5 % for 100 % of them") == "up to 7\u00a0% PL, .5\u00a0% for 100\u00a0% of them"
    assert unbroken("% of members, a share in %") == "% of members, a share in %"
