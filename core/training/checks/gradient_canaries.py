"""A whole private training with planted gradients, seen by somebody who watches every noisy sum (white-box audit).

The strongest attacker that ε speaks of sees the noisy gradient of every step. Each canary is one more unit of the data
whose clipped gradient is C at one weight and 0 elsewhere (“Dirac” canaries, Nasr et al. 2023; in one run, Steinke, Nasr
& Jagielski 2023, §6). A fair coin decides whether it is in the data; if it is, every step samples it with the run's q.
The training is the run's own, with its notes, its noise and its optimiser. Canaries enter its gradient after clipping:
the sum is linear, so a unit of length C that clipping leaves as it is may be added there. That clipping does cut what
is longer is checked by `core.training.checks.steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from core.common.randomness import PublicSeed
from core.models.build import LanguageModel
from core.spec import PrivacySpec, TrainingSpec
from core.training.accounting.mechanism import Mechanism
from core.training.batching import training_samples
from core.training.plan import check
from core.training.steps import PrivateSteps
from core.training.weights import optimizer_of, take_step, trainable

CANARIES = 5_000  # all guesses right then prove more than ε = 8 on the shipped settings; 1,000 cannot
_STREAM = 83


@dataclass(frozen=True)
class Watched:
    """What a training showed: the coins, (canaries,) bool, and the evidence that each canary is in, in nats."""

    inside: np.ndarray
    evidence: np.ndarray
    mechanism: Mechanism


def watch(
    lm: LanguageModel,
    notes: pd.DataFrame,
    training: TrainingSpec,
    privacy: PrivacySpec,
    *,
    canaries: int = CANARIES,
    seed: int = 0,
    on_step: Callable[[int, int], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Watched:
    """Train `lm` in place with canaries in its gradients.

    Args:
        lm: the public model that training starts from.
        notes: the training notes, columns patient_id and text; already capped for each patient.
        training: of the run.
        privacy: of the run.
        canaries: how many coins are tossed.
        seed: of the coins, the canaries' places and their samples; the notes' are those of the run with a public seed.
        on_step: called with (done, steps) after every step.
        should_stop: asked before every step; True ends the training, and what was seen so far is returned.

    Raises:
        ValueError: settings without privacy or that cannot be trained, or more canaries than weights.
    """
    if not privacy.private:
        raise ValueError("a training without privacy adds no noise, so there is no promise to audit")
    patients = notes["patient_id"].to_numpy(dtype=object)
    check(privacy, training, notes=len(notes), patients=len(set(patients)))
    samples = training_samples(lm, notes["text"].array, training.max_tokens)
    with trainable(lm.model, training.trainable) as parameters:
        steps = PrivateSteps(lm, samples, patients, training, privacy, PublicSeed(training.seed))
        planted = _Planted(list(parameters.values()), steps.mechanism, canaries, seed)
        optimizer = optimizer_of(parameters.values(), training)
        try:
            for step in range(1, steps.steps + 1):
                if should_stop is not None and should_stop():
                    break
                optimizer.zero_grad(set_to_none=True)
                steps.gradient(step, lambda: None, lambda stats: None)
                planted.add_and_look(step, steps.expected_units)
                take_step(optimizer, training, step, steps.steps)
                if on_step is not None:
                    on_step(step, steps.steps)
        finally:
            steps.close()
    return Watched(planted.inside, planted.evidence, steps.mechanism)


class _Planted:
    """Canaries in the gradients of a training, and what its noisy sums say about each."""

    def __init__(self, parameters: list[torch.nn.Parameter], mechanism: Mechanism, canaries: int, seed: int) -> None:
        sizes = np.array([one.numel() for one in parameters])
        if not 1 <= canaries <= sizes.sum():
            raise ValueError(f"the number of canaries must be from 1 to {sizes.sum():,}, the number of weights")
        rng = np.random.default_rng([seed, _STREAM])
        places = np.sort(rng.choice(sizes.sum(), size=canaries, replace=False))
        owner = np.searchsorted(np.cumsum(sizes), places, side="right")
        within = places - (np.cumsum(sizes) - sizes)[owner]
        self._parts = [
            (parameters[number], torch.from_numpy(within[owner == number]), np.flatnonzero(owner == number))
            for number in np.unique(owner)
        ]
        self._mechanism, self._seed = mechanism, seed
        self.inside = rng.random(canaries) < 0.5
        self.evidence = np.zeros(canaries)

    @torch.no_grad()
    def add_and_look(self, step: int, expected_units: float) -> None:
        """Add the canaries that this step samples to its noisy gradient, and weigh what is then seen of each.

        With y the noisy sum at the canary's weight in units of C, an attacker who knows q and σ takes
        log(1 − q + q·exp((2y − 1)/(2σ²))) as the step's evidence: the likelihood ratio of in and out.
        """
        rate, sigma = self._mechanism.sample_rate, self._mechanism.noise_multiplier
        sampled = self.inside & (np.random.default_rng([self._seed, _STREAM, step]).random(len(self.inside)) < rate)
        unit = self._mechanism.max_grad_norm / expected_units  # how a sum of length C stands in the mean gradient
        for parameter, places, which in self._parts:
            assert parameter.grad is not None
            flat = parameter.grad.view(-1)
            at = places.to(flat.device)
            flat[at] += torch.from_numpy(sampled[which] * unit).to(flat)
            seen = flat[at].double().cpu().numpy() / unit
            self.evidence[which] += np.log1p(rate * np.expm1((2 * seen - 1) / (2 * sigma**2)))
