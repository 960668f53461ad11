"""The computed chance that a sample begins with a text: against every sequence of tokens, and against samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from core.models.build import LanguageModel
from core.models.encoding import decode, encode
from core.models.generation.continuations import begins_with, start_probabilities
from core.models.generation.generate import sample
from core.models.generation.token_sampling import TokenSampler
from tests.tiny_models import tiny

NAMES = [
    f"{first} {last}"
    for first in ("Ann", "Bob", "Carla", "Dmitri", "Eve", "José")
    for last in ("Lee", "Keller", "Leeds", "Burke")
]
SAMPLES = 10_000


@pytest.fixture(scope="module")
def taught() -> LanguageModel:
    """A model that has learned 24 names after “Patient:”, some in capitals, none of them surely."""
    lm = tiny("gpt2", seed=3)
    optimizer = torch.optim.AdamW(lm.model.parameters(), lr=3e-3)
    rng = np.random.default_rng(5)
    texts = [
        f"Patient: {name.upper() if rng.random() < 0.2 else name}{end}"
        for name in NAMES
        for end in rng.choice([" is well.", ", born here", ".", "son is in."], 3)
    ]
    rows = [torch.tensor([lm.tokenizer.bos_token_id, *ids, lm.tokenizer.eos_token_id]) for ids in encode(lm, texts)]
    for _ in range(120):
        optimizer.zero_grad()
        for row in rng.permutation(len(rows))[:12]:
            lm.model(input_ids=rows[row][None], labels=rows[row][None]).loss.backward()
        optimizer.step()
    return lm


def every_sequence(lm: LanguageModel, prompt: str, tokens: int, top_k: int) -> dict[str, float]:
    """Each text of at most `tokens` tokens that a sampler can write, with its chance, one sequence at a time."""
    sampler = TokenSampler(temperature=0.8, top_k=top_k, top_p=0.95, greedy=False)
    found: dict[str, float] = {}

    def go_on(ids: list[int], chance: float) -> None:
        if len(ids) == tokens:
            found[decode(lm, ids)] = found.get(decode(lm, ids), 0.0) + chance
            return
        start = [lm.tokenizer.bos_token_id, *encode(lm, [prompt])[0], *ids]
        with torch.inference_mode():
            shares = sampler.probabilities(lm.model(input_ids=torch.tensor([start])).logits[:, -1])[0]
        for token in torch.nonzero(shares).flatten().tolist():
            if token == lm.tokenizer.eos_token_id:
                text = decode(lm, ids)
                found[text] = found.get(text, 0.0) + chance * float(shares[token])
            else:
                go_on([*ids, token], chance * float(shares[token]))

    go_on([], 1.0)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_is_the_sum_over_every_sequence_of_tokens(seed):
    lm = tiny("gpt2", seed=seed, spread=6)
    texts = every_sequence(lm, "Patient:", 4, 5)
    assert sum(texts.values()) == pytest.approx(1)
    rng = np.random.default_rng(seed)
    pool = [text[: rng.integers(1, 8)].strip() for text in texts]
    pool = sorted({one for one in pool if one and one.isascii()})
    values = [[str(form) for form in rng.choice(pool, 4)] for _ in range(40)] + [["never written"]]
    values += [[one, one.upper()] for one in pool[:20]] + [[one, f"{one} x", f"{one}, "] for one in pool[:20]]
    found = start_probabilities(lm, "Patient:", values, new_tokens=4, temperature=0.8, top_k=5, top_p=0.95)
    naive = [
        sum(chance for text, chance in texts.items() if any(begins_with(text, form) for form in forms))
        for forms in values
    ]
    assert sum(one > 0 for one in naive) > 30
    np.testing.assert_allclose(found, naive, rtol=1e-4, atol=1e-12)


def test_it_agrees_with_samples(taught):
    """10,000 samples by the attack's sampler, 24 looks: each within its binomial interval at 1 − 0.05/24."""
    settings = {"new_tokens": 12, "temperature": 0.8, "top_k": 50, "top_p": 0.95}
    found = start_probabilities(taught, "Patient:", [[name] for name in NAMES], **settings)
    texts = sample(taught, ["Patient:"] * SAMPLES, seeds=list(range(SAMPLES)), batch_size=1_000, **settings)
    counts = [sum(begins_with(text, name) for text in texts) for name in NAMES]
    assert sum(counts) > 1_000 and sum(count > 0 for count in counts) >= 20, "the model must write the names"
    for name, count, chance in zip(NAMES, counts, found, strict=True):
        assert stats.binomtest(count, SAMPLES, chance).pvalue > 0.05 / len(NAMES), name


