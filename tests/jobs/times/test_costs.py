"""What the stages of a run cost: more notes, epochs, texts and layers take longer, and one core longer than two."""

from __future__ import annotations

import pytest

from core.jobs.times.costs import (
    AUDIT_SECONDS,
    MASKED_FACTOR,
    ONE_CORE,
    TIME_BY_SIZE,
    audit_stages,
    default_stages,
    of_training,
    on_one_core,
    whole,
)
from core.jobs.times.notes import expected_notes
from core.spec import CORPUS_PRESETS, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, VocabularySpec, recipe


def spec_of(epochs: int = 4, **changes) -> RunSpec:
    return RunSpec(corpus=CORPUS_PRESETS["classroom"], training=TrainingSpec(epochs=epochs), **changes)


def total(spec: RunSpec) -> float:
    return whole(default_stages(spec, cohort=True, control=True))


def test_more_epochs_texts_and_words_take_longer() -> None:
    def seconds(spec: RunSpec) -> dict[str, float]:
        return {stage.key: stage.seconds for stage in default_stages(spec, cohort=True, control=True)}

    short, long = seconds(spec_of(4)), seconds(spec_of(8))
    assert long["training"] > 1.9 * short["training"] - 10 and long["saving"] == short["saving"]
    assert seconds(spec_of(privacy=PrivacySpec(target_epsilon=8.0)))["training"] > short["training"]
    fewer = spec_of().audit.model_copy(update={"samples_per_prompt": 10})
    assert seconds(spec_of(audit=fewer))["audit: extraction"] < short["audit: extraction"] / 5
    masked = spec_of().model.model_copy(update={"kind": "distilbert"})
    assert {"vocabulary", "audit: reading"} <= set(seconds(spec_of(model=masked, vocabulary=VocabularySpec())))


def test_more_notes_epochs_and_layers_take_longer() -> None:
    larger = spec_of().model_copy(update={"corpus": CORPUS_PRESETS["classroom-12k"]})
    sizes = [total(spec_of(model=ModelSpec.model_validate({"size": size}))) for size in ("micro", "tiny", "small")]
    assert total(spec_of(8)) > total(spec_of(4)) and total(larger) > 3 * total(spec_of())
    assert sizes == sorted(sizes) and sizes[2] > 2 * sizes[1] > 4 * sizes[0]


@pytest.mark.parametrize(
    ("kind", "epsilon", "preset", "epochs", "seconds"),
    [
        ("gpt2", 8.0, "classroom-12k", 2, 93),
        ("gpt2", None, "classroom", 4, 38),
        ("distilbert", None, "classroom", 4, 33),
    ],
)
def test_trainings_that_were_measured_on_two_idle_cores(kind, epsilon, preset, epochs, seconds) -> None:
    """docs/PERFORMANCE.md, “The time left”."""
    spec = RunSpec(
        corpus=CORPUS_PRESETS[preset],
        model=ModelSpec(kind=kind),
        privacy=PrivacySpec(target_epsilon=epsilon),
        training=TrainingSpec(epochs=epochs),
    )
    assert of_training(default_stages(spec, cohort=True, control=True)) == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "epsilon", "a_note"),
    [("gpt2", None, 5.6), ("gpt2", 8.0, 7.2), ("distilbert", None, 4.4), ("distilbert", 8.0, 6.5)],
)
def test_trainings_that_were_measured_on_one_core(kind, epsilon, a_note) -> None:
    """Milliseconds a note beside a busy core: docs/PERFORMANCE.md, “The time left”."""
    corpus, privacy = CORPUS_PRESETS["classroom-12k"], PrivacySpec(target_epsilon=epsilon)
    training = TrainingSpec(epochs=8)
    spec = RunSpec(corpus=corpus, model=ModelSpec(kind=kind), privacy=privacy, training=training)
    read = 8 * expected_notes(spec).trained
    assert 1_000 * of_training(on_one_core(spec)) / read == pytest.approx(a_note, rel=0.05)
    assert whole(on_one_core(spec)) == pytest.approx(ONE_CORE * total(spec))


def test_every_mask_of_a_note_takes_its_time() -> None:
    once = RunSpec(model=ModelSpec(kind="bert"), training=recipe("bert"))
    often = once.model_copy(update={"training": once.training.model_copy(update={"masks": 4})})
    read = expected_notes(once).trained * once.training.epochs
    assert total(often) - total(once) == pytest.approx(3 * read * 0.0023)


def test_a_full_audit_takes_its_time_by_notes_kind_and_size() -> None:
    """An attack without a known time takes its share of the whole, however many are left."""
    masked = spec_of(model=ModelSpec(kind="bert"))
    notes = expected_notes(masked)

    def seconds(spec: RunSpec, *left: str, **a_note: float) -> float:
        stages = audit_stages(spec, left, expected_notes(spec), a_note, of=4)
        return sum(stage.seconds for stage in stages if stage.key.startswith("attack: "))

    assert seconds(spec_of(), *"abcd") == pytest.approx(AUDIT_SECONDS * notes.trained)
    assert seconds(masked, "a") == pytest.approx(MASKED_FACTOR * AUDIT_SECONDS * notes.trained / 4)
    small = spec_of(model=ModelSpec.model_validate({"size": "small"}))
    assert seconds(small, "a", a=0.01) == pytest.approx(TIME_BY_SIZE["small"] * 0.01 * notes.trained)
