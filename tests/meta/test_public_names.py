"""The names that code outside this project may call: where they are, and which arguments they take."""

from __future__ import annotations

import importlib
import inspect

import pytest

# Arguments that may be added later are not in the list: they must have a default value.
PUBLIC = {
    "core.training.accounting.epsilon": "*, noise_multiplier, sample_rate, steps, delta, accountant='prv'",
    "core.training.accounting.noise_multiplier": "*, target_epsilon, sample_rate, steps, delta, accountant='prv'",
    "core.evaluation.metrics.roc": "member_scores, nonmember_scores",
    "core.evaluation.metrics.privacy_leakage": "member_flags, nonmember_flags",
    "core.evaluation.statistics.proportion_interval": "successes, trials, confidence=0.95",
    "core.evaluation.statistics.compare_proportions": "k1, n1, k2, n2",
    "core.evaluation.audit.epsilon_lower_bound": "*, tp, fn, fp, tn, delta=0.0, confidence=0.95",
    "core.evaluation.audit.one_run_epsilon": "*, canaries, guesses, correct, delta, confidence=0.95",
    "core.attacks.exposure.exposure": "canary_losses, reference_losses",
    "core.attacks.membership.min_k": "token_logprobs, k",
    "core.attacks.membership.min_k_plus_plus": "token_logprobs, mu, sigma, k",
    "core.phi.leaks.find": "text, index, prompt=''",
    "core.phi.leaks.find_shaped": "text",
    "core.corpus.importers.read_notes": "path, **columns",
    "core.evaluation.rarity.log_profile_probability": "icd_codes_per_patient",
    "core.models.tokenizer.noisy_histogram": "counts, *, epsilon, delta, rng",
}


def arguments(text: str) -> list[inspect.Parameter]:
    """The parameters of a function with these arguments, without types."""
    namespace: dict[str, object] = {}
    exec(f"def function({text}): ...", namespace)  # noqa: S102 - the text is in this file
    return list(inspect.signature(namespace["function"]).parameters.values())  # type: ignore[arg-type]


def keeps(promised: list[inspect.Parameter], found: list[inspect.Parameter]) -> bool:
    """Whether every call that is promised still means the same: what was added comes later and has a default value."""
    by_place = [one for one in promised if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    added = [one for one in found if one not in promised]
    return (
        found[: len(by_place)] == by_place
        and all(one in found for one in promised)
        and all(one.default is not inspect.Parameter.empty for one in added)
    )


@pytest.mark.parametrize(("name", "promised"), PUBLIC.items())
def test_a_public_name_takes_what_is_promised(name: str, promised: str) -> None:
    module, function = name.rsplit(".", 1)
    found = inspect.signature(getattr(importlib.import_module(module), function)).parameters
    assert keeps(arguments(promised), [one.replace(annotation=inspect.Parameter.empty) for one in found.values()])


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ("a, b=1", True),
        ("a, b=1, *, c=2", True),
        ("a, b=1, *, c", False),
        ("b, a=1", False),
        ("c=0, a=1, b=1", False),
        ("a, *, b=1", False),
        ("a, b=2", False),
    ],
)
def test_the_comparison_sees_a_changed_argument(found: str, kept: bool) -> None:
    assert keeps(arguments("a, b=1"), arguments(found)) == kept
