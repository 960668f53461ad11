from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.common.formatting import accounted_text, computed_text, delta_text, limit_text, promised_text, proved_text
from core.evaluation.registry import explain
from core.evaluation.wording import (
    at_most_text,
    auc_sentence,
    audit_sentence,
    chance_text,
    epsilon_text,
    guaranteed_text,
    interval_text,
    leak_sentence,
    most_right_guesses,
    odds_sentence,
    p_value_text,
    pairs_of,
    percent,
    percent_up,
    perplexity_name,
    perplexity_text,
    planted_sentence,
    right_of_100,
    set_percent,
    unbroken,
    verdict,
    with_separators,
)


def test_most_right_guesses_known_answers():
    assert most_right_guesses(0.0) == 0.5
    assert most_right_guesses(math.log(3)) == pytest.approx(0.75)  # randomised response
    assert most_right_guesses(0.0, 0.2) == pytest.approx(0.6)  # (e^0 + 0.2)/(1 + e^0)
    assert most_right_guesses(math.inf) == most_right_guesses(1.0, 1.0) == 1.0
    for epsilon in (37.0, 1_000.0, 1e6):
        assert at_most_text(most_right_guesses(epsilon, 1e-5)) == "just under 100\u00a0%", "there is a limit"
    with pytest.raises(ValueError, match="at least 0"):
        most_right_guesses(-1.0)


@given(st.floats(0, 6), st.floats(0, 0.5))
@settings(max_examples=60)
def test_no_attack_on_the_worst_mechanism_beats_the_odds(epsilon, delta):
    """The most distinguishing (ε, δ)-DP mechanism has four outcomes (Kairouz et al. 2015); the best guess is known."""
    both = (1 - delta) / (1 + math.exp(epsilon))
    inside = np.array([delta, 0.0, both * math.exp(epsilon), both])
    outside = np.array([0.0, delta, both, both * math.exp(epsilon)])
    assert inside.sum() == pytest.approx(1.0)
    assert (np.maximum(inside, outside) / 2).sum() == pytest.approx(most_right_guesses(epsilon, delta))


def test_odds_in_words():
    assert odds_sentence(1.0, 1e-5) == (
        "Of 100 attackers who see every step of the training and guess whether a patient was in the data, on average "
        "at most 74 are right, if in and out were equally likely beforehand (50 by tossing a coin)."
    )
    assert "one particular note was in the data, on average at most 74" in odds_sentence(1.0, unit="note")
    assert "Of 100 attackers" in odds_sentence(8.0, 1e-5) and "at most 99.97 are right" in odds_sentence(8.0, 1e-5)
    assert "empty in practice" in odds_sentence(40.0)
    assert "nothing limits" in odds_sentence(math.inf)


@given(st.floats(0, 30), st.floats(0, 0.1))
@settings(max_examples=60)
def test_odds_never_promise_more_than_the_guarantee(epsilon, delta):
    sentence = odds_sentence(epsilon, delta)
    if "at most" in sentence:
        right = float(re.search(r"Of 100 .* most ([\d.]+) are", sentence)[1])
        assert right / 100 >= most_right_guesses(epsilon, delta) - 1e-9 and right < 100


def test_verdict_needs_intervals_that_do_not_touch():
    assert verdict(0.3, 0.5, 0.0, 0.2) == "exceeds its control"
    assert verdict(0.2, 0.5, 0.0, 0.2) == "cannot be told from its control"
    assert verdict(0.0, 0.1, 0.2, 0.4) == "below its control"
    with pytest.raises(ValueError, match="missing"):
        verdict(math.nan, 0.5, 0.0, 0.2)


def test_leak_sentences():
    found = leak_sentence(0.1, 0.07, 0.14, 0.008, 0.001, 0.04)
    assert found.startswith("10\u00a0% (95\u00a0% interval 7.0\u00a0% to 14\u00a0%) against 0.80\u00a0%")
    assert "memorised patients" in found
    assert "this cannot be distinguished from chance" in leak_sentence(0.01, 0.0, 0.03, 0.008, 0.001, 0.04)


def test_a_limit_is_rounded_up_and_never_to_all():
    assert [percent_up(limit) for limit in (0.0, 1e-9, 0.5, 0.693512, 0.99999, 1 - 1e-12, 1.0)] == [
        "0\u00a0%",
        "0.01\u00a0%",
        "50\u00a0%",
        "69.36\u00a0%",
        "just under 100\u00a0%",
        "just under 100\u00a0%",
        "100\u00a0%",
    ]
    assert percent_up(0.9999) == "99.99\u00a0%" and percent_up(0.07) == "7\u00a0%", "what is exact is not rounded"
    assert at_most_text(0.9999999) == "just under 100\u00a0%" and at_most_text(1.0) == "no limit"


def test_an_attacker_is_never_right_every_time_by_rounding():
    assert pairs_of(0.881) == (88, 100) and pairs_of(0.997) == (997, 1_000) and pairs_of(0.003) == (3, 1_000)
    assert pairs_of(1.0) == (100, 100) and pairs_of(0.0) == (0, 100)


