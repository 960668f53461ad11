"""Public names for ROC figures; the code is in `core.evaluation.stats.roc`."""

from core.evaluation.stats.roc import Roc, privacy_leakage, roc

__all__ = ["Roc", "privacy_leakage", "roc"]
