"""The shipped demonstration: which runs it has, training those that are missing, and their export.

`core.demo.plan` lists the runs; `python -m core demo` trains them (`core.demo.training`) and exports each
(`core.demo.export`). The runs of version 0.1, on the classroom and the older base model (`demo_spec`), are shipped too.
"""

from __future__ import annotations

from core.spec import ABSTRACTS, CORPUS_PRESETS, ModelKind, ModelSpec, PrivacySpec, RunSpec, recipe

SEEDS = (0, 1, 2)


def demo_spec(kind: ModelKind, epsilon: float | None, seed: int) -> RunSpec:
    """One run of the sweep: the classroom cohort with the measured recipe."""
    privacy = PrivacySpec(target_epsilon=epsilon)
    return RunSpec(
        corpus=CORPUS_PRESETS["classroom"],
        model=ModelSpec(kind=kind, base=ABSTRACTS),
        privacy=privacy,
        training=recipe(kind, privacy, seed=seed),
    )
