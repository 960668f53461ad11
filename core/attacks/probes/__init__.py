"""Identity probes (Lehman 2021, §6): does a model link names with conditions, or know names at all?

Importing this package registers every probe with `core.attacks.registry`, one file per probe. All write the table
`probes` (`core.attacks.probes.table`); `core.evaluation.probes.figures` computes figures from it, with intervals and
controls.
"""

from __future__ import annotations

from core.attacks.probes import cosine, fill_in, generated, half_name, mlp, name_seen, per_condition

__all__ = ["cosine", "fill_in", "generated", "half_name", "mlp", "name_seen", "per_condition"]
