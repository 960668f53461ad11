"""What model cards state."""

from __future__ import annotations

from pathlib import Path

import yaml


def stated_perplexity(folder: Path) -> float:
    """Perplexity on `heldout_text()` that the model card in `folder` states."""
    _, front, _ = (folder / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    metrics = yaml.safe_load(front)["model-index"][0]["results"][0]["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["type"] == "perplexity_heldout_text"))
