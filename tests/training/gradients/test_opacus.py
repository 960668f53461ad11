"""What is taken from Opacus: the pinned version, and the names and arguments that are used of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import opacus
import pytest
from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.accountants.analysis import rdp

from core.training.accounting.privacy_loss import RDP_ORDERS

ROOT = Path(__file__).resolve().parents[3]


def test_the_installed_version_is_the_pinned_one() -> None:
    pinned = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if line.startswith("opacus")]
    assert pinned == [f"opacus=={opacus.__version__}"], "accounting was checked with the pinned version only"


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (rdp.compute_rdp, ["q", "noise_multiplier", "steps", "orders"]),
        (rdp.get_privacy_spent, ["orders", "rdp", "delta"]),
        (GaussianAccountant.get_epsilon, ["self", "delta", "poisson", "kwargs"]),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_the_interface_has_not_moved(function: Callable, arguments: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == arguments


def test_a_history_is_triples_of_sigma_rate_and_steps() -> None:
    """`core.training.accounting.mechanism` writes such a history for the GDP accountant."""
    accountant = GaussianAccountant()
    accountant.step(noise_multiplier=1.5, sample_rate=0.04)
    assert accountant.history == [(1.5, 0.04, 1)]


def test_its_orders_are_among_those_that_are_used() -> None:
    assert RDP_ORDERS[3:-8] == tuple(RDPAccountant.DEFAULT_ALPHAS)
    assert list(RDP_ORDERS) == sorted(RDP_ORDERS) and RDP_ORDERS[0] > 1
