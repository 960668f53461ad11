"""The six exercises of docs/teaching: what each one gives, and the answers to it.

Every answer is a property computed from what the exercise gives, so that the key cannot disagree with the exercise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.stats import norm

from core.evaluation.guarantee.odds import belief, mechanism_accuracy
from core.evaluation.wording import most_right_guesses
from core.training.accounting.composition import composed_epsilon
from core.training.accounting.gaussian import group_epsilon, noise_multiplier
from core.training.accounting.mechanism import Mechanism

Z = norm.ppf(0.975)


@dataclass(frozen=True)
class Figure:
    """A figure of a run with its 95 % interval."""

    value: float
    low: float
    high: float

    def contains(self, value: float) -> bool:
        """Whether the interval contains a value."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Ranked:
    """A canary's rank among all secrets that it could have been, 1 the likeliest."""

    name: str
    planted: bool
    rank: int
    size: int

    @property
    def exposure(self) -> float:
        """Bits: log2 |R| − log2 rank (Carlini et al. 2019)."""
        return math.log2(self.size) - math.log2(self.rank)


@dataclass(frozen=True)
class Exposure:
    """Exercise 1: exposure of canaries, some planted and some not.

    `shown` are the canaries of the exercise; `every` are all canaries of the run.
    """

    shown: tuple[Ranked, ...]
    every: tuple[Ranked, ...]
    bits: float = 3.0  # the level that is asked about

    @property
    def most(self) -> float:
        """The highest possible exposure, in bits."""
        return math.log2(self.shown[0].size)

    def arm(self, *, planted: bool) -> tuple[Ranked, ...]:
        """The canaries that were planted, or those that were not."""
        return tuple(one for one in self.every if one.planted == planted)

    def reached(self, *, planted: bool) -> int:
        """How many of them have at least `bits` of exposure."""
        return sum(one.exposure >= self.bits for one in self.arm(planted=planted))

    @property
    def chance(self) -> float:
        """Chance that a model which never saw a canary gives it at least `bits`: every rank is equally likely."""
        size = self.shown[0].size
        return math.floor(size / 2**self.bits) / size

    @property
    def expected(self) -> float:
        """Canaries that reach `bits` by chance, of those that were not planted."""
        return self.chance * len(self.arm(planted=False))


@dataclass(frozen=True)
class Clipping:
    """Exercise 2: one step of DP-SGD with four gradients in the plane, clipped to `bound`, with noise σ·C."""

    sigma: float
    gradients: tuple[tuple[str, float, float], ...] = (("A", 3, 4), ("B", 0.6, 0.8), ("C", -2, 0), ("D", 0, 0.5))
    bound: float = 1.0

    @cached_property
    def _vectors(self) -> np.ndarray:
        return np.array([vector for _, *vector in self.gradients], dtype=float)

    @property
    def lengths(self) -> np.ndarray:
        """(notes,)."""
        return np.linalg.norm(self._vectors, axis=1)

    @property
    def clipped(self) -> np.ndarray:
        """Every gradient scaled to length `bound` if it is longer, (notes, 2)."""
        return self._vectors * np.minimum(1.0, self.bound / self.lengths)[:, None]

    @property
    def total(self) -> np.ndarray:
        """The clipped sum, (2,)."""
        return self.clipped.sum(0)

    @property
    def raw_total(self) -> np.ndarray:
        """The sum without clipping, (2,)."""
        return self._vectors.sum(0)

    @property
    def deviation(self) -> float:
        """Standard deviation of the noise in each direction."""
        return self.sigma * self.bound

    @property
    def right_guesses(self) -> float:
        """Best chance to tell from one noisy sum whether A is in it: Φ(C/(2σC)) for two normal curves C apart."""
        return float(norm.cdf(1 / (2 * self.sigma)))


HANDOUT = Clipping(sigma=1.0, gradients=(("a", 6, 8), ("b", -0.3, 0.4)))  # the step of the handout's task 2


@dataclass(frozen=True)
class Accusation:
    """An attack at one threshold: how many of the members and of the others it accuses."""

    members: int
    others: int
    caught: int
    accused: int

    @property
    def tpr(self) -> float:
        """Share of the members that it catches."""
        return self.caught / self.members

    @property
    def fpr(self) -> float:
        """Share of the others that it accuses."""
        return self.accused / self.others

    @property
    def base_rate(self) -> float:
        """Share of members among those judged."""
        return self.members / (self.members + self.others)

    def precision(self, base_rate: float) -> float:
        """Share of members among those accused, if `base_rate` of the people are members (Bayes' rule)."""
        caught, accused = base_rate * self.tpr, (1 - base_rate) * self.fpr
        return caught / (caught + accused)


@dataclass(frozen=True)
class BaseRate:
    """Exercise 3: the same attack at two thresholds, and at the lower one on a private model."""

    strict: Accusation
    loose: Accusation
    private: Accusation
    base_rate: float = 0.01


