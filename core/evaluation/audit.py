"""Public names for empirical ε; the code is in `core.evaluation.guarantee.epsilon_bounds`."""

from core.evaluation.guarantee.epsilon_bounds import epsilon_lower_bound, one_run_epsilon

__all__ = ["epsilon_lower_bound", "one_run_epsilon"]
