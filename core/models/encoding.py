"""Convert texts to token ids and back, and split texts into samples (Jagannatha 2021, §3: patient → note → sample)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tokenizers import Encoding

from core.models.build import LanguageModel

TEXTS_AT_ONCE = 1_000  # the tokenizer keeps about 10 kB per text (strings, offsets) until a call ends


@dataclass(frozen=True)
class Samples:
    """Token ids of every sample, and the text it comes from.

    `ids[i]` has shape (tokens,) and includes special tokens; it is int64 unless requested otherwise. `note_index` is
    int64 of shape (samples,), ascending.
    """

    ids: list[np.ndarray]
    note_index: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


def encode(lm: LanguageModel, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of each text, without the special tokens at its beginning and end."""
    return [encoding.ids for encoding in _encodings(lm, texts)]


def token_counts(lm: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """Number of tokens that `encode` gives each text: int64 of shape (texts,), in constant memory for each text."""
    return np.fromiter((len(encoding) for encoding in _encodings(lm, texts)), dtype=np.int64, count=len(texts))


def can_be_scored(lm: LanguageModel, texts: Sequence[str]) -> np.ndarray:
    """Which texts have at least one token whose likelihood a model can give: bool of shape (texts,).

    With GPT-2 all have one: the end mark. A masked model hides ordinary tokens only, so a text without any word of its
    vocabulary (only [UNK] tokens) has none.
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
    """Split every text into samples of at most `max_tokens` tokens, special tokens included.

    Causal: every sample starts with BOS, and the last one of a text ends with EOS. Masked: each is [CLS] … [SEP]. A
    text without tokens still gives one sample.

    Args:
        lm: the model whose tokenizer is used.
        texts: the texts.
        max_tokens: longest sample.
        dtype: of the stored ids; `smallest_dtype` holds a large cohort in a quarter of the memory.

    Raises:
        ValueError: when `max_tokens` leaves no room or exceeds the context.
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
    """The smallest unsigned type that can store every token id of the model."""
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
    """Text of token ids, without special tokens."""
    text = lm.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert isinstance(text, str)  # several texts come of a batch of ids only
    return text
