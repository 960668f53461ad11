import numpy as np
import pytest
import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from core.models.encoding import encode
from core.models.generation import generate, token_sampling
from core.models.generation.decoder import CachedDecoder
from core.models.generation.generate import fill_masks, gibbs, sample

PROMPTS = ["Patient name:", "", "Take the cap off and look inside for dust before you", "Sit", "Patient name:"]
SEEDS = [11, 12, 13, 14, 15]


def test_cached_logits_are_those_of_a_full_pass(gpt2):
    starts = [[gpt2.tokenizer.bos_token_id, *ids] for ids in encode(gpt2, PROMPTS)]
    longest = max(map(len, starts))
    padding = torch.tensor([longest - len(start) for start in starts])
    ids = torch.tensor([[0] * (longest - len(start)) + start for start in starts])
    decoder = CachedDecoder(gpt2.model, len(starts), longest + 6)
    rows = list(range(len(starts)))
    with torch.inference_mode():
        logits = decoder.prefill(ids[:4], padding[:4], torch.tensor([0, 1, 2, 3, 0]))  # the last begins as the first
        for _ in range(5):
            for at, row in enumerate(rows):
                full = gpt2.model(input_ids=torch.tensor([starts[row]])).logits[0, -1]
                torch.testing.assert_close(logits[at], full, atol=2e-5, rtol=1e-4)
            if len(rows) == len(starts):  # rows may leave on the way
                rows = [4, 0, 2]
                decoder.keep(torch.tensor(rows))
                logits = logits[rows]
            tokens = logits.topk(2).indices[:, 1]
            for row, token in zip(rows, tokens.tolist(), strict=True):
                starts[row].append(token)
            logits = decoder.step(tokens)


@pytest.mark.parametrize("count", [1, 7, 50, 300])
def test_the_best_logits_are_those_of_topk(count):
    logits = torch.randn(9, 300, generator=torch.Generator().manual_seed(count))
    values, places = token_sampling.best(logits, count)
    expected = logits.topk(count)
    assert torch.equal(values, expected.values) and torch.equal(places, expected.indices)


def test_greedy_text_is_that_of_transformers(gpt2):
    found = sample(gpt2, PROMPTS, new_tokens=12, seeds=SEEDS, greedy=True)
    for prompt, text in zip(PROMPTS, found, strict=True):
        ids = torch.tensor([[gpt2.tokenizer.bos_token_id, *encode(gpt2, [prompt])[0]]])
        expected = gpt2.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0
        )[0, ids.shape[1] :]
        assert text == gpt2.tokenizer.decode(expected, skip_special_tokens=True)


def test_a_seed_writes_the_same_text_alone_and_in_a_batch(gpt2):
    together = sample(gpt2, PROMPTS, new_tokens=20, seeds=SEEDS)
    alone = [
        sample(gpt2, [prompt], new_tokens=20, seeds=[seed])[0] for prompt, seed in zip(PROMPTS, SEEDS, strict=True)
    ]
    assert together == alone
    assert sample(gpt2, PROMPTS, new_tokens=20, seeds=SEEDS, batch_size=2) == together
    assert sample(gpt2, PROMPTS[::-1], new_tokens=20, seeds=SEEDS[::-1]) == together[::-1]
    assert together[0] != together[4]  # same prompt, another seed


def test_the_kept_set_and_its_shares_are_those_of_transformers():
    torch.manual_seed(0)
    logits = 3 * torch.randn(1, 40)
    warped = TopPLogitsWarper(0.7)(None, TopKLogitsWarper(12)(None, TemperatureLogitsWarper(0.6)(None, logits)))
    expected = warped.softmax(-1)[0].double().numpy()
    choose = token_sampling.TokenSampler(temperature=0.6, top_k=12, top_p=0.7, greedy=False)
    draws = 20_000
    uniform = (torch.arange(draws).double() + 0.5) / draws  # an even grid gives the shares themselves
    tokens = choose(logits.expand(draws, -1), uniform).numpy()
    np.testing.assert_allclose(np.bincount(tokens, minlength=40) / draws, expected, atol=2 / draws)
    assert choose(logits, torch.tensor([1 - 1e-16], dtype=torch.float64)).item() in np.flatnonzero(expected)


def test_a_row_ends_at_end_of_text_and_others_go_on(gpt2, monkeypatch):
    end = gpt2.tokenizer.eos_token_id
    plain = sample(gpt2, PROMPTS, new_tokens=8, seeds=SEEDS)
    calls = 0

    class Ending(token_sampling.TokenSampler):
        def __call__(self, logits, uniform):
            nonlocal calls
            tokens = super().__call__(logits, uniform)
            calls += 1
            return torch.where(torch.arange(len(tokens)) < 3, end, tokens) if calls == 3 else tokens

    monkeypatch.setattr(generate, "TokenSampler", Ending)
    ended = sample(gpt2, PROMPTS, new_tokens=8, seeds=SEEDS)
    order = sorted(range(5), key=lambda row: len(encode(gpt2, [PROMPTS[row]])[0]))
    for place, row in enumerate(order):
        if place < 3:
            assert plain[row].startswith(ended[row]) and len(ended[row]) < len(plain[row])
        else:
            assert ended[row] == plain[row]


def test_streaming_grows_and_a_row_can_be_ended(gpt2):
    seen = {row: [] for row in range(5)}

    def on_tokens(row, text):
        seen[row].append(text)
        return not (row == 2 and len(seen[row]) == 4)

    texts = sample(gpt2, PROMPTS, new_tokens=10, seeds=SEEDS, on_tokens=on_tokens)
    plain = sample(gpt2, PROMPTS, new_tokens=10, seeds=SEEDS)
    assert [len(seen[row]) for row in range(5)] == [10, 10, 4, 10, 10]
    assert texts[2] == seen[2][-1] and plain[2].startswith(texts[2])
    assert [texts[row] for row in (0, 1, 3, 4)] == [plain[row] for row in (0, 1, 3, 4)]
    assert all(later.startswith(earlier) for steps in seen.values() for earlier, later in zip(steps, steps[1:]))  # noqa: B905


