"""The trade-off curve: closed forms, an independent accountant, integration by hand, and what it may never do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import ndtri
from scipy.stats import norm

from core.models.word_noise import WordNoise
from core.spec import VocabularySpec
from core.training.accounting.composition import advantage
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import numerical_delta, numerical_deltas
from core.training.accounting.tradeoff import dp_ceiling, of_history, tradeoff

RATES = np.array([1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 0.999])
RECIPES = [(1.6559, 256 / 3_000, 138), (0.57, 1_024 / 48_000, 141), (0.4, 0.01, 300)]


def mechanism(sigma: float, rate: float, steps: int) -> Mechanism:
    return Mechanism(unit="note", noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=1e-5, max_grad_norm=1.0)


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1), (0.5, 1), (3.0, 4), (20.0, 1), (2e2, 1), (5e3, 4)])
def test_without_sampling_the_curve_is_that_of_the_gaussian(sigma, steps):
    mu = math.sqrt(steps) / sigma
    found = of_history({(sigma, 1.0): steps})
    exact = norm.cdf(norm.ppf(RATES) + mu)
    assert (found.caught(RATES) >= exact).all()
    assert found.caught(RATES) == pytest.approx(exact, rel=1e-4)
    assert found.gaussian_mu() == pytest.approx(mu, rel=1e-3)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps"), [(15, 0.1, 50), (100, 0.1, 50), (1_000, 0.1, 50), (300, 0.02, 141)]
)
def test_with_much_noise_the_curve_is_that_of_a_hundred_times_as_many_lines(sigma, rate, steps):
    """Relative to its distance from blind guessing, which is all that a limit near the share accused goes by."""
    history = {(sigma, rate): steps}
    lines = np.concatenate([[0.0], np.geomspace(1e-9, 9.2, 400_000)])
    deltas = numerical_deltas(history, lines)
    finer = np.array([dp_ceiling(rate, lines, deltas).min() for rate in RATES]) - RATES
    found = of_history(history).caught(RATES) - RATES
    assert (found >= finer * (1 - 5e-5) - 1e-12).all() and (found <= finer * (1 + 1e-3) + 1e-12).all()


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "exact", "too_large"),
    [
        (0.326, 1.3e-4, 177, 0.009670, 6e-3),
        (0.501, 3.6e-4, 41, 0.003794, 4e-3),
        (0.27993, 4.0202e-4, 10_343, 0.622816, 6e-4),
        (0.302, 0.02, 90, 0.610737, 5e-4),
    ],
)
def test_the_advantage_is_that_of_another_composition_or_a_little_too_large(sigma, rate, steps, exact, too_large):
    """`exact`: cells of the output with exact masses, their losses convolved by one Fourier transform of 2²⁰ points.

    Low noise and rare samples are the worst case: docs/methods/accounting.md says by how much.
    """
    assert exact - 1e-5 <= numerical_delta({(sigma, rate): steps}, 0.0) <= exact + too_large


def one_step(sigma: float, rate: float) -> np.ndarray:
    """Both directions' exact power at `RATES` for one sampled step: the best test is a threshold on the output."""
    thresholds = np.linspace(-12 * sigma, 1 + 12 * sigma, 200_001)
    out = norm.sf(thresholds / sigma)
    into = (1 - rate) * out + rate * norm.sf((thresholds - 1) / sigma)
    accuse_in = np.interp(RATES, out[::-1], into[::-1])
    accuse_out = np.interp(RATES, 1 - into, 1 - out)
    return np.maximum(accuse_in, accuse_out)


@pytest.mark.parametrize(("sigma", "rate"), [(0.6, 0.1), (1.0, 0.5), (0.4, 0.02)])
def test_one_sampled_step_as_integrated_by_hand(sigma, rate):
    exact, found = one_step(sigma, rate), of_history({(sigma, rate): 1}).caught(RATES)
    assert (found >= exact - 1e-8).all(), "never below what an attacker achieves, in either direction"
    lines = np.linspace(0, 9, 1_001)  # the concave hull of both directions, from their exact profiles
    profile = np.maximum(*(_profile(sigma, rate, lines, added) for added in (False, True)))
    hull = dp_ceiling(RATES[:, None], lines, profile).min(axis=1)
    assert found == pytest.approx(hull, rel=1e-3, abs=2e-5)


def _profile(sigma: float, rate: float, lines: np.ndarray, added: bool) -> np.ndarray:
    """δ(ε) of one step by integration of the positive part of the difference of densities."""
    x = np.linspace(-12 * sigma, 1 + 12 * sigma, 20_001)
    out = norm.pdf(x, 0, sigma)
    into = (1 - rate) * out + rate * norm.pdf(x, 1, sigma)
    first, second = (out, into) if added else (into, out)
    return np.array([np.trapezoid(np.maximum(first - math.exp(line) * second, 0), x) for line in lines])


