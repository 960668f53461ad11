"""Tokenizers of the base models: byte-level BPE for GPT-2, cased WordPiece for the masked kinds."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping
from typing import get_args

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from core.common.randomness import Stream
from core.common.transformers_parts import PreTrainedTokenizerFast
from core.models.word_noise import WordNoise
from core.spec import ModelKind, VocabularySpec

END_OF_TEXT = "<|endoftext|>"
MASKED_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
SINGLE_WORDS = pre_tokenizers.Sequence(  # words, marks and digits
    [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
)
# Characters that a masked model must be able to read anywhere: without them a name becomes a single [UNK].
_ALPHABET = sorted(
    set(string.ascii_letters + string.digits + string.punctuation)
    | {chr(code) for code in range(0xC0, 0x100)}
    | set("°µ±·×–—‘’“”•…≤≥→αβγδκμ")
)


def train(kind: ModelKind, texts: Iterable[str], size: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer of at most `size` entries on `texts`; digits are always single tokens.

    GPT-2 gets byte-level BPE, the masked kinds cased WordPiece. Both reproduce the text, the masked kinds except for
    the kind of white space. Every call creates a new `tokenizers.Tokenizer`, because training one twice leaves stale
    merges.
    """
    if kind not in get_args(ModelKind):
        *others, last = get_args(ModelKind)
        raise ValueError(f"unknown kind of model {kind!r}: choose {', '.join(others)} or {last}")
    if kind == "gpt2":
        return _wrap(
            _train_byte_pairs(texts, size), bos_token=END_OF_TEXT, eos_token=END_OF_TEXT, pad_token=END_OF_TEXT
        )
    return _wrap(_train_word_pieces(texts, size), **MASKED_SPECIALS)


def noisy_histogram(counts: Mapping[str, int], *, epsilon: float, delta: float, rng: Stream) -> dict[str, float]:
    """A word histogram from which a vocabulary may be made under (ε, δ)-DP for one word (Hoory 2021, §3.2).

    Every word that occurs gets noise from Lap(2/ε), and is dropped if it ends below 1 + 2·ln(2/δ)/ε. A vocabulary that
    protects a note or a patient with several words is planned by `core.models.dp_vocabulary`. For a release, `rng` must
    be secret.

    Raises:
        ValueError: unless ε is a number above 0, δ is between 0 and 1 and every count is at least 0.
    """
    spec = VocabularySpec(epsilon=epsilon, delta=delta, words=1, noise="laplace")
    return WordNoise.planned(spec).release(counts, rng)


def _wrap(tokenizer: Tokenizer, **specials: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, model_max_length=int(1e9), **specials
    )


def _train_byte_pairs(texts: Iterable[str], size: int) -> Tokenizer:
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


def _train_word_pieces(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn pieces from single words, then tokenise with white space as the only word boundary.

    So `142/88.` becomes `1 ##4 ##2 ##/ ##8 ##8 ##.`: every digit stays one token, and the text can be reconstructed
    without guessing spaces. The search for PHI in generated text relies on this.
    """
    normalizer = normalizers.BertNormalizer(handle_chinese_chars=False, strip_accents=False, lowercase=False)
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    learner.normalizer = normalizer
    learner.pre_tokenizer = SINGLE_WORDS
    # Every character gets its id here: the trainer would number the `##` ones in the order of a hash table, so ties
    # between merges, and with them the vocabulary, would differ from one training to the next.
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
