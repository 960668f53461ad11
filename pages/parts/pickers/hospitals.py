"""Whether models that are compared were trained on the same hospital."""

from __future__ import annotations

from collections.abc import Sequence

from core.runs.run import Run


def differ(runs: Sequence[Run]) -> str:
    """That the models were trained on different patients; empty for models of one hospital."""
    if len({run.spec.corpus.digest() for run in runs}) < 2:
        return ""
    return (
        "These models were trained on different hospitals. Each is measured on its own patients, so their figures "
        "differ by more than their training."
    )
