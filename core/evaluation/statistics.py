"""Public names for proportions; the code is in `core.evaluation.stats.intervals`."""

from core.evaluation.stats.intervals import Comparison, compare_proportions, proportion_interval

__all__ = ["Comparison", "compare_proportions", "proportion_interval"]
