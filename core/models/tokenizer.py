"""Tokenizers of the base models, and the cut from texts to samples (row J1: patient → admission → note → sample)."""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tokenizers import (
    AddedToken,
    Encoding,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from core.spec import ModelKind
from core.transformers_parts import PreTrainedTokenizerFast

if TYPE_CHECKING:
    from core.models.build import LanguageModel

END_OF_TEXT = "<|endoftext|>"
MASKED_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
TEXTS_AT_ONCE = 1_000  # the tokenizer keeps some 10 kB a text (strings, offsets) until all of a call are read
# Characters that a masked model must be able to read wherever they stand: without them a name becomes one [UNK].
_ALPHABET = sorted(
    set(string.ascii_letters + string.digits + string.punctuation)
    | {chr(code) for code in range(0xC0, 0x100)}
    | set("°µ±·×–—‘’“”•…≤≥→αβγδκμ")
)


@dataclass(frozen=True)
class Samples:
    """Token ids of every sample, and the text each was cut from.

    `ids[i]` is of shape (tokens,), int64 unless asked otherwise, special tokens included; `note_index` is int64 of
    shape (samples,), ascending.
    """

    ids: list[np.ndarray]
    note_index: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


def train(kind: ModelKind, texts: Sequence[str], size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of at most `size` entries on `texts`; digits are always single tokens.

    GPT-2 gets byte-level BPE, the masked kinds cased WordPiece. Both give text back as it was, the masked kinds up to
    the kind of white space. Every call makes a new `tokenizers.Tokenizer`: training one twice leaves stale merges.
    """
    if kind == "gpt2":
        return _wrap(
            _train_byte_pairs(texts, size), bos_token=END_OF_TEXT, eos_token=END_OF_TEXT, pad_token=END_OF_TEXT
        )
    if kind in ("distilbert", "bert"):
        return _wrap(_train_word_pieces(texts, size), **MASKED_SPECIALS)
    raise ValueError(f"unknown kind of model {kind!r}: choose gpt2, distilbert or bert")


def _wrap(tokenizer: Tokenizer, **specials: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, model_max_length=int(1e9), **specials
    )


def _train_byte_pairs(texts: Sequence[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(END_OF_TEXT, special=True)],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_word_pieces(texts: Sequence[str], size: int) -> Tokenizer:
    """Learn pieces of words only, then read with white space as the one word boundary.

    So `142/88.` becomes `1 ##4 ##2 ##/ ##8 ##8 ##.`: every digit stays one token, and the text can be put together
    again without guessing spaces, which the search for PHI in generated text relies on.
    """
    normalizer = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False, lowercase=False)
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    learner.normalizer = normalizer
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Punctuation(),
            pre_tokenizers.Digits(individual_digits=True),
        ]
    )
    # Every character is given an id here: the trainer would number the `##` ones in the order of a hash table, and
    # ties between merges, hence the vocabulary, would differ from one training to the next.
    base = list(MASKED_SPECIALS.values()) + _ALPHABET + ["##" + character for character in _ALPHABET]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        special_tokens=base,
        initial_alphabet=_ALPHABET,
        limit_alphabet=len(_ALPHABET),
        min_frequency=2,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    vocabulary = learner.get_vocab()

    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]", max_input_chars_per_word=200))  # noqa: S106
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in MASKED_SPECIALS.values()])
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    )
    return tokenizer


def encode(lm: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, without the special tokens that mark its beginning and end."""
    return [encoding.ids for encoding in _encodings(lm, texts)]


def token_counts(lm: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """How many tokens `encode` gives each text: int64 of shape (texts,), in flat memory."""
    return np.fromiter((len(encoding) for encoding in _encodings(lm, texts)), dtype=np.int64, count=len(texts))


def can_be_scored(lm: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """Which texts have a token whose likelihood a model gives: bool of shape (texts,).

    GPT-2: all, each has its end mark. A masked model hides ordinary tokens only, so a text without any word that its
    list can write (one [UNK] after the other) has none.
    """
    if lm.causal:
        return np.ones(len(texts), dtype=bool)
    special = set(lm.tokenizer.all_special_ids)
    found = (not special.issuperset(encoding.ids) for encoding in _encodings(lm, texts))
    return np.fromiter(found, dtype=bool, count=len(texts))


def _encodings(lm: LanguageModel, texts: Sequence[str]) -> Iterator[Encoding]:
    backend = lm.tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        part = list(texts[start : start + TEXTS_AT_ONCE])
        yield from backend.encode_batch_fast(part, add_special_tokens=False)


def encode_samples(
    lm: LanguageModel, texts: Sequence[str], max_tokens: int, *, dtype: np.typing.DTypeLike = np.int64
) -> Samples:
    """Cut every text into samples of at most `max_tokens` tokens, special tokens included.

    Causal: every sample starts with BOS, and the last one of a text ends with EOS. Masked: [CLS] … [SEP] each. A text
    without tokens still gives one sample. `dtype` is what the ids are kept as; `smallest_dtype` holds a large cohort in
    a quarter of the memory. Raises ValueError when `max_tokens` leaves no room or exceeds the context.
    """
    if not 3 <= max_tokens <= lm.context:
        raise ValueError(f"samples must have between 3 and {lm.context} tokens (the model's context), not {max_tokens}")
    ids: list[np.ndarray] = []
    note_index: list[int] = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        for number, tokens in enumerate(encode(lm, list(texts[start : start + TEXTS_AT_ONCE])), start=start):
            for sample in _cut(lm, tokens, max_tokens):
                ids.append(np.asarray(sample, dtype=dtype))
                note_index.append(number)
    return Samples(ids=ids, note_index=np.asarray(note_index, dtype=np.int64))


def smallest_dtype(lm: LanguageModel) -> np.dtype:
    """The smallest unsigned type that holds every token id of the model."""
    return np.min_scalar_type(len(lm.tokenizer) - 1)


def _cut(lm: LanguageModel, tokens: list[int], max_tokens: int) -> Iterator[list[int]]:
    if lm.causal:
        room = max_tokens - 1
        tokens = [*tokens, lm.tokenizer.eos_token_id]
        for start in range(0, len(tokens), room):
            yield [lm.tokenizer.bos_token_id, *tokens[start : start + room]]
    else:
        room = max_tokens - 2
        for start in range(0, max(len(tokens), 1), room):
            yield [lm.tokenizer.cls_token_id, *tokens[start : start + room], lm.tokenizer.sep_token_id]


def decode(lm: LanguageModel, ids: Sequence[int]) -> str:
    """Text of token ids, special tokens left out."""
    return lm.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
