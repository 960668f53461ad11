"""Certified δ and ε of composed privacy losses: tilted Fourier convolution, with a bound on everything left out.

The losses of T steps add, so their distributions are convolved T times. Weighting each loss l by e^(θl) first
("exponential tilting", as for a saddle point) moves the mass to where δ(ε) is determined. The rounding of the Fourier
transforms is then small relative to δ, however small δ is, and a window of a few deviations is enough. Added to δ are:

* mass above the window, by Chernoff's bound, and mass at loss ∞;
* the rounding of the transforms: an FFT of N points has a relative error below 8·u·log₂N in the L2 norm (Higham 2002,
  "Accuracy and Stability of Numerical Algorithms", theorem 24.2, with a margin), and T powers T times that; its effect
  on δ follows by the Cauchy–Schwarz inequality.

Mass below the window is folded into it, where it only raises δ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import fft
from scipy.optimize import brentq
from scipy.special import ndtri

from core.training.accounting.loss_distribution import LARGEST_EXPONENT, ROUNDING, Losses, Step, discretise

LARGEST_WINDOW = 1 << 21  # points of a Fourier transform; about 0.2 GB while it is computed
LARGEST_STEP = 1 << 19  # points of one step's loss
ACCURACY = 2e-4  # target accuracy of the grid, relative to ε
TILTS = 2.0 ** (1 / 4)  # ratio of neighbouring θ in the search
MOST_TILT = 50.0  # θ·h, above which all mass is in the highest cell
NEGLIGIBLE = 1e-6  # share of δ that the cut-off tails of single steps may add
FORGOTTEN = 50.0  # θ·(l − ε), above which a loss l adds next to nothing to δ(ε)
MATTERS = 0.7  # a direction whose quick bound is below this share of the other's does not determine ε
OUTSIDE = 1e-6  # share of the tilted mass that a window leaves out at either end


@dataclass
class Cumulants:
    """ln E e^(θL) of the steps of every kind, with its first two derivatives; computed once for each θ."""

    h: float
    losses: Sequence[Losses]
    found: dict[float, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    def at(self, tilt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(K, K′, K″, added variance) of one step of each kind under the tilt θ, without shifts."""
        if tilt not in self.found:
            rows = np.array([self._of(one, tilt) for one in self.losses])
            self.found[tilt] = tuple(rows.T)
        return self.found[tilt]

    def _of(self, one: Losses, tilt: float) -> tuple[float, float, float, float]:
        at = (one.start + np.arange(len(one.mass))) * self.h
        with np.errstate(divide="ignore"):
            logs = np.log(one.mass) + tilt * at
        top = float(logs.max())
        weights = np.exp(logs - top)
        total = float(weights.sum())
        mean = float(weights @ at) / total
        variance = float(weights @ (at - mean) ** 2) / total
        spread = float(one.spread @ np.exp(np.minimum(tilt * at - top, 700.0))) / total
        return top + math.log(total), mean, variance, spread


