"""A model's own words: bounded counts, WordPiece against naive merges, a model that reads as before where it may."""

from __future__ import annotations

import copy
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import normalizers

from core.common.randomness import PublicSeed, SecretKey
from core.corpus.public_text import training_text
from core.models.build import load_folder
from core.models.dp_vocabulary import extend, own_words, train_pieces, unit_counts, unknown_words
from core.models.likelihood import pseudo_log_likelihoods, word_log_likelihoods
from core.models.masking import masked_logits
from core.spec import VocabularySpec

WORDS = ["Quvarion", "zyxomat", "Blefuscu", "hyperwobble", "Kreplach"]


def notes(count: int = 40) -> pd.DataFrame:
    """Notes of four patients; note n says the first 1 + n mod 5 of `WORDS`, the first of them twice."""
    rows = []
    for number in range(count):
        said = WORDS[: 1 + number % len(WORDS)]
        rows.append((f"N{number}", f"P{number % 4}", f"{said[0]}, the pain ({' '.join(said)}) 12/88."))
    return pd.DataFrame(rows, columns=["note_id", "patient_id", "text"])


@pytest.fixture
def own(masked):
    """A masked model that a test may change."""
    return copy.deepcopy(masked)


def counted(lm, *options: object, **more: object) -> dict[str, int]:
    return unit_counts(partial(unknown_words, lm), *options, **more)


def naive_merges(counts: dict[str, float], known: set[str]) -> list[str]:
    """Byte-pair merges: join the most frequent pair (of several the one known longest) until none is left twice."""
    words = {word: [word[0], *("##" + character for character in word[1:])] for word in counts}
    alphabet = sorted(set("".join(counts)))
    learned = [*alphabet, *("##" + character for character in alphabet)]
    while True:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, pieces in words.items():
            for pair in zip(pieces, pieces[1:], strict=False):
                pairs[pair] += round(counts[word])
        if not pairs or max(pairs.values()) < 2:
            return [piece for piece in learned if piece not in known]
        left, right = min(pairs, key=lambda pair: (-pairs[pair], *map(learned.index, pair)))
        merged = left + right.removeprefix("##")
        learned.append(merged)
        for word, pieces in words.items():
            joined: list[str] = []
            for piece in pieces:
                if joined and (joined[-1], piece) == (left, right):
                    joined[-1] = merged
                else:
                    joined.append(piece)
            words[word] = joined


def test_pieces_are_those_of_naive_merges(masked):
    counts = {"abcab": 243.2, "cabd": 2187.0, "ddca": 27.4, "bbad": 729.0, "zab": 1.0, "Łukasz": 9.0}
    expected = naive_merges(counts, set(masked.tokenizer.get_vocab()))
    assert len(expected) > 10
    assert train_pieces(masked, counts, 50) == expected
    assert train_pieces(masked, counts, 3) == expected[:3]


def test_without_words_there_are_no_pieces(masked):
    assert train_pieces(masked, {}, 10) == []


def test_unknown_words_end_at_punctuation_and_hold_no_digits(masked):
    text = "Quvarion, the (zyxomat) 12/88. Quvarion"
    assert [word for word in unknown_words(masked, text) if len(word) > 3] == ["Quvarion", "zyxomat", "Quvarion"]
    assert not any(character.isdigit() for word in unknown_words(masked, text) for character in word)


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_a_unit_moves_at_most_k_counts_by_one(masked, unit):
    k, everything = 2, notes()
    whole = counted(masked, everything, unit, k, randomness=PublicSeed(3))
    column = {"note": "note_id", "patient": "patient_id"}[unit]
    for name in everything[column].unique()[:8]:
        rest = counted(masked, everything[everything[column] != name], unit, k, randomness=PublicSeed(3))
        moved = {word: whole.get(word, 0) - rest.get(word, 0) for word in whole | rest}
        assert set(moved.values()) <= {0, 1} and 1 <= sum(moved.values()) <= k
    assert max(whole.values()) <= everything[column].nunique()


