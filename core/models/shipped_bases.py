"""Where the shipped base models are. Imports no model library, so that pages can ask without waiting."""

from __future__ import annotations

from pathlib import Path

from core.spec import SHIPPED_BASES, ModelSpec

BASE_MODELS = Path(__file__).resolve().parents[2] / "assets" / "base"


def shipped_folder(spec: ModelSpec) -> Path:
    """The folder of a shipped base model (`spec.shipped`), whether it exists or not."""
    return BASE_MODELS / SHIPPED_BASES[spec.base] / f"{spec.kind}-{spec.size}"
