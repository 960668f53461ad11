"""Cost of privacy in a training step, in this project and elsewhere: `python -m core bench clipping --json`.

All sides of a figure see the same tensors: 32 random samples of 64 tokens (GPT-2 or DistilBERT, 4 layers × 128,
vocabulary 2,048), forward, backward, clipping, noise and AdamW. A patient's notes differ in length, so for the unit
patient both sides take 64 samples of 16 to 64 tokens, 8 per patient, in the pieces of equal length into which training
splits them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from bench import _bare, _opacus
from bench._models import SHAPES, Shape, chosen, random_model
from bench._ratio import Figures, figure, in_turns, show
from core.models.build import LanguageModel
from core.spec import ModelKind
from core.training.gradients.clipping import Clipper
from core.training.losses import Batch, causal_batch, example_losses, masked_batch
from core.training.sampling import pieces

NOISE_MULTIPLIER, MAX_GRAD_NORM, LEARNING_RATE = 1.0, 1.0, 1e-3
NOTES_A_PATIENT = 8
REPORT_BATCH = 4  # PrivAI-Leak report, §5.2.1
Piece = tuple[Batch, np.ndarray]  # a batch and the unit of each of its examples


def main(json: bool = False, rounds: int = 9, shape: str = "tiny", device: str = "cpu") -> None:
    """Print the figures of clipping."""
    show(measure(rounds, shape=chosen(shape, device), device=device), json=json)


def measure(
    rounds: int,
    *,
    shape: Shape = SHAPES["tiny"],
    samples: int = 32,
    tokens: int = 64,
    steps: int = 4,
    device: str = "cpu",
) -> Figures:
    """Every figure of this file; each side takes `steps` steps per round."""
    figures: Figures = {}
    for kind in ("gpt2", "distilbert"):
        figures |= _against_plain(kind, rounds, shape, samples, tokens, steps, device)
    return figures | _against_others(rounds, shape, samples, tokens, steps, device)


def _against_plain(
    kind: ModelKind, rounds: int, shape: Shape, samples: int, tokens: int, steps: int, device: str
) -> Figures:
    even = [tokens] * samples
    mixed = np.random.default_rng(1).integers(max(2, tokens // 4), tokens + 1, 2 * samples).tolist()

    def model() -> LanguageModel:
        return random_model(kind, shape, device=device)

    notes, patients = _pieces(model(), even, 1), _pieces(model(), mixed, NOTES_A_PATIENT)
    sides = {
        "plain note": _repeated(plain_step(model(), notes), steps),
        "private note": _repeated(private_step(model(), notes), steps),
        "plain patient": _repeated(plain_step(model(), patients), steps),
        "private patient": _repeated(private_step(model(), patients), steps),
    }
    seconds = in_turns(sides, rounds)
    return {
        key: value
        for unit in ("note", "patient")
        for key, value in figure(
            f"dp_over_plain_{unit}_{kind}", seconds[f"private {unit}"], seconds[f"plain {unit}"]
        ).items()
    }


def _against_others(rounds: int, shape: Shape, samples: int, tokens: int, steps: int, device: str) -> Figures:
    """Both modes of Opacus and the naive loop, on GPT-2."""

    def model(tied: bool = True) -> LanguageModel:
        return random_model("gpt2", shape, tied=tied, device=device)

    notes = _pieces(model(), [tokens] * samples, 1)
    ids = notes[0][0].ids
    settings = (NOISE_MULTIPLIER, MAX_GRAD_NORM, LEARNING_RATE)
    sides = {
        "ours": _repeated(private_step(model(), notes), steps),
        "ours, untied": _repeated(private_step(model(tied=False), notes), steps),
        "hooks": _repeated(_opacus.hooks_step(model().model, ids, *settings), steps),
        "ghost": _repeated(_opacus.ghost_step(model(tied=False).model, ids, *settings), steps),
        "one by one": _repeated(one_by_one_steps(_bare.with_defaults(model()), ids), steps),
    }
    seconds = in_turns(sides, rounds)
    return {
        **figure("opacus_hooks_over_ours", seconds["hooks"], seconds["ours"]),
        **figure("opacus_ghost_over_ours", seconds["ghost"], seconds["ours, untied"]),
        **figure("naive_loop_over_ours", seconds["one by one"], seconds["ours"]),
    }


def _repeated(step: Callable[[], None], steps: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(steps):
            step()

    return run


def _pieces(lm: LanguageModel, lengths: list[int], a_unit: int) -> list[Piece]:
    """Random samples of these lengths, `a_unit` of them per unit, split into pieces as in training."""
    rng = np.random.default_rng(0)
    ordinary = np.setdiff1d(np.arange(len(lm.tokenizer)), lm.tokenizer.all_special_ids)
    ids = [rng.choice(ordinary, length) for length in lengths]
    keys = [rng.random((2, length)) for length in lengths]
    units = np.arange(len(ids)) // a_unit

    def padded(rows: np.ndarray) -> Batch:
        chosen = [ids[row] for row in rows]
        if lm.causal:
            return causal_batch(chosen, lm.device)
        return masked_batch(chosen, [keys[row] for row in rows], lm.tokenizer, lm.device)

    return [(padded(rows), names) for rows, names in pieces(np.arange(len(ids)), units, np.array(lengths))]


def _optimizer(lm: LanguageModel) -> torch.optim.Optimizer:
    return torch.optim.AdamW(lm.model.parameters(), lr=LEARNING_RATE, weight_decay=0.0, fused=True)


def plain_step(lm: LanguageModel, batches: list[Piece]) -> Callable[[], None]:
    """A step without privacy, as in `core.training.trainer`."""
    optimizer, size = _optimizer(lm), sum(len(names) for _, names in batches)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for batch, _ in batches:
            (example_losses(lm, batch).sum() / size).backward()
        optimizer.step()

    return step


def private_step(lm: LanguageModel, batches: list[Piece]) -> Callable[[], None]:
    """A private step, as in `core.training.trainer`."""
    optimizer, clipper = _optimizer(lm), Clipper(lm.model, MAX_GRAD_NORM)
    units = len(np.unique(np.concatenate([names for _, names in batches])))
    rng = np.random.default_rng(0)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        for batch, names in batches:
            clipper.backward(example_losses(lm, batch), names)
        clipper.clip()
        clipper.noisy_gradient(NOISE_MULTIPLIER, units, rng)
        optimizer.step()

    return step


def one_by_one_steps(lm: LanguageModel, ids: torch.Tensor) -> Callable[[], None]:
    """Private steps over `ids` as in the PrivAI-Leak report, §5.3, in its batches of four.

    It processes one example after the other: its loss, its gradient's norm, a clipped copy of the gradient. Then it
    stacks the four copies, takes their mean and adds the noise. Its noise of σ·C on the *mean* is far too large, but
    takes the same time as the correct noise.
    """
    model, named = lm.model, dict(lm.model.named_parameters())
    optimizer = torch.optim.AdamW(named.values(), lr=LEARNING_RATE)

    def clipped(row: torch.Tensor) -> dict[str, torch.Tensor]:
        model.zero_grad()
        model(input_ids=row[None], labels=row[None]).loss.backward()
        gradients = {name: parameter.grad for name, parameter in named.items() if parameter.grad is not None}
        norm = sum(gradient.norm(2).item() ** 2 for gradient in gradients.values()) ** 0.5
        factor = min(1.0, MAX_GRAD_NORM / (norm + 1e-10))
        return {name: gradient.clone().mul_(factor) for name, gradient in gradients.items()}

    def steps() -> None:
        for batch in ids.split(REPORT_BATCH):
            found = [clipped(row) for row in batch]
            for name, parameter in named.items():
                mean = torch.stack([one[name] for one in found]).mean(dim=0)
                parameter.grad = mean + torch.normal(0.0, NOISE_MULTIPLIER * MAX_GRAD_NORM, size=mean.shape).to(mean)
            optimizer.step()

    return steps
