"""The settings of Train as a link: the same training again, with noise that nobody can repeat."""

from __future__ import annotations

from core.spec import CORPUS_PRESETS, ModelSpec, PrivacySpec, RunSpec, audit_of, recipe_of
from core.spec.model_names import MODEL_NAMES
from pages.parts.pickers.cohort_picker import PRESETS
from pages.parts.pickers.epsilon_slider import epsilon_key
from pages.parts.train.training_settings import EPSILONS, TIMES, UNITS


def with_secret_noise(spec: RunSpec) -> dict[str, str] | None:
    """Train's parameters for this training with secret noise; None if the page's usual settings are not all of it."""
    name = next((name for name in PRESETS if CORPUS_PRESETS.get(name) == spec.corpus), None)
    target = spec.privacy.target_epsilon
    if name is None or target not in EPSILONS:
        return None
    privacy = PrivacySpec(target_epsilon=target, unit=spec.privacy.unit)
    training = recipe_of(spec.model.kind, privacy, spec.corpus)
    usual = RunSpec(
        corpus=spec.corpus,
        model=ModelSpec(kind=spec.model.kind),
        privacy=privacy,
        training=training.model_copy(update={"seed": spec.training.seed}),
        audit=audit_of(spec.corpus),
    )
    if usual != spec:
        return None
    asked = {
        "cohort": PRESETS[name],
        "kind": MODEL_NAMES[spec.model.kind],
        "epsilon": epsilon_key(target),
        "unit": UNITS[spec.privacy.unit],
        "secret_noise": "true",
        "training_seed": str(spec.training.seed),
    }
    short = recipe_of(spec.model.kind, privacy, spec.corpus, short=True)
    return asked if short == training else {**asked, "training_time": TIMES["full"]}
