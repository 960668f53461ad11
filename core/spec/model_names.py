"""How pages, reports and claims write the kinds of models."""

from __future__ import annotations

MODEL_NAMES: dict[str, str] = {"gpt2": "GPT-2", "distilbert": "DistilBERT", "bert": "BERT"}  # by `ModelKind`
