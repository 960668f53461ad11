"""Releases to put into a ledger, or to add up."""

from __future__ import annotations

from core.runs.ledger.entries import FIRST, Release, Vocabulary
from core.runs.ledger.totals import DELTA
from core.spec import CORPUS_PRESETS
from core.training.accounting.mechanism import Mechanism

SMOKE = CORPUS_PRESETS["smoke"]


def mechanism(sigma: float, unit: str = "note") -> Mechanism:
    return Mechanism(
        unit=unit,
        noise_multiplier=sigma,
        sample_rate=1.0,
        steps=1,
        delta=DELTA,
        max_grad_norm=1.0,
        noise_source="secret",
    )


def release(number: int, *, seed: int | None = None, **promise) -> Release:
    kind = "vocabulary" if "vocabulary" in promise else "model"
    return Release(
        number=number,
        time=0.0,
        cohort=SMOKE.digest(),
        corpus=SMOKE,
        kind=kind,
        name=f"release {number}",
        reason="a test",
        seed=number if seed is None else seed,
        previous=FIRST,
        **promise,
    )


def vocabulary(**changes) -> Vocabulary:
    return Vocabulary(**{"epsilon": 0.1, "delta": 1e-9, "words": 20, "unit": "note"} | changes)
