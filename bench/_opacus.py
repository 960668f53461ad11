"""A private step with Opacus, used as in its documentation: `PrivacyEngine.make_private`, then an ordinary loop.

There are two differences from the documentation. The batch is fixed (`poisson_sampling=False`), so that every side sees
the same tensors, and `position_ids` are passed with a batch dimension, without which every mode of Opacus fails on
GPT-2. Opacus 1.6 has no sampler for HF's `Conv1D`; its documented fallback (functorch) handles it in hooks mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from opacus import PrivacyEngine
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def _made_private(model: nn.Module, ids: Tensor, noise: float, norm: float, rate: float, mode: str) -> tuple[Any, ...]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    loader = DataLoader(TensorDataset(ids), batch_size=len(ids))
    extra = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about noise that is not cryptographically safe, and future changes of hooks
        return PrivacyEngine().make_private(
            module=model.train(),
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=noise,
            max_grad_norm=norm,
            poisson_sampling=False,
            grad_sample_mode=mode,
            **extra,
        )


def hooks_step(model: nn.Module, ids: Tensor, noise: float, norm: float, rate: float) -> Callable[[], None]:
    """One step with per-sample gradients (`grad_sample_mode="hooks"`) of a causal model on ids (B, T)."""
    private, optimizer, _ = _made_private(model, ids, noise, norm, rate, "hooks")
    places = _places(ids)

    def step() -> None:
        optimizer.zero_grad()
        private(input_ids=ids, position_ids=places, labels=ids).loss.backward()
        optimizer.step()

    return step


def ghost_step(model: nn.Module, ids: Tensor, noise: float, norm: float, rate: float) -> Callable[[], None]:
    """One step of fast gradient (ghost) clipping of an untied causal model on ids (B, T)."""
    private, optimizer, criterion, _ = _made_private(model, ids, noise, norm, rate, "ghost")
    places, targets = _places(ids), ids[:, 1:].flatten()

    def step() -> None:
        optimizer.zero_grad()
        logits = private(input_ids=ids, position_ids=places).logits[:, :-1]
        criterion(logits.flatten(0, 1), targets, shape=logits.shape).backward()
        optimizer.step()

    return step


def _places(ids: Tensor) -> Tensor:
    return torch.arange(ids.shape[1], device=ids.device).repeat(len(ids), 1)
