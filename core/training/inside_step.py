"""Inside one step of DP-SGD: the gradients of the units of a real sample, computed one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch

from core.common.randomness import PublicSeed
from core.models.build import LanguageModel
from core.spec import PrivacySpec, TrainingSpec
from core.training.batching import Feed, UnitPiece, training_samples
from core.training.losses import example_losses
from core.training.plan import sampled_plan
from core.training.sampling import Units
from core.training.step_gradients import StepGradients
from core.training.weights import trainable

MOST_UNITS = 256  # of a sample; more would need gigabytes of gradients
MOST_BYTES = 2 << 30  # of their directions
COLUMNS = 1 << 16  # parameters whose products are added at once


def first_step(
    lm: LanguageModel,
    notes: pd.DataFrame,
    training: TrainingSpec,
    privacy: PrivacySpec,
    *,
    most: int = MOST_UNITS,
    on_progress: Callable[[int, int], None] | None = None,
) -> StepGradients:
    """The gradients of the units that a run samples in its first step, at the weights of `lm`.

    The sample and the masks are those of a run with this public seed; of larger samples `most` units are drawn.

    Args:
        lm: the model before training (or another one of its kind, to see the same notes' gradients elsewhere).
        notes: the training notes, columns note_id, patient_id and text; already capped for each patient.
        training: of the run.
        privacy: of the run; its unit and nothing else counts.
        most: units at most.
        on_progress: called after every unit with (done, of how many).

    Raises:
        ValueError: if the sample of the first step is empty, or its gradients would take more than MOST_BYTES.
    """
    patients = notes["patient_id"].to_numpy(dtype=object)
    planned = sampled_plan(privacy.unit, training, notes=len(notes), patients=len(set(patients)))
    samples = training_samples(lm, notes["text"].array, training.max_tokens)
    feed = Feed(lm, samples, training, PublicSeed(training.seed))
    units = Units.build(privacy.unit, feed.note_index, patients)
    _, sample = feed.sampled(1, units, planned.sample_rate)
    examples = [(batch, names) for physical in sample for batch, names in physical]
    found = np.unique(np.concatenate([names for _, names in examples])) if examples else np.empty(0, dtype=np.int64)
    if not len(found):
        raise ValueError("the first step of this run sampled no notes: raise its batch size")
    drawn = np.sort(np.random.default_rng(training.seed).permutation(found)[:most])
    with trainable(lm.model, training.trainable) as named:
        gram, parameters = _gram(lm, list(named.values()), examples, drawn, feed.masks, on_progress)
    first_notes = [int(feed.note_index[units.of(int(unit)).min()]) for unit in drawn]
    return StepGradients(
        notes=tuple(notes["note_id"].iloc[first_notes]),
        patients=tuple(patients[first_notes]),
        gram=gram,
        parameters=parameters,
        expected=planned.expected_units,
        sampled=len(found),
    )


def _gram(
    lm: LanguageModel,
    parameters: Sequence[torch.nn.Parameter],
    examples: Sequence[UnitPiece],
    drawn: np.ndarray,
    masks: int,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, int]:
    """Inner products of the units' gradients, (n, n), and the number of parameters.

    A unit's examples are read alone, one backward pass a unit and batch. Directions are kept in half precision (of unit
    length, so that none underflows), and lengths in single precision.
    """
    count = sum(one.numel() for one in parameters)
    if 2 * count * len(drawn) > MOST_BYTES:
        raise ValueError(
            f"the gradients of {len(drawn)} units of a model with {count:,} parameters do not fit into memory: look at "
            "a smaller model"
        )
    directions = np.zeros((len(drawn), count), dtype=np.float16)
    norms = np.zeros(len(drawn))
    for row, unit in enumerate(drawn):
        flat = unit_gradient(lm, parameters, examples, int(unit), masks)
        norms[row] = float(flat.norm())
        directions[row] = (flat / max(norms[row], 1e-30) * np.sqrt(count)).half().cpu().numpy()
        if on_progress is not None:
            on_progress(row + 1, len(drawn))
    products = np.zeros((len(drawn), len(drawn)))
    for start in range(0, count, COLUMNS):
        part = directions[:, start : start + COLUMNS].astype(np.float32)
        products += part @ part.T
    products /= np.sqrt(np.outer(np.diag(products), np.diag(products))).clip(min=1e-30)  # exactly 1 on the diagonal
    return products * np.outer(norms, norms), count


def unit_gradient(
    lm: LanguageModel, parameters: Sequence[torch.nn.Parameter], examples: Sequence[UnitPiece], unit: int, masks: int
) -> torch.Tensor:
    """The gradient of one unit's examples by autograd, read alone: float32, all `parameters` side by side, unclipped.

    It owes nothing to `core.training.gradients`, so it can be compared with what clipping computes.
    """
    losses = [
        example_losses(lm, batch.only(np.flatnonzero(names == unit))).sum()
        for batch, names in examples
        if (names == unit).any()
    ]
    gradients = torch.autograd.grad(torch.stack(losses).sum() / masks, parameters, allow_unused=True)
    return torch.cat(
        [
            torch.zeros(one.numel(), device=lm.device) if found is None else found.flatten()
            for one, found in zip(parameters, gradients, strict=True)
        ]
    ).float()
