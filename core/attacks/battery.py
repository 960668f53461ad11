"""Every attack there is: importing this module fills `core.attacks.registry.REGISTRY`."""

from __future__ import annotations

import core.attacks.membership.attacks
import core.attacks.memorisation.attacks
import core.attacks.memorisation.canary_patients
import core.attacks.memorisation.discoverable
import core.attacks.memorisation.filter_evasion
import core.attacks.probes
import core.attacks.unlearning  # noqa: F401 — importing an attack registers it
from core.attacks.registry import REGISTRY, applicable

__all__ = ["REGISTRY", "applicable"]
