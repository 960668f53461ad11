"""Makes accounting_oracle.csv: ε of many settings by dp-accounting, which shares no code with the product.

`lower` is its optimistic estimate (privacy buckets), `upper` its pessimistic one (connect the dots). Both round losses
to multiples of `interval`, which is larger where a setting takes too long. A setting that takes too long even then, or
at which dp-accounting overflows, is left out. The optimistic estimate loses up to an interval a step, so it is loose
for many steps. Where q = 1 both are the closed form of Balle & Wang 2018. Run from the repository's root; takes about
half an hour:

    python -m tests.training.accounting.accounting_oracle
"""

from __future__ import annotations

import csv
import math
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import numpy as np
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from scipy.optimize import brentq
from scipy.stats import binom, norm

TABLE = Path(__file__).with_suffix(".csv")
PATIENCE = 6  # seconds for a setting; then the interval is ten times as large
COLUMNS = ("sigma", "rate", "steps", "delta", "notes", "interval", "lower", "upper")
NAMED = [  # the settings at which the accountant that was used before was wrong, and those of the shipped runs
    (0.3, 0.01, 20_000, 1e-5, 1),
    (0.3, 0.002, 50_000, 1e-5, 1),
    (0.25, 0.0005, 10_000, 1e-5, 1),
    (0.7492553189197739, 256 / 2925, 46, 1e-5, 1),
    (2.552126834848598, 256 / 2925, 46, 1e-5, 1),
    (4.492335509979185, 256 / 2925, 46, 1e-5, 1),
    (0.6768352509817521, 256 / 2925, 46, 1e-5, 1),
    (0.7492553189197739, 256 / 2925, 46, 1e-5, 2),
    (0.7492553189197739, 256 / 2925, 46, 1e-5, 5),
    (0.7492553189197739, 256 / 2925, 46, 1e-5, 10),
]


def settings(count: int = 360, seed: int = 20) -> list[tuple[float, float, int, float, int]]:
    """(σ, q, T, δ, notes), spread evenly over the logarithms: σ .2 to 50, q 10⁻⁵ to 1, T to 10⁶, δ 10⁻¹² to 10⁻³."""
    rng = np.random.default_rng(seed)
    found = list(NAMED)
    while len(found) < count:
        sigma = float(f"{math.exp(rng.uniform(math.log(0.2), math.log(50))):.3g}")
        rate = min(1.0, float(f"{10 ** rng.uniform(-5, 0.3):.3g}"))
        steps = round(10 ** rng.uniform(0, 6))
        delta = 10.0 ** -int(rng.integers(3, 13))
        notes = int(rng.choice([1] * 17 + [2, 5, 10]))
        found.append((sigma, rate, steps, delta, notes))
    return found


def closed_form(sigma: float, steps: int, delta: float, notes: int) -> float:
    """ε of a Gaussian mechanism with σ/(k·√T), by bisection on the logarithm of δ."""
    mu = notes * math.sqrt(steps) / sigma

    def excess(epsilon: float) -> float:
        first, second = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
        return first + math.log(-math.expm1(min(second - first, -1e-300))) - math.log(delta)

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, mu * mu + 60 * mu, xtol=1e-12))


def estimate(setting: tuple, interval: float, pessimistic: bool) -> float:
    """ε by a discretised privacy-loss distribution of dp-accounting."""
    sigma, rate, steps, delta, notes = setting
    given = {
        "pessimistic_estimate": pessimistic,
        "value_discretization_interval": interval,
        "use_connect_dots": pessimistic,
    }
    if notes == 1:
        one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, **given)
    else:
        drawn = list(range(notes + 1))
        chances = [float(chance) for chance in binom.pmf(drawn, notes, rate)]
        one = pld.from_mixture_gaussian_mechanism(sigma, drawn, chances, **given)
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))


def scale(setting: tuple) -> float:
    """About how large ε and one step's losses are, by Rényi DP of one note."""
    sigma, rate, steps, delta, notes = setting
    accountant = rdp.RdpAccountant([2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024])
    accountant.compose(dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), steps)
    z = 10 * notes / sigma + notes * notes / (2 * sigma**2)  # ln of the largest density ratio that matters
    largest = math.log1p(rate * math.expm1(min(z, 700))) if z < 700 else z
    return max(notes * float(accountant.get_epsilon(delta)), largest / 4)


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the main thread after so many seconds."""

    def stop(*_) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def main() -> None:
    """Write the table, a row at a time; rows that were found before are kept."""
    done = set()
    if TABLE.exists():
        with TABLE.open() as file:
            done = {tuple(row[:5]) for row in csv.reader(line for line in file if not line.startswith("#"))}
    with TABLE.open("a", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        if not done:
            file.write(
                f"# by tests/training/accounting/accounting_oracle.py with dp-accounting {version('dp-accounting')}\n"
            )
            rows.writerow(COLUMNS)
        for setting in settings():
            if tuple(map(str, setting)) in done:
                continue
            sigma, rate, steps, delta, notes = setting
            if rate == 1:
                lower = upper = closed_form(sigma, steps, delta, notes)
                interval = 0.0
            else:
                interval = float(f"{scale(setting) * (5e-5 if notes == 1 else 2e-3):.2g}")  # mixtures are slow
                for _ in range(4):
                    try:
                        with patience(PATIENCE):
                            lower, upper = (estimate(setting, interval, side) for side in (False, True))
                        break
                    except (TimeoutError, OverflowError, ValueError, MemoryError):
                        interval *= 10
                else:
                    continue
            rows.writerow([*setting, interval, f"{lower:.9g}", f"{upper:.9g}"])
            file.flush()


if __name__ == "__main__":
    main()
