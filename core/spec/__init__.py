"""What a run is made from: frozen, validated settings whose digest is the run's id.

`runs` has `RunSpec`, `parts` the settings it is put together from, `schema` the stored forms of every version. This
package gives the names of the first two; a settings dialog or a command enters, and a validated spec leaves.
"""

from core.spec.parts import (
    FORMAT,
    Accountant,
    AuditSpec,
    CorpusSpec,
    DefenceSpec,
    ModelKind,
    ModelSize,
    ModelSpec,
    PrivacySpec,
    Spec,
    TrainingSpec,
    Unit,
    Variant,
    VocabularySpec,
)
from core.spec.runs import CORPUS_PRESETS, RunSpec, recipe

__all__ = [
    "CORPUS_PRESETS",
    "FORMAT",
    "Accountant",
    "AuditSpec",
    "CorpusSpec",
    "DefenceSpec",
    "ModelKind",
    "ModelSize",
    "ModelSpec",
    "PrivacySpec",
    "RunSpec",
    "Spec",
    "TrainingSpec",
    "Unit",
    "Variant",
    "VocabularySpec",
    "recipe",
]
