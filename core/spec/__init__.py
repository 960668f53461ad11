"""The settings of a run: frozen and validated, with a digest that is the run's id.

`runs` has `RunSpec`, `parts` the settings it consists of, `recipes` the training settings to start from, and `schema`
the stored forms of every version. This package exports the names of the first three. Takes the values of a settings
dialog or a command; returns a validated spec.
"""

from core.spec.parts import (
    ABSTRACTS,
    CLINICAL,
    FORMAT,
    MEMBER_SHARE,
    PUBLIC_REPORTS,
    SHIPPED_BASES,
    USUAL_COPIES,
    Accountant,
    AuditSpec,
    CorpusSpec,
    DefenceSpec,
    ModelKind,
    ModelSize,
    ModelSpec,
    PrivacySpec,
    RiskLimit,
    Spec,
    TrainingSpec,
    Unit,
    Variant,
    VocabularySpec,
)
from core.spec.recipes import SHORT_READS, rate_for, recipe
from core.spec.runs import CORPUS_PRESETS, OPENING, RunSpec, audit_of, recipe_of

__all__ = [
    "ABSTRACTS",
    "CLINICAL",
    "CORPUS_PRESETS",
    "FORMAT",
    "MEMBER_SHARE",
    "OPENING",
    "PUBLIC_REPORTS",
    "SHIPPED_BASES",
    "SHORT_READS",
    "USUAL_COPIES",
    "Accountant",
    "AuditSpec",
    "CorpusSpec",
    "DefenceSpec",
    "ModelKind",
    "ModelSize",
    "ModelSpec",
    "PrivacySpec",
    "RiskLimit",
    "RunSpec",
    "Spec",
    "TrainingSpec",
    "Unit",
    "Variant",
    "VocabularySpec",
    "audit_of",
    "rate_for",
    "recipe",
    "recipe_of",
]