def test_counts_without_a_cap_are_those_of_units(masked):
    everything = notes()
    found = counted(masked, everything, "note", 100, randomness=PublicSeed(0))
    assert {word: found[word] for word in WORDS} == {word: 40 - 8 * place for place, word in enumerate(WORDS)}
    assert all(counted(masked, everything, "patient", 100, randomness=PublicSeed(0))[word] == 4 for word in WORDS)
    with pytest.raises(ValueError, match="at least one word"):
        counted(masked, everything, "note", 0, randomness=PublicSeed(0))


def test_another_seed_draws_other_words(masked):
    first, other = PublicSeed(0), PublicSeed(1)
    assert counted(masked, notes(), "note", 1, first) == counted(masked, notes(), "note", 1, first)
    assert counted(masked, notes(), "note", 1, first) != counted(masked, notes(), "note", 1, other)


def test_a_secret_key_draws_which_words_count_and_their_noise(masked):
    spec = VocabularySpec(epsilon=4.0, delta=1e-4, words=6, pieces=200)
    first, second = SecretKey(bytes(16)), SecretKey(bytes(range(16)))
    found = own_words(masked, notes(200), spec, "note", first)
    assert found == own_words(masked, notes(200), spec, "note", SecretKey(bytes(16)))
    assert counted(masked, notes(), "note", 1, first) != counted(masked, notes(), "note", 1, second)
    counts = {"word": 30, "other": 40}
    noise = found.noise
    drawn = [noise.release(counts, source.stream(41)) for source in (first, second, PublicSeed(0))]
    assert drawn[0] == noise.release(counts, first.stream(41)) and drawn[0] != drawn[1] != drawn[2]


def test_rare_words_stay_out_and_the_seed_decides_the_noise(masked):
    many = pd.concat([notes(200), notes(1).assign(note_id="alone", text="Onlyonesaysthis")], ignore_index=True)
    spec = VocabularySpec(epsilon=4.0, delta=1e-4, words=6, pieces=200)
    found = own_words(masked, many, spec, "note", PublicSeed(0))
    assert "Quvarion" in found.entries and not any("saysthis" in entry for entry in found.entries)
    assert 0 < found.kept < found.counted
    assert found == own_words(masked, many, spec, "note", PublicSeed(0))
    assert found.noise.epsilon() == pytest.approx(4.0, rel=1e-4)
    exact = own_words(masked, many, VocabularySpec(pieces=200), "note", PublicSeed(0))
    assert exact.noise is None and exact.kept == exact.counted


def test_an_extended_model_reads_new_words_whole_and_old_text_as_before(own, masked, tmp_path):
    first, old = len(own.tokenizer), masked.tokenizer.get_vocab()
    before = masked.model.get_input_embeddings().weight
    public = [text for text in training_text()[:20] if "Quvarion" not in text]
    extend(own, ["Quvarion", "##omat"])
    vocabulary = own.tokenizer.get_vocab()
    assert {piece: vocabulary[piece] for piece in old} == old and vocabulary["##omat"] == first + 1
    assert own.tokenizer.tokenize("Quvarion zyxomat")[0] == "Quvarion"
    assert own.tokenizer.tokenize("Quvarion zyxomat")[-1] == "##omat"
    assert [own.tokenizer.encode(text) for text in public] == [masked.tokenizer.encode(text) for text in public]
    assert own.tokenizer.decode(own.tokenizer.encode("a Quvarion zyxomat"), skip_special_tokens=True) == (
        "a Quvarion zyxomat"
    )
    weight = own.model.get_input_embeddings().weight
    assert torch.equal(weight[:first], before) and own.model.config.vocab_size == first + 2
    parts = masked.tokenizer.convert_tokens_to_ids(masked.tokenizer.tokenize("Quvarion"))
    assert len(parts) > 1 and torch.allclose(weight[first], before[parts].mean(0))
    own.save(tmp_path)
    again = load_folder(tmp_path)
    assert again.tokenizer.get_vocab() == vocabulary
    for name, value in own.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)