@pytest.mark.parametrize(("sigma", "rate", "steps"), RECIPES)
def test_the_curve_lies_between_the_bounds_of_an_independent_accountant(sigma, rate, steps):
    lines = np.linspace(0, 9, 181)
    bounds = []
    for pessimistic in (False, True):
        loss = pld.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
            value_discretization_interval=2e-4 if not pessimistic else 2e-3,
        ).self_compose(steps)
        deltas = np.array(loss.get_delta_for_epsilon(lines))
        bounds.append(dp_ceiling(RATES[:, None], lines, deltas).min(axis=1))
    found = of_history({(sigma, rate): steps}).caught(RATES)
    lower, upper = bounds
    # With fewer lines the oracle's curve may only be higher; the pessimistic one is otherwise exact to about 10⁻⁴.
    assert (found >= lower * (1 - 1e-3)).all() and (found <= upper * (1 + 1e-3) + 1e-4).all()
    assert found == pytest.approx(upper, rel=2e-3, abs=2e-5)


@pytest.mark.parametrize(("sigma", "rate", "steps"), RECIPES)
def test_the_curve_is_a_concave_symmetric_bound_below_every_promise(sigma, rate, steps):
    curve = of_history({(sigma, rate): steps})
    accused = np.linspace(0, 1, 2_001)
    caught = curve.caught(accused)
    assert (caught >= accused).all() and (np.diff(caught) >= -1e-12).all()
    assert (np.diff(caught, 2) <= 1e-9).all(), "the lowest of straight lines is concave"
    inner = caught < 1 - 1e-3
    assert curve.caught(1 - caught)[inner] == pytest.approx(1 - accused[inner], abs=2e-4), "roles change places"
    for delta in (1e-5, 1e-3):
        epsilon = mechanism(sigma, rate, steps).model_copy(update={"delta": delta}).epsilon()
        assert (caught <= dp_ceiling(accused, epsilon, delta) + 1e-5)[1:].all()
    assert float(np.max(caught - accused)) == pytest.approx(advantage([mechanism(sigma, rate, steps)]), abs=1e-4)


def test_a_gaussian_with_mu_lies_above_the_curve_and_touches_it():
    curve = of_history({RECIPES[0][:2]: RECIPES[0][2]})
    accused = np.geomspace(1e-3, 0.9, 300)
    above = norm.cdf(norm.ppf(accused) + curve.gaussian_mu()) - curve.caught(accused)
    assert above.min() >= -1e-4 and above.min() <= 1e-3
    assert of_history({(0.05, 0.5): 50}).gaussian_mu() == math.inf, "almost no noise"


def test_many_deltas_are_those_computed_one_by_one_and_fall_with_epsilon():
    history = {(0.9, 0.03): 300, (2.0, 0.1): 80, (6.0, 1.0): 1}
    lines = np.array([0.0, 0.3, 1.0, 2.5, 6.0, 40.0])
    found = numerical_deltas(history, lines)
    assert found == pytest.approx([numerical_delta(history, line) for line in lines], abs=1e-12)
    assert (np.diff(found) < 0).all() and found[-1] < 1e-5
    exact = [norm.cdf(0.25 - 2 * e) - math.exp(e) * norm.cdf(-0.25 - 2 * e) for e in lines]
    assert numerical_deltas({(2.0, 1.0): 1}, lines) == pytest.approx(exact, abs=1e-8)
    assert (numerical_deltas({}, lines) == 0).all() and (numerical_deltas({(1e-6, 0.5): 9}, lines) == 1).all()


def test_a_replaced_unit_is_two_changes():
    one = mechanism(2.0, 1.0, 1)
    assert tradeoff([one.replacing()]).caught(0.01) == pytest.approx(norm.cdf(norm.ppf(0.01) + 1.0), rel=1e-4)
    assert tradeoff([]).caught(0.3) == pytest.approx(0.3), "nothing was released: blind guessing"


def test_a_vocabulary_without_noise_in_training_allows_what_it_alone_allows():
    words = WordNoise.planned(VocabularySpec(epsilon=1.0, delta=1e-6, noise="laplace"))
    whole = tradeoff([mechanism(1e4, 1.0, 1).with_vocabulary(words)])
    assert whole.caught(RATES) == pytest.approx(dp_ceiling(RATES, *words.added()), abs=1e-3)
    training = mechanism(1.6, 0.09, 138)
    both, alone = (tradeoff([one]).caught(RATES) for one in (training.with_vocabulary(words), training))
    assert (both > alone)[:6].all() and (both <= math.e * alone + 1e-5)[:5].all()


def test_rarer_errors_than_one_in_a_thousand_do_not_count_for_mu():

    curve = of_history({(0.5, 0.05): 50})
    accused = np.linspace(1e-3, 0.999, 20_000)
    caught = curve.caught(accused)
    seen = caught <= 0.999
    brute = float(np.max(ndtri(caught[seen]) - ndtri(accused[seen])))
    assert curve.gaussian_mu() == pytest.approx(brute, rel=1e-2)
