"""What is used of Opacus, imported in one place: by one thread of a server, and wholly.

Opacus and transformers each bring much of torch with them, in an order of their own and in circles. Two threads that
begin at once (a page that counts ε, and the thread that loads a model) would see each other's half-made modules, which
ends in an ImportError. Whoever comes second to this module, or to `core.common.transformers_parts`, waits for the
first.
"""

from __future__ import annotations

from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.accountants.analysis import rdp as rdp_analysis

__all__ = ["GaussianAccountant", "RDPAccountant", "rdp_analysis"]
