"""Privacy accounting: ε from σ, σ from ε, and what several mechanisms promise together.

A `Mechanism` (a frozen value) or its numbers enter; certified upper bounds on ε leave. `gaussian` has one subsampled
Gaussian mechanism, `composition` several, `group_privacy` a patient's notes, `loss_*` the numerical method below them.
`epsilon` and `noise_multiplier` are public names.
"""

from typing import Any

__all__ = ["epsilon", "noise_multiplier"]


def __getattr__(name: str) -> Any:
    """Look a public name up when it is used: importing a module of this package must not import Opacus with it."""
    if name in __all__:
        from core.training.accounting import gaussian

        return getattr(gaussian, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
