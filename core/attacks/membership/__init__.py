"""Membership inference: was this note, admission or patient in the training data?

A `Target` enters; tables of scores leave, higher for members. `min_k` and `min_k_plus_plus` are public names.
"""

from core.attacks.membership.scores import min_k, min_k_plus_plus

__all__ = ["min_k", "min_k_plus_plus"]
