"""The settings to start from: today's for runs that exist, and by ε and the number of notes for new ones."""

from __future__ import annotations

import itertools
import math

import pytest

from core.spec import SHORT_READS, PrivacySpec, RunSpec, TrainingSpec, rate_for, recipe
from core.training.plan import plan

SIZES = (3_000, 12_000, 48_000)


def at(epsilon: float) -> PrivacySpec:
    return PrivacySpec(target_epsilon=epsilon)


def test_without_a_number_of_notes_it_is_the_recipe_of_the_first_runs() -> None:
    assert recipe("gpt2", at(8.0)) == TrainingSpec(epochs=4, batch_size=256, learning_rate=5e-3, warmup=0.0)
    assert recipe("gpt2", at(1.0), seed=2).learning_rate == 1.8e-3
    assert recipe("bert", PrivacySpec(noise_multiplier=1.5)).learning_rate == 1e-3
    assert recipe("distilbert") == TrainingSpec(epochs=16, batch_size=16, learning_rate=2e-3)


@pytest.mark.parametrize(("notes", "batch", "epochs"), [(2_925, 256, 12), (11_815, 512, 6), (48_030, 1_024, 3)])
def test_batch_and_epochs_of_the_measured_hospitals(notes: int, batch: int, epochs: int) -> None:
    """Twice as many notes are read in batches twice as large where the noise is weak and the notes are many.

    Where that makes six epochs, they are read twice as often once more, except by masked models.
    """
    longer_from, longest_from = {2_925: (math.inf, math.inf), 11_815: (2.0, math.inf), 48_030: (1.0, 1.0)}[notes]
    for kind in ("gpt2", "distilbert"):
        for epsilon in (0.5, 1.0, 2.0, 3.0, 8.0, 10.0):
            chosen = recipe(kind, at(epsilon), notes=notes)
            twice = 2 if epsilon >= longer_from else 1
            again = 2 if kind == "gpt2" and epsilon >= longest_from else 1
            assert (chosen.batch_size, chosen.epochs, chosen.warmup) == (twice * batch, again * twice * epochs, 0.0)


def test_rates_are_near_the_best_measured_ones() -> None:
    """The best rates of the trainings on the tuning hospital, where the rate varied (docs/methods/recipe-tuning.md)."""
    for notes, epsilon, best in ((3_218, 8.0, 2.1e-3), (3_218, 1.0, 1.2e-3), (12_353, 8.0, 4e-3), (12_353, 1.0, 2e-3)):
        assert math.isclose(recipe("gpt2", at(epsilon), notes=notes).learning_rate, best, rel_tol=0.15)


@pytest.mark.parametrize("kind", ["gpt2", "distilbert", "bert"])
@pytest.mark.parametrize("privacy", [PrivacySpec(), at(1.0), at(8.0), at(100.0)])
def test_a_short_training_reads_no_more_than_a_class_can_wait_for(kind: str, privacy: PrivacySpec) -> None:
    for notes in (60, *SIZES):
        full, short = (recipe(kind, privacy, notes=notes, short=short) for short in (False, True))
        full_reads, reads = (notes * chosen.epochs * (chosen.masks or 1) for chosen in (full, short))
        assert reads <= max(1.5 * SHORT_READS, notes), "one epoch at least"
        assert (short == full) == (full_reads <= reads) and short.batch_size <= full.batch_size


@pytest.mark.parametrize("kind", ["gpt2", "distilbert", "bert"])
@pytest.mark.parametrize("notes", SIZES)
def test_more_noise_never_gives_a_higher_rate_or_more_steps(kind: str, notes: int) -> None:
    found = [recipe(kind, at(epsilon), notes=notes) for epsilon in (0.1, 0.5, 1.0, 3.0, 8.0)]
    rates = [chosen.learning_rate for chosen in found]
    assert rates == sorted(rates) and rates[0] < rates[-1]
    weak = [recipe(kind, at(epsilon), notes=notes) for epsilon in (8.0, 30.0, 100.0, 1_000.0, 1e4)]
    steps = [notes / chosen.batch_size * chosen.epochs for chosen in weak]
    assert steps == sorted(steps) and steps[-1] > 6 * steps[0]


@pytest.mark.parametrize("notes", [1, 3, 50, 700, 10**6])
def test_any_number_of_notes_gives_a_batch_that_fits(notes: int) -> None:
    for privacy in (PrivacySpec(), at(0.5), at(8.0), at(1e4), PrivacySpec(noise_multiplier=0.1)):
        chosen = recipe("bert", privacy, notes=notes)
        assert 1 <= chosen.batch_size <= max(16, notes) and 1 <= chosen.epochs <= 1_000 and chosen.learning_rate > 0
        assert not privacy.private or chosen.batch_size <= notes


