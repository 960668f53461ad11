"""Every attack there is: importing this module fills `core.attacks.registry.REGISTRY`."""

from __future__ import annotations

from core.attacks import canary_patients, membership_attacks, memorisation_attacks, probes, reworded
from core.attacks.registry import REGISTRY, applicable

__all__ = [
    "REGISTRY",
    "applicable",
    "canary_patients",
    "membership_attacks",
    "memorisation_attacks",
    "probes",
    "reworded",
]
