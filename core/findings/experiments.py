"""The runs that several claims share, by name."""

from __future__ import annotations

from core.demo import SEEDS, demo_spec
from core.demo.plan import spec_of
from core.spec import (
    ABSTRACTS,
    CORPUS_PRESETS,
    PUBLIC_REPORTS,
    CorpusSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    audit_of,
    recipe,
    recipe_of,
)
from core.spec.model_names import MODEL_NAMES

CLASSROOM = "about 3,000 notes of 301 patients, and 129 others (`classroom`)"
# What is left of them once a fifth of the patients are used for fitting:
ATTENTION_JUDGED = "3,277 notes of 240 of them and 103 others judged"
GRADIENTS_JUDGED = "1,728 notes of 129 of them and 56 others judged"
TWELVE_NOTES = "about 12,000 notes of 1,204 patients (`classroom-12k`)"
TWELVE = f"{TWELVE_NOTES}, 580 of them and 496 others attacked"
TWELVE_QUICK = f"{TWELVE_NOTES}, 600 of them and 516 others attacked"  # by the quick audit
LARGE = "about 48,000 notes of 4,816 patients (`classroom-48k`), 600 members and 600 others attacked"
SYNTHETIC = "Synthetic English notes instead of real ones, and far smaller models."
# σ at which the formula of the PrivAI-Leak report prints these ε for 46 steps of 256 of 2,925 notes, δ = 1e-5
REPORT_NOISE = {0.5: 27.53, 1.0: 13.91, 5.0: 2.99, 10.0: 1.61}
FEW = "One training, so another seed could give another figure."
LATER_SEEDS = "One seed was asked at first; its figures were known when the other two were added."

# The file mtsamples.txt as `corpus --from mtsamples.txt --population .2 --deduplicate near --detector "shapes 1"` makes
# it: sample reports of mtsamples.com, each the "patient" of its pieces. The content id names the words and the split.
PUBLIC_NOTES = CorpusSpec(
    patients=1_679,
    population=420,
    notes_per_patient=5.88,
    naming_rate=0.0087,
    generic_rate=0.0,
    copy_forward=0.0,
    canary_patients=0,
    imported=PUBLIC_REPORTS,
    deduplicated="near",
)


def plain(kind: ModelKind, seed: int = 0) -> RunSpec:
    """Trained without privacy on `classroom`."""
    return demo_spec(kind, None, seed)


def private(kind: ModelKind, epsilon: float, seed: int = 0) -> RunSpec:
    """Trained at this ε per note on `classroom`."""
    return demo_spec(kind, epsilon, seed)


def rarely_named(kind: ModelKind, seed: int = 0) -> RunSpec:
    """As `plain`, of notes of which a tenth name their patient, not half."""
    spec = plain(kind, seed)
    return spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"naming_rate": 0.1})})


def half_generic(spec: RunSpec) -> RunSpec:
    """The same training on the same patients; half of their notes are about the ward, without a patient's details."""
    return spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"generic_rate": 0.5})})


def large(kind: ModelKind, epsilon: float | None) -> RunSpec:
    """Trained on `classroom-48k`, with or without privacy; claims ask the first seed alone."""
    return spec_of("48k", kind, epsilon, SEEDS[0])


def twelve(epsilon: float | None) -> RunSpec:
    """GPT-2 trained on `classroom-12k`, with or without privacy; claims ask the first seed alone."""
    return spec_of("12k", "gpt2", epsilon, SEEDS[0])


def many_copies(epsilon: float | None, seed: int = 0) -> RunSpec:
    """GPT-2 on the classroom's notes with canaries of up to 64 copies; each seed has a hospital of its own."""
    corpus = CORPUS_PRESETS["classroom"].model_copy(update={"canaries": 84, "canary_copies": 64, "seed": seed})
    model, privacy = ModelSpec(kind="gpt2"), PrivacySpec(target_epsilon=epsilon)
    training = recipe_of("gpt2", privacy, corpus, seed=seed)
    return RunSpec(corpus=corpus, model=model, privacy=privacy, training=training, audit=audit_of(corpus))


def of_public_notes(kind: ModelKind, epsilon: float | None = None) -> RunSpec:
    """Trained on public reports that were not generated here, from the base model that has not read them.

    With an ε the recipe's short training, of three epochs, because reports are long.
    """
    privacy = PrivacySpec(target_epsilon=epsilon)
    return RunSpec(
        corpus=PUBLIC_NOTES,
        model=ModelSpec(kind=kind, base=ABSTRACTS),
        privacy=privacy,
        training=recipe_of(kind, privacy, PUBLIC_NOTES, short=epsilon is not None),
        audit=audit_of(PUBLIC_NOTES),
    )


def by_token(kind: ModelKind) -> RunSpec:
    """As `of_public_notes` without privacy, but every note counts in proportion to its length."""
    spec = of_public_notes(kind)
    return spec.model_copy(update={"training": spec.training.model_copy(update={"weighting": "token"})})


def seeded(kind: ModelKind, seed: int) -> str:
    """`GPT-2, seed 0`."""
    return f"{MODEL_NAMES[kind]}, seed {seed}"


def of(spec: RunSpec) -> str:
    """The same of a run, for the label of a figure."""
    return seeded(spec.model.kind, spec.training.seed)


def at_report_noise(printed: float, seed: int = 0, *, lower_rate: bool = False) -> RunSpec:
    """`private("gpt2", …)` with the noise that the PrivAI-Leak report's formula asks for at the ε it prints.

    The learning rate is that of ε = 8 and 10 for all of them, as the report has one rate for all. With `lower_rate` it
    falls with the noise, as the recipe's does.
    """
    spec = private("gpt2", 10.0, seed)
    privacy = PrivacySpec(noise_multiplier=REPORT_NOISE[printed])
    rate = recipe("gpt2", privacy, seed=seed).learning_rate if lower_rate else spec.training.learning_rate
    training = spec.training.model_copy(update={"learning_rate": rate})
    return spec.model_copy(update={"privacy": privacy, "training": training})


def with_variant(spec: RunSpec, variant: str) -> RunSpec:
    """The same training on another kind of notes: `name-insertion` or `template-only`."""
    return spec.model_copy(update={"corpus": CORPUS_PRESETS["classroom"].model_copy(update={"variant": variant})})


def with_epochs(spec: RunSpec, epochs: int) -> RunSpec:
    """The same training for another number of epochs."""
    return spec.model_copy(update={"training": spec.training.model_copy(update={"epochs": epochs})})


def gpt2_after(epochs: int, seed: int) -> RunSpec:
    """GPT-2 trained without privacy on `classroom` for this number of epochs."""
    return with_epochs(plain("gpt2", seed), epochs)