def test_an_interval_above_a_coin_does_not_seem_to_reach_down_to_it():
    assert pairs_of(0.534, low=0.504) == (534, 1_000) and pairs_of(0.534, low=0.5004) == (5_340, 10_000)
    assert pairs_of(0.534, low=0.499) == (53, 100) and pairs_of(0.534, low=0.506) == (53, 100)
    assert "997 times (500 by tossing a coin)" in auc_sentence(0.997)


def test_auc_and_audit_sentences():
    assert "picks the right one 62 times" in auc_sentence(0.62)
    assert audit_sentence(2.0, 1.0, 2.74).startswith(
        "Alarm: an attack on the finished model proves ε ≥ 2, above ε = 1 of its accounting ("
    )
    assert "within ε = 8 of its accounting" in audit_sentence(0.4, 8.0, 1.3) and "Alarm" not in audit_sentence(
        8.0, 8.0, 9.0
    )
    open_ended = "Without privacy, nothing limits ε. Attacks on the finished model prove"
    assert audit_sentence(3.0, math.inf, 3.5).startswith(f"{open_ended} that it is at least 3 (")
    nothing = "Attacks on the finished model prove no lower bound on ε above 0 (these trials could show at most 1.26); "
    assert audit_sentence(0.0, 8.0, 1.2603) == f"{nothing}ε is 8 by accounting."
    assert audit_sentence(0.0, math.inf, 1.2603).startswith(f"{open_ended} no lower bound above 0 (")
    for bound, promised in ((0.0, 8.0), (0.0, math.inf), (0.5, 8.0), (0.5, math.inf), (9.0, 8.0)):
        assert "could show at most 2.74" in audit_sentence(bound, promised, 2.742)


def test_what_is_seen_from_inside_is_told_apart_with_its_ceiling():
    proof = {
        **{"canaries": 5_000, "guesses": 500, "correct": 458, "proved": 2.119, "proved_by_curve": 3.398},
        **{"ceiling": 10.17, "promised": 7.997, "can_alarm": True, "alarm": False},
    }
    told = planted_sentence(proof)
    assert "sees every step (white-box) of a second run" in told and "5,000 planted gradients" in told
    assert "458 of 500 right" in told
    assert "proves ε ≥ 2.11, and by the run’s own trade-off curve ε ≥ 3.39; the most" in told, "rounded down"
    assert "the most it could have proved is ε = 10.1 (95" in told, "rounded down"
    assert told.endswith("By accounting, such a training has ε = 8.") and "finished model" not in told
    nothing = planted_sentence(proof | {"proved": 0.0, "proved_by_curve": math.nan, "can_alarm": False, "ceiling": 6.9})
    assert "This proves nothing; the most it could have proved is ε = 6.9 (95" in nothing and "curve" not in nothing
    assert nothing.endswith("With this few planted gradients, no result could contradict ε = 8.")
    assert "Alarm: this contradicts the promise." in planted_sentence(proof | {"alarm": True})