def test_a_given_sigma_is_taken_as_the_epsilon_that_has_it() -> None:
    """The accountant's σ of the recipe leads back to the same batch and steps, and nearly to the same rate."""
    for notes, epsilon in itertools.product(SIZES, (1.0, 8.0)):
        asked = recipe("gpt2", at(epsilon), notes=notes)
        sigma = plan(at(epsilon), asked, notes=notes, patients=notes).mechanism.noise_multiplier
        assert math.isclose(rate_for("gpt2", sigma / asked.batch_size), asked.learning_rate, rel_tol=0.1)
        given = recipe("gpt2", PrivacySpec(noise_multiplier=sigma), notes=notes)
        others = {(12_000, 1.0): (2, 2), (48_000, 1.0): (1 / 2, 1 / 4)}  # these have this σ as well, at another ε
        batch, epochs = others.get((notes, epsilon), (1, 1))
        assert (given.batch_size, given.epochs) == (batch * asked.batch_size, epochs * asked.epochs)


def test_masked_models_average_masks_of_forty_percent_in_private_training_only() -> None:
    for kind in ("distilbert", "bert"):
        private, plain = recipe(kind, at(8.0), notes=3_000), recipe(kind, notes=3_000)
        assert (private.mask_share, private.masks) == (0.4, 4) and plain.masks is plain.mask_share is None
        by_epsilon = [recipe(kind, at(epsilon), notes=12_000).masks for epsilon in (0.5, 8.0, 30.0, 1e4)]
        assert by_epsilon == [4, 4, 2, 2], "weak noise leaves signal enough"
        for short in (False, True):  # a training of very few notes is short as it is
            assert recipe(kind, at(1.0), notes=60, short=short).masks == 4
        assert [recipe(kind, at(1.0), notes=notes).masks for notes in SIZES] == [4, 4, 2]
        assert [recipe(kind, at(1.0), notes=notes, short=True).masks for notes in SIZES] == [2, 2, None]
        control = recipe(kind, clipped=True, notes=3_000)
        assert control.masks == private.masks, "the same training without noise"
    assert recipe("gpt2", at(8.0), notes=3_000).masks is recipe("gpt2", at(8.0), notes=3_000).mask_share is None
    RunSpec(privacy=at(8.0), training=recipe("gpt2", at(8.0), notes=3_000))  # GPT-2 with masks would be refused


def test_the_control_without_noise_takes_the_settings_of_epsilon_eight() -> None:
    for notes in (None, 12_000):
        assert recipe("gpt2", clipped=True, notes=notes) == recipe("gpt2", at(8.0), notes=notes)
        assert recipe("gpt2", at(1.0), clipped=True, notes=notes) == recipe("gpt2", at(1.0), notes=notes)


def test_plain_training_of_many_notes_takes_fewer_epochs() -> None:
    assert [recipe("gpt2", notes=notes).epochs for notes in SIZES] == [8, 8, 4]
    assert [recipe("distilbert", notes=notes).epochs for notes in SIZES] == [16, 16, 8]
    assert recipe("gpt2", at(8.0), notes=3_000, epochs=2, seed=5).epochs == 2


def test_a_masked_model_reads_no_more_between_the_measured_sizes_than_at_them() -> None:
    def reads(notes: int) -> int:
        chosen = recipe("distilbert", at(8.0), notes=notes)
        return notes * chosen.epochs * (chosen.masks or 1)

    most = max(map(reads, SIZES))
    assert all(reads(notes) <= 1.25 * most for notes in range(1_000, 60_000, 500))


def test_no_notes_have_no_recipe() -> None:
    with pytest.raises(ValueError, match="at least one"):
        recipe("gpt2", notes=0)


def test_a_larger_bert_gets_half_the_rate_and_no_other_model_another_one() -> None:
    """2e-3, chosen for `tiny`, destroys it (docs/methods/models.md)."""
    for privacy in (PrivacySpec(), at(8.0), at(1.0)):
        for kind in ("gpt2", "distilbert", "bert"):
            usual = recipe(kind, privacy, notes=3_000)
            for size in ("micro", "tiny", "small"):
                chosen = recipe(kind, privacy, notes=3_000, size=size)
                factor = 0.5 if (kind, size) == ("bert", "small") else 1.0
                assert chosen.learning_rate == pytest.approx(factor * usual.learning_rate, rel=0.05)
                assert chosen.model_copy(update={"learning_rate": usual.learning_rate}) == usual
    assert recipe("bert", notes=3_000, size="small").learning_rate == 1e-3
