"""Privacy accounting: ε from σ, σ from ε, and the joint guarantee of several mechanisms.

Takes a `Mechanism` (a frozen value) or its numbers; returns certified upper bounds on ε. `gaussian` handles one
subsampled Gaussian mechanism, `composition` several, `group_privacy` a patient's notes; `loss_*` is the numerical
method behind them. `epsilon` and `noise_multiplier` are public names.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.training.accounting.gaussian import epsilon, noise_multiplier

__all__ = ["epsilon", "noise_multiplier"]


def __getattr__(name: str) -> Any:
    """Look a public name up when it is used: importing a module of this package must not import Opacus with it."""
    if name in __all__:
        from core.training.accounting import gaussian

        return getattr(gaussian, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