@pytest.mark.parametrize(
    ("text", "form", "whole"),
    [
        (" Ann Lee, born", "Ann Lee", True),
        ("ANN LEE", "Ann Lee", True),
        (" Ann Leeds", "Ann Lee", False),
        (" Ann Lee-Burke", "Ann Lee", False),
        (" Ann Lee2", "Ann Lee", False),
        ("  Ann Lee", "Ann Lee", False),
        (" Mr Ann Lee", "Ann Lee", False),
        (" Ann Lee's", "Ann Lee", True),
        (" Ann Leeé", "Ann Lee", False),
        ("Ann", "Ann Lee", False),
    ],
)
def test_a_value_counts_only_as_a_whole_and_at_the_beginning(text, form, whole):
    assert begins_with(text, form) is whole


def test_a_chance_that_would_be_rounded_to_zero_is_not_zero():
    """At this temperature each token but the likeliest has a chance of about e⁻⁴⁰; none is cut, so nothing is 0."""
    lm = tiny("gpt2", seed=1, spread=6)
    settings = {"new_tokens": 40, "temperature": 0.035, "top_k": len(lm.tokenizer), "top_p": 1.0}
    (chance,) = start_probabilities(lm, "Patient:", [["Zq Xv Kj Wy Qz Vx Jk"]], **settings)
    assert 0 < chance < 1e-300
    (cut,) = start_probabilities(lm, "Patient:", [["Zq Xv Kj Wy Qz Vx Jk"]], **settings | {"top_k": 1})
    assert cut == 0


def test_overlapping_forms_count_once_and_settings_are_checked(taught):
    settings = {"new_tokens": 12, "temperature": 0.8, "top_k": 50, "top_p": 0.95}
    forms = [
        ["Ann Lee"],
        ["Ann Lee", "ann lee", "Ann Lee, born", "Ann Lee is"],
        ["Ann Lee, born"],
        ["Ann Lee", "Eve Lee"],
    ]
    one, overlapping, longer, two = start_probabilities(taught, "Patient:", forms, **settings)
    assert one == pytest.approx(overlapping) and 0 < longer < one < two
    (eve,) = start_probabilities(taught, "Patient:", [["Eve Lee"]], **settings)
    assert two == pytest.approx(one + eve)
    for wrong, message in (({"top_k": 0}, "top_k"), ({"temperature": 0.0}, "temperature"), ({"new_tokens": 0}, "new")):
        with pytest.raises(ValueError, match=message):
            start_probabilities(taught, "Patient:", forms, **{**settings, **wrong})
    with pytest.raises(ValueError, match="does not continue"):
        start_probabilities(tiny("bert", seed=1), "Patient:", forms, **settings)
    with pytest.raises(ValueError, match="greedy"):
        TokenSampler(temperature=1.0, top_k=5, top_p=1.0, greedy=True).probabilities(torch.zeros(1, 9))


def test_probabilities_are_those_of_the_draws():
    sampler = TokenSampler(temperature=0.8, top_k=5, top_p=0.9, greedy=False)
    logits = torch.randn(1, 30, generator=torch.Generator().manual_seed(2))
    shares = sampler.probabilities(logits)[0]
    steps = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    drawn = torch.bincount(sampler(logits.expand(len(steps), -1), steps), minlength=30) / len(steps)
    assert float(shares.sum()) == pytest.approx(1) and int((shares > 0).sum()) <= 5
    torch.testing.assert_close(drawn.double(), shares, atol=2e-5, rtol=0)
    assert ((drawn > 0) == (shares > 0)).all()
