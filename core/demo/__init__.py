"""The shipped demonstration: which runs it has, training those that are missing, and their export.

`core.demo.plan` lists the runs; `python -m core demo` trains them (`core.demo.training`) and exports each
(`core.demo.export`). `first_specs` and `first_defended_specs` are those of version 0.1, on the classroom and the older
base model. They are shipped too.
"""

from __future__ import annotations

from core.spec import ABSTRACTS, CORPUS_PRESETS, DefenceSpec, ModelKind, ModelSpec, PrivacySpec, RunSpec, recipe

KINDS: tuple[ModelKind, ...] = ("gpt2", "distilbert")
EPSILONS: tuple[float | None, ...] = (None, 8.0, 1.0, 2.0, 5.0, 10.0, 0.5)  # None = no privacy; the first two open Home
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


def first_specs() -> list[RunSpec]:
    """The whole sweep of version 0.1, seed by seed."""
    return [demo_spec(kind, epsilon, seed) for seed in SEEDS for kind in KINDS for epsilon in EPSILONS]


def first_defended_specs() -> list[RunSpec]:
    """Runs that Defences compares besides the sweep: GPT-2 at the first seed, on changed notes and per patient."""
    plain, private = (demo_spec("gpt2", epsilon, SEEDS[0]) for epsilon in (None, 8.0))
    by_patient = private.privacy.model_copy(update={"unit": "patient"})
    return [
        plain.model_copy(update={"defence": DefenceSpec(deduplicate=True)}),
        plain.model_copy(update={"defence": DefenceSpec(scrub_recall=0.95)}),
        private.model_copy(update={"privacy": by_patient}),
    ]
