"""Known ε, no target overshot, an answer where PRV has none, group privacy, and row P's old accountant shown wrong."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.training.accounting import gaussian
from core.training.accounting.composition import advantage
from core.training.accounting.gaussian import (
    epsilon,
    epsilon_curve,
    epsilon_with_method,
    group_epsilon,
    noise_multiplier,
    old_report_epsilon,
    with_margin,
)
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import MOST_STEPS

ROOT = Path(__file__).resolve().parents[3]
ACCOUNTANTS = ("prv", "rdp", "gdp")


@pytest.mark.parametrize(
    ("accountant", "sigma", "rate", "steps", "known"),
    [
        ("rdp", 1.5, 0.04, 2250, 7.32911117143),
        ("prv", 1.5, 0.04, 2249, 6.77763),  # dp-accounting 0.6.0 has 6.7673 without the margin of 0.01
        ("rdp", 1.3, 150 / 60_000, 15 * 400, 0.7242234),
    ],
)
def test_known_values(accountant: str, sigma: float, rate: float, steps: int, known: float) -> None:
    found = epsilon(noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=1e-5, accountant=accountant)
    assert found == pytest.approx(known, rel=1e-7 if accountant == "rdp" else 1e-5)


def test_one_step_without_sampling_is_the_gaussian_mechanism() -> None:
    # Balle & Wang 2018, theorem 8: δ(ε) = Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ), exact for q = 1 and one step.
    sigma = 1.2

    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    for accountant in ("prv", "rdp"):
        spent = epsilon(noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=1e-5, accountant=accountant)

        def delta(value: float) -> float:
            return normal(0.5 / sigma - value * sigma) - math.exp(value) * normal(-0.5 / sigma - value * sigma)

        assert delta(spent) <= 1e-5  # an upper bound …
        if accountant == "prv":
            assert delta(spent - 0.03) > 1e-5  # … and PRV's is a close one


@pytest.mark.parametrize(
    ("sample_rate", "steps", "sigma", "ratio"),  # to PRV, as docs/methods/accounting.md prints it
    [(256 / 2925, 46, 0.9, 0.74), (256 / 2925, 46, 0.45, 2.11), (0.01, 1_000, 0.65, 0.74), (0.002, 5_000, 0.55, 0.63)],
)
def test_gdp_under_reports_for_most_noise_and_over_reports_for_the_least(
    sample_rate: float, steps: int, sigma: float, ratio: float
) -> None:
    run = {"noise_multiplier": sigma, "sample_rate": sample_rate, "steps": steps, "delta": 1e-5}
    assert epsilon(**run, accountant="gdp") / epsilon(**run, accountant="prv") == pytest.approx(ratio, abs=0.006)


def test_row_p_claims_more_than_forty_times_too_much() -> None:
    report = {"noise_multiplier": 2.28287, "sample_rate": 4 / 1500, "steps": 3_000, "delta": 1e-5}
    assert old_report_epsilon(**report) == pytest.approx(9.9438, abs=1e-4)  # as printed in the report
    assert 0.22 <= epsilon(**report, accountant="prv") < 0.23
    assert epsilon(**report, accountant="rdp") == pytest.approx(0.2488, abs=1e-3)
    trained = {**report, "steps": 1_875}  # its 5 epochs
    assert epsilon(**trained, accountant="prv") == pytest.approx(0.176, abs=1e-3)
    assert epsilon(**trained, accountant="rdp") == pytest.approx(0.1967, abs=1e-3)
    # Its rate enters once instead of squared: ten times smaller batches should save far more than it grants them.
    tenth = {**report, "sample_rate": 0.4 / 1500}
    assert old_report_epsilon(**report) / old_report_epsilon(**tenth) < 4
    assert epsilon(**report) / epsilon(**tenth) > 9


@pytest.mark.parametrize(
    ("sigma", "method"), [(0.1, "prv"), (0.05, "prv"), (1e-3, "prv"), (1e-20, "rdp"), (1e-200, "rdp")]
)
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_tiny_noise_gives_a_huge_epsilon_and_says_by_which_accountant(
    accountant: str, sigma: float, method: str
) -> None:
    run = {"noise_multiplier": sigma, "sample_rate": 0.3, "steps": 24, "delta": 1e-5, "accountant": accountant}
    value, by = epsilon_with_method(**run)
    assert value > 850 and by == (method if accountant == "prv" else "rdp")
    counts, values = epsilon_curve(**run, points=4)
    assert counts[-1] == 24 and values[-1] == value


def test_prv_and_gdp_say_their_name_where_they_answer() -> None:
    for accountant in ACCOUNTANTS:
        mechanism = {
            "noise_multiplier": 1.0,
            "sample_rate": 0.05,
            "steps": 100,
            "delta": 1e-5,
            "accountant": accountant,
        }
        assert epsilon_with_method(**mechanism)[1] == accountant
    assert epsilon(noise_multiplier=1.0, sample_rate=0.5, steps=0, delta=1e-5) == 0.0


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("target", [0.1, 0.5, 1, 8, 100, 1_000])
def test_the_noise_found_never_overshoots(target: float, accountant: str) -> None:
    run = {"sample_rate": 0.34, "steps": 24, "delta": 1e-5, "accountant": accountant}
    sigma = noise_multiplier(target_epsilon=target, **run)
    assert 0.995 * target <= epsilon(noise_multiplier=sigma, **run) <= target


@settings(max_examples=6)
@given(
    target=st.floats(0.2, 20),
    rate=st.floats(0.002, 1.0),
    steps=st.integers(1, 150),
    delta=st.sampled_from([1e-7, 1e-5, 1e-3]),
)
def test_the_noise_found_never_overshoots_anywhere(target: float, rate: float, steps: int, delta: float) -> None:
    sigma = noise_multiplier(target_epsilon=target, sample_rate=rate, steps=steps, delta=delta)
    spent = epsilon(noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=delta)
    assert 0.99 * target <= spent <= target


def test_the_curve_rises_to_the_end_and_never_under_reports() -> None:
    run = {"noise_multiplier": 1.1, "sample_rate": 0.05, "delta": 1e-5}
    for accountant in ACCOUNTANTS:
        counts, values = epsilon_curve(**run, steps=300, accountant=accountant, points=5)
        assert counts[0] == 1 and counts[-1] == 300 and len(counts) == len(values) == 5
        assert (np.diff(values) > 0).all()
        assert values[-1] == pytest.approx(epsilon(**run, steps=300, accountant=accountant), rel=1e-9)
        for count, value in zip(counts, values, strict=True):
            exact = epsilon(**run, steps=int(count), accountant=accountant)
            assert exact - 0.011 <= value <= exact + 0.011  # PRV's grid may differ within its error


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"noise_multiplier": 0.0}, "noise multiplier"),
        ({"noise_multiplier": math.nan}, "noise multiplier"),
        ({"sample_rate": 1.2}, "sample rate"),
        ({"steps": -1}, "steps"),
        ({"steps": MOST_STEPS + 1}, "at most 1,000,000,000 steps"),
        ({"delta": 1.0}, "δ"),
        ({"accountant": "moments"}, "choose prv, rdp or gdp"),
    ],
)
def test_bad_arguments_get_a_sentence(change: dict, words: str) -> None:
    run = {"noise_multiplier": 1.0, "sample_rate": 0.1, "steps": 10, "delta": 1e-5, "accountant": "prv"} | change
    with pytest.raises(ValueError, match=words):
        epsilon(**run)


@pytest.mark.parametrize("target", [0.0, -1.0, math.inf, math.nan])
def test_a_target_that_is_no_positive_number_is_refused(target: float) -> None:
    with pytest.raises(ValueError, match="target ε must be a finite number above 0"):
        noise_multiplier(target_epsilon=target, sample_rate=0.1, steps=10, delta=1e-5)


def test_group_privacy() -> None:
    assert group_epsilon(1.0, 1e-6, 1) == (1.0, pytest.approx(1e-6))
    # δ_k = δ·(1 + e^ε + … + e^{(k-1)ε}), written as a sum here
    epsilon_5, delta_5 = group_epsilon(0.7, 1e-6, 5)
    assert epsilon_5 == pytest.approx(3.5)
    assert delta_5 == pytest.approx(1e-6 * sum(math.exp(0.7 * i) for i in range(5)))
    assert group_epsilon(0.0, 1e-6, 4) == (0.0, pytest.approx(4e-6))
    assert group_epsilon(1e41, 1e-6, 50)[1] == 1.0  # nothing is promised, and nothing overflows
    assert group_epsilon(math.inf, 1e-6, 3) == (math.inf, 1.0)
    with pytest.raises(ValueError, match="at least one member"):
        group_epsilon(1.0, 1e-5, 0)


def test_a_mechanism_survives_its_json() -> None:
    mechanism = Mechanism(
        unit="patient", noise_multiplier=1.5, sample_rate=0.04, steps=2249, delta=1e-5, max_grad_norm=1.0
    )
    again = Mechanism.from_json(mechanism.to_json())
    assert again == mechanism and again.unit == "patient" and again.neighbouring == "add/remove one unit"
    assert again.epsilon() == pytest.approx(6.77763, rel=1e-5)
    with pytest.raises(ValueError, match="sample_rate"):
        Mechanism.from_json(mechanism.to_json().replace("0.04", "4.0"))


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta"), [(2.55, 0.0875, 46, 0.5), (2.0, 0.05, 10, 0.1), (5.0, 0.01, 100, 0.01)]
)
@pytest.mark.parametrize("accountant", ["prv", "rdp"])
def test_a_delta_that_covers_every_difference_leaves_no_epsilon_below_0(
    sigma: float, rate: float, steps: int, delta: float, accountant: str
) -> None:
    run = {"noise_multiplier": sigma, "sample_rate": rate, "steps": steps, "delta": delta}
    assert 0.0 <= epsilon(**run, accountant=accountant) < 0.01


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
@pytest.mark.parametrize("target", [0.05, 1.0])
def test_noise_is_found_in_few_looks_also_where_epsilon_jumps(
    target: float, accountant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []
    real = gaussian.epsilon
    monkeypatch.setattr(gaussian, "epsilon", lambda **given: looks.append(1) or real(**given))
    run = {"sample_rate": 256 / 2925, "steps": 46, "delta": 0.5, "accountant": accountant}
    sigma = noise_multiplier(target_epsilon=target, **run)
    assert real(noise_multiplier=sigma, **run) <= target and len(looks) <= 40
    assert real(noise_multiplier=0.995 * sigma, **run) > target, "less noise would do"


def test_a_tiny_delta_has_a_tight_answer() -> None:
    # Lower bound 5.193 by an exponentially tilted Fourier transform with losses rounded down; Opacus' PRV says 5.078.
    tiny = {"noise_multiplier": 1.0, "sample_rate": 0.01, "steps": 2_000, "delta": 1e-13}
    assert epsilon_with_method(**tiny)[1] == "prv" and 5.193 < epsilon(**tiny) < 5.23


@pytest.mark.parametrize("sigma", [1e9, 1e20, 1e160, 1e300])
def test_more_noise_never_costs_more_however_much_it_is(sigma):
    """Losses of so much noise are smaller than a grid can hold; ε was ∞ from 10¹⁶⁰ on, by RDP."""
    setting = {"sample_rate": 0.01, "steps": 1_000, "delta": 1e-12}
    value, by = epsilon_with_method(noise_multiplier=sigma, **setting)
    assert by == "prv" and value <= epsilon(noise_multiplier=1e6, **setting) < 2e-6
    mechanism = Mechanism(unit="note", noise_multiplier=sigma, max_grad_norm=1.0, **setting)
    assert mechanism.patient_epsilon(37) < 1e-3 and advantage([mechanism]) < 1e-3


def test_the_margin_is_a_thousandth_above_ten():

    assert [with_margin(one) for one in (0.5, 5.0, 20.0)] == pytest.approx([0.505, 5.01, 20.02])


def test_epsilon_of_a_run_needs_no_torch() -> None:
    """Importing it takes seconds; `core runs` and a page that names ε must not wait for it."""
    code = (
        "import sys; import core.runs.ledger.totals, core.training.accounting.risk; "
        "from core.training.accounting.gaussian import epsilon; "
        "epsilon(noise_multiplier=1.0, sample_rate=0.1, steps=10, delta=1e-5); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603