@dataclass
class Composed:
    """The losses of several kinds of step in one direction; any number of each can be composed."""

    h: float
    losses: Sequence[Losses]

    def __post_init__(self) -> None:
        self.cumulants = Cumulants(self.h, self.losses)
        self._last = 0

    def chernoff(self, steps: np.ndarray, delta: float) -> tuple[float, float]:
        """The tilt θ that minimises (K(θ) + ln 1/δ)/θ over a grid, and that minimum: an upper bound on ε."""

        def bound(index: int) -> float:
            tilt = TILTS**index
            return (float(steps @ self.cumulants.at(tilt)[0]) - math.log(delta)) / tilt

        most = math.floor(math.log(MOST_TILT / self.h) / math.log(TILTS))
        best, value, stride = min(self._last, most), bound(min(self._last, most)), 16
        while stride:
            for side in (-stride, stride):
                while -400 < best + side <= most and (candidate := bound(best + side)) < value:
                    best, value = best + side, candidate
            stride //= 2
        self._last = best
        return TILTS**best, value

    def chernoff_epsilon(self, steps: Sequence[int], delta: float) -> float:
        """A quick and loose upper bound on ε: P(loss > ε) ≤ δ suffices."""
        counts = np.array(steps, dtype=np.float64)
        infinite, shift = (
            float(counts @ [getattr(one, name) for one in self.losses]) for name in ("infinite", "shift")
        )
        left = delta * (1 - 1e-6) - infinite
        return self.chernoff(counts, left)[1] + shift if left > 0 else math.inf

    def epsilon(self, steps: Sequence[int], delta: float) -> float:
        """The least certified ε at `delta` after `steps[i]` steps of kind i; ∞ where the tails alone exceed δ."""
        counts = np.array(steps, dtype=np.float64)
        shift = float(counts @ [one.shift for one in self.losses])
        tilt, _ = self.chernoff(counts, delta)
        view = self._window(counts, steps, tilt)
        if view is None or view.added >= delta:
            return math.inf
        if view.delta(view.bottom) <= delta:  # ε lies below the window: use one that reaches down to 0
            view = self._window(counts, steps, tilt, -shift) or view
        if view.bottom <= -shift and view.delta(-shift) <= delta:
            return 0.0
        return max(0.0, view.epsilon(delta) + shift)

    def deltas(self, steps: Sequence[int], epsilons: np.ndarray) -> np.ndarray:
        """Certified δ, at most 1, at every one of `epsilons` (each at least 0): shape (len(epsilons),).

        Computed without a tilt, so the error is absolute: about 10⁻⁶.
        """
        counts = np.array(steps, dtype=np.float64)
        shift = float(counts @ [one.shift for one in self.losses])
        view = self._window(counts, steps, 0.0, -shift)
        return np.ones(len(epsilons)) if view is None else np.minimum(1.0, view.deltas(epsilons - shift))

    def _window(self, counts: np.ndarray, steps: Sequence[int], tilt: float, least: float = math.inf) -> _Window | None:
        """The composed, tilted loss on a window around its mean that extends down to `least`."""
        first, size = self.reach(counts, tilt, least)
        if size > LARGEST_WINDOW:
            return None
        k = self.cumulants.at(tilt)[0]
        total = float(counts @ k)
        mass, error, drift = self._convolved(steps, k, tilt, first, size)
        above = OUTSIDE * math.exp(min(700.0, total - tilt * (first + size) * self.h))
        infinite = float(counts @ [one.infinite for one in self.losses])
        return _Window(first * self.h, self.h, mass, tilt, total, error, drift, infinite + above)

    def reach(self, counts: np.ndarray, tilt: float, least: float = math.inf) -> tuple[int, int]:
        """First index and number of points of a window with all but `OUTSIDE` of the tilted mass at either end."""
        k, _, variances, _ = self.cumulants.at(tilt)
        total, deviation = float(counts @ k), max(self.h, math.sqrt(float(counts @ variances)))
        bottom, top = -math.inf, math.inf
        goal = math.log(OUTSIDE)
        for units in (0.2, 0.5, 1.0, 2.0, 4.0, 6.0, 12.0, 30.0):
            apart = units / deviation
            lower, upper = (float(counts @ self.cumulants.at(tilt + side)[0]) for side in (-apart, apart))
            # P_θ(S ≤ y) ≤ exp(K(θ − a) − K(θ) + a·y), and likewise above
            bottom = max(bottom, (goal - lower + total) / apart)
            top = min(top, (upper - total - goal) / apart)
        first = math.floor(min(bottom, least) / self.h) - 1
        return first, fft.next_fast_len(math.ceil(top / self.h) - first + 2, real=True)

    def _convolved(
        self, steps: Sequence[int], k: np.ndarray, tilt: float, first: int, size: int
    ) -> tuple[np.ndarray, float, float]:
        """The tilted masses from index `first` on, a bound on their L2 error, and one on the error of all logs."""
        spectrum, start, error, drift = np.ones(size // 2 + 1, dtype=np.complex128), 0, 0.0, 0.0
        transform = 8 * ROUNDING * math.log2(max(2, size))
        for one, count, log_total in zip(self.losses, steps, k, strict=True):
            if count == 0:
                continue
            mass, rounding = self._tilted(one, tilt, float(log_total), size)
            with np.errstate(divide="ignore", invalid="ignore"):
                power = np.exp(count * np.log(fft.rfft(mass, size)))
            spectrum *= np.nan_to_num(power)
            start += count * one.start
            error += count * (transform * float(np.linalg.norm(mass)))
            drift += count * rounding
        out = np.roll(fft.irfft(spectrum, size), (start - first) % size)
        error += (transform + 16 * ROUNDING * sum(steps)) * float(np.linalg.norm(out))
        return out, 2 * error, drift

    def _tilted(self, one: Losses, tilt: float, log_total: float, size: int) -> tuple[np.ndarray, float]:
        """Masses times e^(θl − K), folded into `size` points, and a bound on the rounding of their logarithms."""
        at = (one.start + np.arange(len(one.mass))) * self.h
        with np.errstate(divide="ignore"):
            logs = np.log(one.mass)
        exponents = logs + tilt * at - log_total
        seen = exponents > -745
        largest = float(np.max(np.abs(tilt * at[seen]), initial=0) + np.max(np.abs(logs[seen]), initial=0))
        mass = np.exp(exponents)
        if len(mass) > size:
            mass = np.pad(mass, (0, -len(mass) % size)).reshape(-1, size).sum(axis=0)
        return mass, 8 * ROUNDING * (largest + abs(log_total) + 16)


@dataclass
class _Window:
    """A composed loss under a tilt: `mass[i]` at bottom + i·h, times e^(θl − `log_total`)."""

    bottom: float
    h: float
    mass: np.ndarray
    tilt: float
    log_total: float
    error: float  # of `mass`, in L2
    drift: float  # of the logarithm of everything
    added: float  # to δ: loss ∞, and the mass above the window

    def delta(self, epsilon: float) -> float:
        """An upper bound on δ(ε), for an ε in the window."""
        first = max(0, math.floor((epsilon - self.bottom) / self.h))
        last = len(self.mass)
        if self.tilt > 0:
            last = min(last, first + 3 + math.ceil(FORGOTTEN / (self.tilt * self.h)))
        over = self.bottom + np.arange(first, last) * self.h - epsilon
        kept = np.where(over > 0, np.exp(-self.tilt * np.maximum(over, 0)) * -np.expm1(-np.maximum(over, 0)), 0.0)
        inside = float(kept @ self.mass[first:last]) + float(np.linalg.norm(kept)) * self.error
        if last < len(self.mass):
            inside += math.exp(-FORGOTTEN) * 2  # the losses above
        scale = math.exp(min(700.0, self.log_total - self.tilt * epsilon + self.drift))
        return scale * inside * (1 + 1e-9) + self.added

    def deltas(self, epsilons: np.ndarray) -> np.ndarray:
        """Upper bounds on δ(ε) for many ε of a window without a tilt, from two sums over the losses l > ε.

        δ(ε) = Σ m(l) − e^ε·Σ m(l)·e^(−l). The error of the masses counts by Cauchy–Schwarz with weights of at most 1,
        and that of the sums by their number of terms.
        """
        assert self.tilt == 0.0
        size = len(self.mass)
        at = self.bottom + np.arange(size) * self.h
        origin = float(np.min(epsilons, initial=0.0))  # losses below it are in no sum, and e^(origin − l) is at most 1
        fading = self.mass * np.exp(np.minimum(0.0, origin - at))
        whole, faded = (np.append(np.cumsum(one[::-1])[::-1], 0.0) for one in (self.mass, fading))
        first = np.clip(np.floor((epsilons - self.bottom) / self.h).astype(np.int64) + 1, 0, size)
        growth = np.exp(np.minimum(epsilons - origin, LARGEST_EXPONENT))
        inside = whole[first] - growth * faded[first]
        rounding = 4 * ROUNDING * size * float(np.abs(self.mass).sum())
        inside = np.maximum(inside, 0.0) + math.sqrt(size) * self.error + 2 * rounding
        return math.exp(min(700.0, self.log_total + self.drift)) * inside * (1 + 1e-9) + self.added

    def epsilon(self, delta: float) -> float:
        """The least ε in the window with δ(ε) ≤ `delta`, within 10⁻⁷ of its distance; ∞ where there is none."""
        low, high = self.bottom, self.bottom + (len(self.mass) - 1) * self.h
        if self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return low
        precision = 1e-7 * max(self.h, 1e-3 * abs(high))
        with np.errstate(divide="ignore"):
            root = brentq(lambda at: self._excess(at, delta), low, high, xtol=precision)
        while self.delta(root) > delta:
            root, precision = root + precision, 2 * precision
        return root

    def _excess(self, epsilon: float, delta: float) -> float:
        """ln(δ(ε)/δ), which is nearly linear in ε."""
        return math.log(self.delta(epsilon) / delta)


def both_directions(
    kinds: Sequence[Step], steps: Sequence[int], delta: float, accuracy: float = ACCURACY
) -> tuple[Composed, Composed] | None:
    """The losses of every kind of step for a removed and for an added unit, on a grid fine enough for `steps` of each.

    The grid aims at a relative error of `accuracy` in ε; whatever its error, the resulting ε and δ are upper bounds.

    Returns:
        (removed, added), or None where no grid that fits in memory has an answer.
    """
    counts = np.array(steps, dtype=np.float64)
    tail = max(1e-300, NEGLIGIBLE * delta / (4 * float(counts.sum())))
    width = max(_width(kind, tail) for kind in kinds)
    h, finest = width / 512, 1.1 * width / LARGEST_STEP
    found = None
    for _ in range(12):
        pairs = [discretise(kind, h, tail, LARGEST_STEP) for kind in kinds]
        if any(pair is None for pair in pairs):
            break
        removed, added = zip(*pairs, strict=True)
        candidate = Composed(h, removed), Composed(h, added)
        excess, points = 0.0, 0
        bounds = [one.chernoff(counts, delta) for one in candidate]
        largest = max(about for _, about in bounds)
        for one, (tilt, about) in zip(candidate, bounds, strict=True):
            if about < MATTERS * largest:
                continue  # the other direction determines ε
            spread = one.cumulants.at(tilt)[3]
            excess = max(excess, (1 + tilt) / 2 * float(counts @ spread) / (accuracy * max(about, 1e-300)))
            points = max(points, one.reach(counts, tilt)[1])
        if points > LARGEST_WINDOW:
            h *= 2 * points / LARGEST_WINDOW
            if found is not None:  # between a grid that is too fine and the one found
                h = math.sqrt(candidate[0].h * found[0].h)
                if h > 0.8 * found[0].h:
                    break
            continue
        found = candidate
        if excess <= 1:
            break
        h = max(finest, h * max(0.05, 1.1 * points / LARGEST_WINDOW, min(0.7, 0.9 / math.sqrt(excess))))
        if h >= 0.99 * candidate[0].h:
            break
    return found


def _width(kind: Step, tail: float) -> float:
    """The range of the finite losses of a step."""
    reach = -float(ndtri(tail)) * kind.sigma
    low, high = kind.loss(np.array([-reach, kind.largest + reach]))
    return float(high - low)
