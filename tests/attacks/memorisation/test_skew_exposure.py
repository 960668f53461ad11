from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from core.attacks.exposure import canary_exposures
from core.attacks.memorisation.skew_exposure import SKEW_COLUMNS, SkewNormal, skew_exposures
from core.corpus.synthetic import canaries as planted
from core.spec import CorpusSpec

SPEC = CorpusSpec(patients=10, population=0, canaries=4, canary_patients=1, seed=4)


@pytest.mark.parametrize("shape", [-4.0, 0.0, 1.3, 4.0])
@pytest.mark.parametrize("z", [-2.0, -5.0, -9.0, -15.0])
def test_the_tail_is_exact_where_floating_point_ends(shape, z):
    """Against an integral with 40 digits."""
    with mpmath.workdps(40):
        density = lambda t: 2 * mpmath.npdf(t) * mpmath.erfc(-shape * t / mpmath.sqrt(2)) / 2  # noqa: E731
        steps = [z - 30] + [z - 2.0**-n for n in range(-4, 12)] + [z]
        exact = float(mpmath.log(mpmath.quad(density, steps)))
    assert SkewNormal(shape, 0.0, 1.0).log_probability_below(z) == pytest.approx(exact, rel=1e-6)


def skew_exposure(canary_loss: float, reference_losses: np.ndarray) -> float:
    """The column `skew_exposure` of the table, from losses: −log2 P[loss ≤ the canary's] under the fitted curve."""
    return -SkewNormal.fit(reference_losses).log_probability_below(canary_loss) / math.log(2)


def test_without_skew_it_is_the_normal_distribution():
    assert SkewNormal(0.0, 3.0, 2.0).log_probability_below(-17.0) == pytest.approx(stats.norm.logcdf(-10.0), rel=1e-6)


@pytest.mark.parametrize("bits", [1, 3, 6, 12])
def test_a_known_quantile_has_its_exposure(bits):
    """999 losses from a known skew-normal; the canary's loss is its 2^−bits quantile."""
    truth = stats.skewnorm(2.0, loc=40.0, scale=5.0)
    losses = truth.rvs(999, random_state=np.random.default_rng(bits))
    assert skew_exposure(float(truth.ppf(2.0**-bits)), losses) == pytest.approx(bits, rel=0.12)


def test_the_fit_is_the_likeliest_curve_and_moves_with_the_units():
    rng = np.random.default_rng(0)
    losses = stats.skewnorm(-3.0, loc=20.0, scale=4.0).rvs(999, random_state=rng)
    curve = SkewNormal.fit(losses)
    best = stats.skewnorm.logpdf(losses, curve.shape, curve.location, curve.scale).sum()
    for shape, location, scale in rng.normal((curve.shape, curve.location, curve.scale), 0.05, (40, 3)):
        assert stats.skewnorm.logpdf(losses, shape, location, scale).sum() <= best
    bits = skew_exposure(10.0, losses)
    assert skew_exposure(100.0, 10 * losses) == pytest.approx(bits, rel=1e-3)
    assert skew_exposure(9.0, losses) > bits
    distance, p_value = curve.goodness(losses)
    assert distance < 0.05 and p_value > 0.05
    assert curve.goodness(rng.uniform(0, 40, 999))[1] < 1e-6


def test_an_unseen_canary_is_uniform_40_seeds():
    """Canary and references from one distribution: 2^−exposure is uniform, mean exposure 1/ln 2."""
    rng = np.random.default_rng(7)
    found = np.array([skew_exposure(losses[0], losses[1:]) for losses in rng.normal(30, 4, (40, 400))])
    assert stats.kstest(2.0**-found, "uniform").pvalue > 0.001
    assert abs(found.mean() - 1 / math.log(2)) < 4 * (1 / math.log(2)) / math.sqrt(40)


def test_too_little_to_fit_is_refused():
    for losses in (np.arange(10.0), np.ones(200), np.full(200, np.nan)):
        with pytest.raises(ValueError, match="finite losses that differ"):
            skew_exposure(1.0, losses)


def test_the_table_stands_beside_the_ranks(teach):
    table = planted.draw(SPEC)
    lm = teach("gpt2", [table.iloc[0]["text"]], 60)
    seen = []
    found = skew_exposures(lm, table, on_progress=lambda *at: seen.append(at)).set_index("canary_id")
    ranked = canary_exposures(lm, table).set_index("canary_id")
    assert list(found.reset_index().columns) == list(SKEW_COLUMNS) and seen[-1] == (4, 4)
    assert set(found.index) == set(ranked.index[ranked["form"] != "patient"])
    np.testing.assert_allclose(found["rank_exposure"], ranked.loc[found.index, "exposure"], atol=1e-12)
    within = found[(found["rank_exposure"] > 0.3) & (found["rank_exposure"] < 5)]
    assert len(within) and (abs(within["skew_exposure"] - within["rank_exposure"]) < 1.5).all()
