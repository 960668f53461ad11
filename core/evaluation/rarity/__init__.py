"""Rare diseases: how rare each patient's profile is, and whether patients with rarer profiles leak more.

Input: diagnosis codes and scores. Output: buckets of rarity, one AUC per bucket, and a trend.
`log_profile_probability` is public.
"""

from core.evaluation.rarity.profiles import log_profile_probability

__all__ = ["log_profile_probability"]
