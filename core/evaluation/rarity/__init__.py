"""Rare diseases: how rare each patient's profile is, and whether rarer patients leak more.

Codes and scores enter; buckets of rarity, an AUC a bucket and a trend leave. `log_profile_probability` is public.
"""

from core.evaluation.rarity.profiles import log_profile_probability

__all__ = ["log_profile_probability"]
