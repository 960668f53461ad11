import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.corpus.public_text import heldout_text, training_text
from core.models import encoding, tokenizer
from core.models.encoding import decode, encode, encode_samples

NOTE = "Maria Keller, MRN-4410937 (142/88), maria.keller57@example.org; born 1957-03-22. 6.9 mg, ~50 %"


@settings(max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_gpt2_gives_any_text_back(gpt2, text):
    text = text.replace(tokenizer.END_OF_TEXT, "")
    assert decode(gpt2, encode(gpt2, [text])[0]) == text


@settings(max_examples=60)
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=80))
def test_word_pieces_give_ascii_text_back_up_to_white_space(masked, text):
    text = text.replace("[", "(")  # a typed [MASK] is a mask, not text
    assert decode(masked, encode(masked, [text])[0]) == " ".join(text.split())


def test_numbers_and_identifiers_survive(any_model):
    assert decode(any_model, encode(any_model, [NOTE])[0]) == NOTE


def test_every_digit_is_one_token(any_model):
    pieces = any_model.tokenizer.convert_ids_to_tokens(encode(any_model, [NOTE])[0])
    with_digit = [piece.removeprefix("##") for piece in pieces if any(character.isdigit() for character in piece)]
    assert with_digit == [character for character in NOTE if character.isdigit()]
    vocabulary = {piece.removeprefix("##").removeprefix("Ġ") for piece in any_model.tokenizer.get_vocab()}
    assert not [
        piece for piece in vocabulary if len(piece) > 1 and any(character in "0123456789" for character in piece)
    ]


def test_case_matters_to_masked_kinds(masked):
    assert encode(masked, ["Will"]) != encode(masked, ["will"])


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_training_twice_leaves_no_stale_merges(kind):
    first, second = training_text()[:40], heldout_text()
    tokenizer.train(kind, first, 600)
    again = tokenizer.train(kind, second, 600)
    assert again.backend_tokenizer.to_str() == tokenizer.train(kind, second, 600).backend_tokenizer.to_str()
    assert again.get_vocab() != tokenizer.train(kind, first, 600).get_vocab()
    assert len(again) <= 600


def test_unknown_kind_is_named():
    with pytest.raises(ValueError, match="'llama'.*gpt2, distilbert or bert"):
        tokenizer.train("llama", ["text"], 300)


def test_samples_hold_the_whole_text_and_know_their_note(any_model):
    texts = ["Short one.", " ".join(heldout_text()[:2]), "", "Last."]
    samples = encode_samples(any_model, texts, max_tokens=24)
    assert max(map(len, samples.ids)) == 24
    assert np.all(np.diff(samples.note_index) >= 0) and set(samples.note_index) == {0, 1, 2, 3}
    for number, tokens in enumerate(encode(any_model, texts)):
        pieces = [ids.tolist() for ids, note in zip(samples.ids, samples.note_index, strict=True) if note == number]
        special = any_model.tokenizer
        if any_model.causal:
            assert all(piece[0] == special.bos_token_id for piece in pieces)
            assert sum((piece[1:] for piece in pieces), []) == [*tokens, special.eos_token_id]
        else:
            assert all(piece[0] == special.cls_token_id and piece[-1] == special.sep_token_id for piece in pieces)
            assert sum((piece[1:-1] for piece in pieces), []) == tokens


@pytest.mark.parametrize("max_tokens", [0, 2, 257])
def test_a_sample_must_fit_the_context(any_model, max_tokens):
    with pytest.raises(ValueError, match="between 3 and 256"):
        encode_samples(any_model, ["text"], max_tokens)


def test_many_texts_are_cut_as_if_at_once_and_kept_small(any_model, monkeypatch):
    texts = pd.Series([f"note {number}: " + "fever " * (number % 9) for number in range(23)], dtype="str")
    whole = encoding.encode_samples(any_model, texts.tolist(), 16)
    monkeypatch.setattr(encoding, "TEXTS_AT_ONCE", 4)
    small = encoding.encode_samples(any_model, texts.array, 16, dtype=encoding.smallest_dtype(any_model))
    assert np.array_equal(small.note_index, whole.note_index) and {one.dtype for one in small.ids} == {np.dtype("u2")}
    assert all(np.array_equal(one, other) for one, other in zip(small.ids, whole.ids, strict=True))
    assert encoding.token_counts(any_model, texts.array).tolist() == list(map(len, encode(any_model, texts.tolist())))