def test_the_output_stays_tied_and_its_bias_is_a_mean_too(own):
    bias = own.model.get_output_embeddings().bias
    with torch.no_grad():
        bias.copy_(torch.arange(len(bias), dtype=torch.float32))
    parts = own.tokenizer.convert_tokens_to_ids(own.tokenizer.tokenize("Quvarion"))
    extend(own, ["Quvarion"])
    output = own.model.get_output_embeddings()
    assert output.weight is own.model.get_input_embeddings().weight
    assert output.bias.shape == (len(own.tokenizer),)
    assert output.bias[-1].item() == pytest.approx(np.mean(parts))
    ids = torch.tensor([own.tokenizer.encode("the Quvarion")])
    mask = ids == ids[0, -2]
    assert masked_logits(own, ids, torch.ones_like(ids), mask).shape == (1, len(own.tokenizer))
    own.head(own.hidden(ids)).sum().backward()
    assert own.model.get_input_embeddings().weight.grad[-1].abs().sum() > 0


def test_no_entries_change_nothing(own, masked):
    extend(own, [])
    assert own.tokenizer.get_vocab() == masked.tokenizer.get_vocab()
    assert own.model.get_input_embeddings().weight.shape == masked.model.get_input_embeddings().weight.shape


def test_what_cannot_be_added_is_refused(own, gpt2):
    with pytest.raises(ValueError, match="once"):
        extend(own, ["the"])
    with pytest.raises(ValueError, match="once"):
        extend(own, ["Quvarion", "Quvarion"])
    with pytest.raises(ValueError, match="distilbert"):
        extend(gpt2, ["Quvarion"])
    with pytest.raises(ValueError, match="distilbert"):
        own_words(gpt2, notes(), VocabularySpec(), "note", PublicSeed(0))
    own.tokenizer.backend_tokenizer.normalizer = normalizers.Lowercase()
    with pytest.raises(ValueError, match="cased model"):
        own_words(own, notes(), VocabularySpec(), "note", PublicSeed(0))


# Words as the unit of likelihood -------------------------------------------------------------------------------------


def naive_word(lm, text: str, word: int) -> float:
    """Log p of a word: one piece after the other, with the pieces to its right in the word hidden as well."""
    pieces = [lm.tokenizer.encode(part, add_special_tokens=False) for part in text.split()]
    before = 1 + sum(map(len, pieces[:word]))
    ids = torch.tensor([[lm.tokenizer.cls_token_id, *sum(pieces, []), lm.tokenizer.sep_token_id]])
    total = 0.0
    for place in range(len(pieces[word])):
        mask = torch.zeros_like(ids, dtype=torch.bool)
        mask[0, before + place : before + len(pieces[word])] = True
        with torch.inference_mode():
            logits = masked_logits(lm, ids, torch.ones_like(ids), mask)
        total += float(torch.log_softmax(logits.double(), -1)[0, ids[0, before + place]])
    return total


def test_word_likelihoods_are_those_of_a_naive_loop(masked):
    texts = ["the pain, (Quvarion) was 12/88.", "zyxomat again", "  one\nword\tmore "]
    words = [np.array([1, 2, 4]), np.array([0]), np.array([0, 2])]
    found = word_log_likelihoods(masked, texts, words)
    for text, chosen, values in zip(texts, words, found, strict=True):
        assert values == pytest.approx([naive_word(masked, text, word) for word in chosen], abs=1e-4)


def test_a_word_of_one_piece_is_its_pseudo_likelihood(masked):
    text = "the the the"
    pseudo = pseudo_log_likelihoods(masked, [text])[0]
    assert word_log_likelihoods(masked, [text], [np.arange(3)])[0] == pytest.approx(pseudo, abs=1e-5)


def test_words_across_samples_are_counted_whole(masked):
    text = "the pain Quvarion the pain"
    cut = word_log_likelihoods(masked, [text], [np.arange(5)], max_tokens=6)[0]
    assert cut.shape == (5,) and (cut < 0).all()


def test_left_to_right_models_hide_no_words(gpt2):
    with pytest.raises(ValueError, match="token_log_likelihoods"):
        word_log_likelihoods(gpt2, ["a"], [np.array([0])])
