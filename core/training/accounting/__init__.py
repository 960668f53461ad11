"""Privacy accounting: ε from σ, σ from ε, and what several mechanisms promise together.

A `Mechanism` (a frozen value) or its numbers enter; certified upper bounds on ε leave. `gaussian` has one subsampled
Gaussian mechanism, `composition` several, `group_privacy` a patient's notes, `loss_*` the numerical method below them.
`epsilon` and `noise_multiplier` are public names.
"""

from core.training.accounting.gaussian import epsilon, noise_multiplier

__all__ = ["epsilon", "noise_multiplier"]