@dataclass(frozen=True)
class NearHalf:
    """Exercise 4: what an AUC near ½ shows. AUC by patient, `members` against `others`.

    `difference_by_note` and `difference_by_patient` are the AUC less that on the public model. Both AUCs are of the
    same patients, so whether the attack gains from the training is read from these, and not from two intervals that
    overlap.
    """

    notes: Figure
    patients: Figure
    base: Figure
    difference_by_note: Figure
    difference_by_patient: Figure
    members: int
    others: int
    known: float = 0.01  # share of the members that an imagined model gives away completely

    @property
    def hidden_auc(self) -> float:
        """AUC of a model that gives `known` of its members away for certain, and about the others nothing."""
        return self.known + (1 - self.known) / 2

    @property
    def hidden_tpr(self) -> float:
        """Share of its members caught when 1 of 100 others is accused."""
        return self.known + (1 - self.known) * 0.01

    @property
    def deviation(self) -> float:
        """Standard deviation of a blind attack's AUC: √((m + n + 1)/(12·m·n)) (Mann & Whitney 1947)."""
        return math.sqrt((self.members + self.others + 1) / (12 * self.members * self.others))

    @property
    def margin(self) -> float:
        """Half the width of the range in which 95 % of blind attacks' AUCs lie."""
        return Z * self.deviation

    @property
    def all_on_top(self) -> float:
        """Chance that all of the highest scores, as many as `known` of the members, are members' by chance."""
        top = int(self.known * self.members)
        return math.comb(self.members, top) / math.comb(self.members + self.others, top)

    @property
    def enough(self) -> int:
        """The smallest n of members and of others with a margin no larger than the excess of `hidden_auc` over ½."""
        excess, low, high = self.hidden_auc - 0.5, 1, 2
        while Z * math.sqrt((2 * high + 1) / 12) / high > excess:
            high *= 2
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if Z * math.sqrt((2 * middle + 1) / 12) / middle <= excess else (middle + 1, high)
        return low


@dataclass(frozen=True)
class Together:
    """Exercise 5: a patient with many notes, and two models trained on the same notes."""

    one: Mechanism
    eight: Mechanism
    median: int  # training notes of the median patient
    most: int

    def group(self, notes: int) -> tuple[float, float]:
        """(ε, δ) of a patient by the general formula, from the promise for one note: 1 and the model's δ."""
        return group_epsilon(1.0, self.one.delta, notes)

    def exact(self, notes: int) -> float:
        """ε of a patient at the same δ, by the exact accounting of all notes."""
        return self.one.patient_epsilon(notes)

    @property
    def both(self) -> float:
        """ε per note of both models together at the δ of one, by exact composition."""
        return composed_epsilon([self.one, self.eight], self.one.delta)[0]


@dataclass(frozen=True)
class Model:
    """What a board reads about a model: its ε, the odds, what was measured, and how useful it is."""

    epsilon: float
    mechanism: Mechanism | None
    names: Figure
    auc: Figure
    perplexity: Figure

    @property
    def promised(self) -> float:
        """Largest chance of a right guess about one note that (ε, δ) allows."""
        return 1.0 if self.mechanism is None else most_right_guesses(self.epsilon, self.mechanism.delta)

    @property
    def exact(self) -> float:
        """Largest chance of a right guess about one note that this training's own noise allows."""
        return 1.0 if self.mechanism is None else mechanism_accuracy([self.mechanism])

    def belief(self, prior: float) -> float:
        """The most that a belief of `prior` can rise to, by (ε, δ), except in rare outcomes that δ allows."""
        return belief(prior, self.epsilon)


@dataclass(frozen=True)
class Odds:
    """Exercise 6: choose an ε by odds. The limits are chances of a right guess."""

    models: tuple[Model, ...]
    control: Figure
    limits: tuple[float, ...] = (0.6, 0.95)
    prior: float = 0.1

    @staticmethod
    def largest_epsilon(limit: float) -> float:
        """The ε at which a guess at even odds is right with chance `limit` at most: ln(p/(1 − p)), for δ = 0."""
        return math.log(limit / (1 - limit))

    def meeting(self, limit: float) -> tuple[Model, ...]:
        """The models whose own noise keeps to the limit."""
        return tuple(one for one in self.models if one.exact <= limit)


@dataclass(frozen=True)
class Notebook:
    """What the questions in the notebook ask for. The first four figures are of the model without privacy."""

    dates: Figure  # share of patients whose date of birth it wrote
    dates_heldout: Figure
    notes: Figure  # AUC of the loss attack
    patients: Figure
    private: Mechanism

    @cached_property
    def epsilon(self) -> float:
        """ε of the private model."""
        return self.private.epsilon()

    @cached_property
    def halving_sigma(self) -> float:
        """The noise multiplier with which the same steps would have half the ε."""
        p = self.private
        return noise_multiplier(
            target_epsilon=self.epsilon / 2,
            sample_rate=p.sample_rate,
            steps=p.steps,
            delta=p.delta,
            accountant=p.counted_by,
        )


@dataclass(frozen=True)
class Exercises:
    """All six, in the order of the sheet."""

    exposure: Exposure
    clipping: Clipping
    base_rate: BaseRate
    near_half: NearHalf
    together: Together
    odds: Odds
    notebook: Notebook
    training_notes: int
    patients: int
