"""Composition: known answers, never above the sum of ε, and an advantage that equals the textbook's."""

from __future__ import annotations

import math

import pytest

from core.models.word_noise import WordNoise, gaussian_epsilon
from core.spec import VocabularySpec
from core.training.accounting.composition import advantage, composed_epsilon
from core.training.accounting.gaussian import epsilon
from core.training.accounting.mechanism import ADD_REMOVE, Mechanism
from core.training.accounting.room import room


def mechanism(
    sigma: float, rate: float = 1.0, steps: int = 1, unit: str = "note", accountant: str = "prv"
) -> Mechanism:
    return Mechanism(
        unit=unit,
        noise_multiplier=sigma,
        sample_rate=rate,
        steps=steps,
        delta=1e-5,
        max_grad_norm=1.0,
        accountant=accountant,
    )


def normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def test_nothing_spends_nothing_and_one_spends_its_own():
    one = mechanism(1.1, 0.05, 60)
    assert composed_epsilon([], 1e-5) == (0.0, "prv")
    assert composed_epsilon([mechanism(1.0, steps=0)], 1e-5) == (0.0, "prv")
    assert composed_epsilon([one], 1e-5)[0] == one.epsilon()


def test_twice_the_same_is_twice_the_steps():
    one, twice = mechanism(1.1, 0.05, 60), mechanism(1.1, 0.05, 120)
    assert composed_epsilon([one, one], 1e-5)[0] == twice.epsilon()


def test_two_gaussians_are_one_with_less_noise():
    # Without sampling, σ₁ and σ₂ together are one Gaussian mechanism of 1/σ² = 1/σ₁² + 1/σ₂² (Dong, Roth & Su 2022).
    both = 1 / math.sqrt(1 / 1.2**2 + 1 / 2.5**2)
    known = epsilon(noise_multiplier=both, sample_rate=1.0, steps=1, delta=1e-5)
    found, by = composed_epsilon([mechanism(1.2), mechanism(2.5)], 1e-5)
    assert by == "prv" and found == pytest.approx(known, abs=0.02)


def test_different_runs_compose_to_less_than_their_sum_and_more_than_the_largest():
    parts = [mechanism(1.0, 0.05, 40), mechanism(1.6, 0.05, 40)]
    alone = [part.epsilon() for part in parts]
    together = composed_epsilon(parts, 1e-5)[0]
    assert max(alone) < together < sum(alone)


def test_gdp_is_not_believed():
    """A run that was counted by GDP, which under-reports, counts by PRV in a total."""
    by_gdp, by_prv = mechanism(0.8, 0.05, 40, accountant="gdp"), mechanism(0.8, 0.05, 40)
    given = {"noise_multiplier": 0.8, "sample_rate": 0.05, "steps": 40, "delta": 1e-5}
    assert epsilon(**given, accountant="gdp") < by_prv.epsilon()
    assert by_gdp.epsilon_with_method() == by_prv.epsilon_with_method()  # nor is it promised by itself
    assert composed_epsilon([by_gdp], 1e-5)[0] == by_prv.epsilon()


def test_next_to_no_noise_is_answered_by_renyi():
    found, by = composed_epsilon([mechanism(1e-6), mechanism(1e-6, 0.5)], 1e-5)
    assert by == "rdp" and found > 1_000


def test_units_do_not_add_up():
    with pytest.raises(ValueError, match="do not add up"):
        composed_epsilon([mechanism(1.0), mechanism(1.0, unit="patient")], 1e-5)
    with pytest.raises(ValueError, match="δ"):
        composed_epsilon([mechanism(1.0)], 0.0)


@pytest.mark.parametrize("sigma", [0.5, 1.2, 4.0])
def test_the_advantage_of_a_gaussian_is_known(sigma):
    # Total variation of N(0, σ²) and N(1, σ²): 2Φ(1/2σ) − 1.
    known = 2 * normal(0.5 / sigma) - 1
    assert known <= advantage([mechanism(sigma)]) <= known + 0.005


def test_a_sampled_step_has_its_share_of_the_advantage():
    # One step: the mixture (1 − q)·N(0) + q·N(1) lies q times as far from N(0) as N(1) does.
    assert advantage([mechanism(0.8, 0.1)]) == pytest.approx(0.1 * (2 * normal(0.625) - 1), abs=0.005)


def test_no_bound_is_an_advantage_of_one():
    assert advantage([]) == 0.0
    assert advantage([mechanism(0.005)]) == 1.0


@pytest.mark.parametrize("budget", [8.3, 14.0])
def test_the_noise_of_a_further_run_keeps_the_budget_as_it_is_printed(budget):
    """At 14 the least σ is 0.62016. Printed as 0.62 it would end at 14.002."""
    run = Mechanism(unit="note", noise_multiplier=0.7493, sample_rate=0.0875, steps=46, delta=1e-5, max_grad_norm=1)
    more = room([run], run, budget, 1e-5)
    printed = more.model_copy(update={"noise_multiplier": float(f"{more.noise_multiplier:.5g}")})
    assert printed == more and 0.99 * budget < composed_epsilon([run, printed], 1e-5)[0] <= budget