def test_stopping_keeps_what_was_written(gpt2):
    steps = iter([False, False, False, False, True, True])
    texts = sample(gpt2, PROMPTS, new_tokens=30, seeds=SEEDS, should_stop=lambda: next(steps))
    whole = sample(gpt2, PROMPTS, new_tokens=30, seeds=SEEDS)
    assert all(
        text and full.startswith(text) and len(text) < len(full) for text, full in zip(texts, whole, strict=True)
    )


def test_a_full_context_ends_the_text(gpt2):
    prompt = "1" * 250
    text = sample(gpt2, [prompt, "x"], new_tokens=20, seeds=[1, 2], top_k=1)[0]
    assert 0 < len(encode(gpt2, [prompt + text])[0]) - 250 <= 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"prompts": ["1" * 256]}, "too long.*at most 256"),
        ({"seeds": [1, 2]}, "1 prompts and 2 seeds"),
        ({"new_tokens": 0}, "new_tokens"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 1.5}, "top_p"),
    ],
)
def test_bad_settings_are_said(gpt2, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        sample(gpt2, **{"prompts": ["a"], "seeds": [1], "new_tokens": 4} | change)


def test_no_prompts_give_no_texts(gpt2):
    assert sample(gpt2, [], new_tokens=4, seeds=[]) == []


def test_no_prompts_give_no_texts_of_masked_models_either(masked):
    assert gibbs(masked, [], new_tokens=4, seeds=[]) == []


def test_masks_are_filled_with_the_models_probabilities(masked):
    found = fill_masks(masked, "Wash [MASK] hands with warm [MASK].", top=5)
    ids = [
        masked.tokenizer.cls_token_id,
        *encode(masked, ["Wash"])[0],
        masked.tokenizer.mask_token_id,
        *encode(masked, ["hands with warm"])[0],
        masked.tokenizer.mask_token_id,
        masked.tokenizer.convert_tokens_to_ids("##."),
        masked.tokenizer.sep_token_id,
    ]
    with torch.no_grad():
        logits = masked.model(input_ids=torch.tensor([ids])).logits[0]
    for place, candidates in zip(np.flatnonzero(np.equal(ids, masked.tokenizer.mask_token_id)), found, strict=True):
        chances, pieces = logits[place].softmax(-1).topk(5)
        assert [piece for piece, _ in candidates] == masked.tokenizer.convert_ids_to_tokens(pieces.tolist())
        np.testing.assert_allclose([chance for _, chance in candidates], chances, atol=1e-5)


def test_filling_says_what_is_missing(models):
    with pytest.raises(ValueError, match=r"no \[MASK\]"):
        fill_masks(models["bert"], "nothing hidden")
    with pytest.raises(ValueError, match="too long"):
        fill_masks(models["bert"], "[MASK] " + "1" * 190 + " " + "2" * 190)
    with pytest.raises(ValueError, match="use sample"):
        fill_masks(models["gpt2"], "[MASK]")


def test_gibbs_writes_the_same_alone_and_in_a_batch(masked):
    prompts, seeds = PROMPTS[:4], SEEDS[:4]
    together = gibbs(masked, prompts, new_tokens=6, sweeps=2, seeds=seeds)
    for prompt, seed, text in zip(prompts, seeds, together, strict=True):
        assert gibbs(masked, [prompt], new_tokens=6, sweeps=2, seeds=[seed]) == [text]
        assert text.strip() and not any(token in text for token in masked.tokenizer.all_special_tokens)


def test_gibbs_draws_from_the_conditional_distribution(masked):
    prompt, draws = "Wash your", 400
    found = gibbs(masked, [prompt] * draws, new_tokens=1, sweeps=1, temperature=1.0, top_k=3, seeds=range(draws))
    best = fill_masks(masked, prompt + " [MASK]", top=12)[0]
    best = [(piece, chance) for piece, chance in best if piece not in masked.tokenizer.all_special_tokens][:3]
    total = sum(chance for _, chance in best)
    for piece, chance in best:
        text = piece[2:] if piece.startswith("##") else " " + piece
        assert found.count(text) / draws == pytest.approx(chance / total, abs=0.1)


def test_gibbs_can_be_watched_and_stopped(masked):
    seen = []
    plan = iter([False] * 3 + [True])
    texts = gibbs(
        masked,
        ["Wash your"],
        new_tokens=8,
        sweeps=2,
        seeds=[3],
        on_tokens=lambda row, text: seen.append((row, text)),
        should_stop=lambda: next(plan),
    )
    assert [row for row, _ in seen] == [0] * 4
    assert texts == [seen[-1][1]] and texts[0]


def test_each_kind_has_its_own_way_of_writing(models):
    with pytest.raises(ValueError, match="use gibbs or fill_masks"):
        sample(models["bert"], ["a"], new_tokens=2, seeds=[1])
    with pytest.raises(ValueError, match="use sample"):
        gibbs(models["gpt2"], ["a"], new_tokens=2, seeds=[1])
    with pytest.raises(ValueError, match="too long"):
        gibbs(models["bert"], ["a"], new_tokens=255, seeds=[1])
    with pytest.raises(ValueError, match="sweeps"):
        gibbs(models["bert"], ["a"], new_tokens=2, sweeps=0, seeds=[1])