def test_perplexity_is_explained_for_models_that_fill_gaps_too():
    told = explain("perplexity_heldout")
    assert "GPT-2 predicts the next token" in told and "pseudo-perplexity" in told and "not compare" in told
    assert [perplexity_name(kind) for kind in ("gpt2", "bert", "distilbert")] == [
        "perplexity",
        "pseudo-perplexity",
        "pseudo-perplexity",
    ]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: epsilon_text(8.0), "8"),
        (lambda: epsilon_text(0.5), "0.5"),
        (lambda: epsilon_text(1234.5), "1,234"),
        (lambda: epsilon_text(math.inf), "∞ (no privacy)"),
        (lambda: guaranteed_text(9.991), "10"),
        (lambda: guaranteed_text(9_996.2), "9,997"),
        (lambda: guaranteed_text(math.inf), "∞ (no privacy)"),
        (lambda: perplexity_text(4.213), "4.21"),
        (lambda: perplexity_text(61.84), "61.8"),
        (lambda: perplexity_text(9.997), "10.0"),
        (lambda: perplexity_text(9644.2), "9,644"),
        (lambda: delta_text(1e-5), "10⁻⁵"),
        (lambda: delta_text(2.34e-12), "2.4·10⁻¹²"),
        (lambda: delta_text(2e-7), "2·10⁻⁷"),
        (lambda: delta_text(1.04e-5), "1.1·10⁻⁵"),
        (lambda: delta_text(0.0302), "0.031"),
        (lambda: limit_text(1.09e-5), "10⁻⁵"),
        (lambda: limit_text(9.99e-6), "9.9·10⁻⁶"),
        (lambda: delta_text(9.96e-6), "10⁻⁵"),
        (lambda: delta_text(0.03), "0.03"),
        (lambda: delta_text(0.0), "0"),
        (lambda: promised_text(7.9968), "8"),
        (lambda: promised_text(8.0), "8"),
        (lambda: promised_text(10.04), "10.1"),
        (lambda: promised_text(0.4991), "0.5"),
        (lambda: promised_text(1234.5), "1,235"),
        (lambda: promised_text(1.2341e40), "1.24e+40"),
        (lambda: promised_text(0.0), "0"),
        (lambda: promised_text(math.inf), "inf"),
        (lambda: proved_text(2.746), "2.74"),
        (lambda: proved_text(2.74), "2.74"),
        (lambda: proved_text(1234.5), "1,234"),
        (lambda: computed_text(9.944), "9.94"),
        (lambda: computed_text(1234.6), "1,235"),
        (lambda: perplexity_text(999_999.4), "999,999"),
        (lambda: perplexity_text(999_999.6), "1 million"),
        (lambda: perplexity_text(1_234_567.8), "1.23 million"),
        (lambda: perplexity_text(4.5e10), "45 billion"),
        (lambda: perplexity_text(1e300), "more than a trillion"),
        (lambda: perplexity_text(math.inf), "∞"),
        (lambda: percent(0.0), "0\u00a0%"),
        (lambda: percent(-0.0), "0\u00a0%"),
        (lambda: percent(-0.025), "−2.5\u00a0%"),
        (lambda: percent(0.0007), "0.07\u00a0%"),
        (lambda: percent(0.00001), "<\u00a00.01\u00a0%"),
        (lambda: percent(-0.00003), ">\u00a0−0.01\u00a0%"),
        (lambda: percent(-0.00006), "−0.01\u00a0%"),
        (lambda: percent(19 / 2_000), "0.95\u00a0%"),
        (lambda: percent(0.032), "3.2\u00a0%"),
        (lambda: percent(0.38), "38\u00a0%"),
        (lambda: percent(0.99966), "99.97\u00a0%"),
        (lambda: percent(0.9999999), "99.99\u00a0%"),
        (lambda: percent(1.0), "100\u00a0%"),
        (lambda: set_percent(0.01), "1\u00a0%"),
        (lambda: set_percent(0.29), "29\u00a0%"),
        (lambda: chance_text(0.62), "62\u00a0%"),
        (lambda: chance_text(0.001), "0.10\u00a0%"),
        (lambda: chance_text(4e-4), "1 in 2,500"),
        (lambda: chance_text(3.14e-7), "1 in 3.2 million"),
        (lambda: chance_text(9.996e-7), "1 in 1 million"),
        (lambda: chance_text(5e-10), "1 in 2 billion"),
        (lambda: chance_text(0.0), "below 1 in a trillion"),
        (lambda: with_separators("1000 of 12000; 0.0233, 100 and 1,290"), "1,000 of 12,000; 0.0233, 100 and 1,290"),
        (lambda: with_separators("there are 1290."), "there are 1,290."),
        (lambda: p_value_text(0.0), "p < 0.001"),
        (lambda: p_value_text(0.032), "p = 0.032"),
        (lambda: p_value_text(0.41), "p = 0.41"),
        (lambda: interval_text(0.0, 0.2), "95\u00a0% interval 0\u00a0% to 20\u00a0%"),
        (lambda: interval_text(4.0, 5.0, perplexity_text), "95\u00a0% interval 4.00 to 5.00"),
        (lambda: interval_text(math.nan, math.nan), "without an interval"),
    ],
)
def test_numbers_are_written_plainly(call, text):
    assert call() == text


def test_a_limit_is_never_told_too_low():
    assert at_most_text(0.7415) == "at most 75\u00a0%" and at_most_text(0.75) == "at most 75\u00a0%"
    assert at_most_text(0.99966) == "at most 99.97\u00a0%" and at_most_text(0.99999) == "at most 99.999\u00a0%"
    assert at_most_text(1.0) == "no limit" and at_most_text(math.nan) == "–"
    for chance in (0.5, 0.553, 0.7415, 0.9941, 0.99966):
        assert at_most_text(chance) == f"at most {right_of_100(chance)}\u00a0%", "tables and sentences have one number"


def test_an_epsilon_to_compute_with_is_rounded_up_in_its_sixth_digit():
    found = [accounted_text(value) for value in (7.986581, 7.98658, 8.0, 0.0626281, 1234567.0, 0.0, math.inf)]
    assert found == ["7.98659", "7.98658", "8", "0.0626281", "1.23457e+06", "0", "inf"]


def test_an_epsilon_and_a_delta_stay_on_one_line_with_their_values() -> None:
    assert unbroken("ε = 1,998 at δ = 10⁻⁵") == "ε\u00a0=\u00a01,998 at δ\u00a0=\u00a010⁻⁵"


def test_a_percent_sign_stays_on_one_line_with_its_number() -> None:
    assert unbroken("up to 7 % PL, .5 % for 100 % of them") == "up to 7\u00a0% PL, .5\u00a0% for 100\u00a0% of them"
    assert unbroken("% of members, a share in %") == "% of members, a share in %"
