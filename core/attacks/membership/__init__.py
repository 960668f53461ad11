"""Membership inference: was this note, admission or patient in the training data?

Takes a `Target`; returns tables of scores, higher for members. `min_k` and `min_k_plus_plus` are public names.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core.attacks.membership.scores import min_k, min_k_plus_plus

__all__ = ["min_k", "min_k_plus_plus"]


def __getattr__(name: str) -> Any:
    """Look a public name up when it is used: importing a module of this package must not import torch with it."""
    if name in __all__:
        from core.attacks.membership import scores

        return getattr(scores, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
