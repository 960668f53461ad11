"""The parts of Opacus in use, imported completely and by one thread at a time.

Opacus and transformers each import much of torch, in their own order and in circles. Two threads that start at once (a
page that computes ε, and the thread that loads a model) would see each other's partly initialised modules, which ends
in an ImportError. The second thread to import this module, or `core.common.transformers_parts`, waits for the first.
"""

from __future__ import annotations

from opacus.accountants import GaussianAccountant, RDPAccountant
from opacus.accountants.analysis import rdp as rdp_analysis

__all__ = ["GaussianAccountant", "RDPAccountant", "rdp_analysis"]
