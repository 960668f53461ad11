"""Where the shipped base models are, and the error for a model that is not there.

Imports no model library, so that pages and commands can use both without waiting.
"""

from __future__ import annotations

from pathlib import Path

from core.common.program import ASSETS
from core.spec import CLINICAL, SHIPPED_BASES, ModelSpec

BASE_MODELS = ASSETS / "base"


class ModelNotFound(LookupError):
    """A model could not be loaded. The message says which file is missing, where it was expected, and how to get it."""


def shipped_folder(spec: ModelSpec) -> Path:
    """The folder of a shipped base model (`spec.shipped`), whether it exists or not."""
    return BASE_MODELS / SHIPPED_BASES[spec.base] / f"{spec.kind}-{spec.size}"


def word_list(base: str) -> Path:
    """The words of the public text that the shipped bases of this name have read; of other bases, the newest list."""
    return BASE_MODELS / SHIPPED_BASES.get(base, SHIPPED_BASES[CLINICAL]) / "public_words.txt"