def test_room_fills_the_budget_and_never_exceeds_it():
    spent, like = [mechanism(2.0)], mechanism(2.0, steps=3)
    more = room(spent, like, 4.0, 1e-5)
    total = composed_epsilon([*spent, more], 1e-5)[0]
    assert 0.98 * 4.0 < total <= 4.0
    assert more.epsilon() > 4.0 - spent[0].epsilon(), "composition leaves more than subtracting would"
    assert room(spent, like, spent[0].epsilon() * 0.99, 1e-5) is None
    assert room([], like, 2.0, 1e-5).epsilon() == pytest.approx(2.0, rel=2e-3)
    with pytest.raises(ValueError, match="above 0"):
        room(spent, like, 0.0, 1e-5)


# Words of a run's own ------------------------------------------------------------------------------------------------


def words(noise: str = "gaussian", spent: float = 1.0) -> WordNoise:
    return WordNoise.planned(VocabularySpec(epsilon=spent, delta=1e-6, words=7, noise=noise))


def test_gaussian_words_are_one_more_gaussian():
    # Without sampling: 1/σ² = 1/σ₁² + 1/s², at the δ that is left when words of one unit alone are taken off.
    noise = words()
    run = mechanism(1.2).with_vocabulary(noise)
    assert run.delta == pytest.approx(1.1e-5)
    both = 1 / math.sqrt(1 / 1.2**2 + 1 / noise.multiplier**2)
    known = gaussian_epsilon(both, run.delta - noise.added()[1])
    assert run.epsilon() == pytest.approx(known, abs=0.02)
    assert composed_epsilon([run], run.delta) == run.epsilon_with_method()


def test_laplace_words_are_added():
    plain, noise = mechanism(1.1, 0.05, 60), words("laplace")
    run = plain.with_vocabulary(noise)
    assert run.epsilon() == pytest.approx(plain.epsilon() + 1.0, rel=1e-3)
    assert advantage([run]) == pytest.approx(advantage([plain]) + math.tanh(0.5) + 1e-6)


def test_words_cost_something_and_gaussian_ones_less_than_their_sum():
    plain = mechanism(1.1, 0.05, 60)
    run = plain.with_vocabulary(words())
    assert plain.epsilon() < run.epsilon() < plain.epsilon() + 1.0
    assert advantage([plain]) < advantage([run])
    assert composed_epsilon([run, run], 1e-4)[0] > run.epsilon()
    assert run.training_alone().epsilon() == pytest.approx(plain.epsilon())


def test_words_that_use_delta_up_promise_nothing():
    run = mechanism(1.1, 0.05, 60).with_vocabulary(words())
    assert composed_epsilon([run], 4e-7) == (math.inf, "prv")
    with pytest.raises(ValueError, match="vocabulary's δ"):
        Mechanism.model_validate(run.model_dump() | {"delta": 1e-6})


@pytest.mark.parametrize(("delta", "of_words", "says"), [(0.5, 0.6, "1.1"), (1e-30, 1e-6, "must be below that")])
def test_a_vocabulary_that_makes_delta_no_delta_is_refused(delta, of_words, says):
    run = mechanism(1.1, 0.05, 60).model_copy(update={"delta": delta})
    with pytest.raises(ValueError, match=says):
        run.with_vocabulary(WordNoise.planned(VocabularySpec(epsilon=1.0, delta=of_words)))


def test_one_more_run_has_no_words_of_its_own():
    run = mechanism(1.1, 0.05, 60).with_vocabulary(words())
    more = room([run], run, 8.0, 1e-4)
    assert more.vocabulary is None and 7.8 < composed_epsilon([run, more], 1e-4)[0] <= 8.0


def test_privacy_json_says_nothing_of_a_vocabulary_that_is_not_there():
    plain = mechanism(1.1, 0.05, 60)
    assert "vocabulary" not in plain.to_json()
    run = plain.with_vocabulary(words())
    assert Mechanism.from_json(run.to_json()) == run and Mechanism.from_json(plain.to_json()) == plain


def test_a_replaced_unit_doubles_the_advantage():

    one = mechanism(5.0)
    assert advantage([one.replacing()]) == pytest.approx(2 * advantage([one])) and advantage([one]) > 0.05


def test_what_holds_for_two_changes_follows_from_one():

    for sigma in (3.0, 10.0, 40.0):
        one, delta = mechanism(sigma), 1e-5
        half = composed_epsilon([one.replacing()], delta)[0] / 2

        assert composed_epsilon([one], delta / (1 + math.exp(half)))[0] <= half


def test_one_more_run_replaces_nobody_whatever_the_last_one_did():
    last = mechanism(2.0).model_copy(update={"noise_source": "secret"}).replacing()
    more = room([], last, 4.0, 1e-5)
    assert more.neighbouring == ADD_REMOVE and 3.9 < more.epsilon() <= 4.0


def test_gdp_never_counts():
    run = mechanism(0.7, 0.1, 50, accountant="gdp")
    assert run.epsilon() == run.model_copy(update={"accountant": "prv"}).epsilon() and run.counted_by == "prv"
