"""A model's own words: from the training notes to new entries of its word list, privately or not (row H1).

Words of the notes that the public word list does not hold are counted, the counts get noise and rare words fall out
(`core.models.word_noise`), WordPiece is trained on what is left, and its pieces are added behind the public entries.
All that follows the noisy counts is post-processing. A word list is read by everybody who has the model: without noise
a rare name that stands in it is a leak, whatever training promises (docs/methods/vocabulary.md).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import pandas as pd
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from core.common.randomness import Randomness
from core.common.transformers_parts import PreTrainedTokenizerFast
from core.models.build import LanguageModel, load
from core.models.tokenizer import MASKED_SPECIALS
from core.models.word_noise import WordNoise
from core.spec import ModelSpec, Unit, VocabularySpec

MOST_WORDS = 2_000_000  # read by the WordPiece trainer: larger histograms are scaled down to about so many
_STREAM = 41  # of random numbers
_WORDS = pre_tokenizers.Sequence(
    [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(individual_digits=True)]
)


@dataclass(frozen=True)
class OwnWords:
    """What was taken from the notes: new `entries` in the order of their training, and the promise about them.

    `kept` of `counted` words survived the noise (all of them without it). `counted` is no part of the promise.
    """

    entries: tuple[str, ...]
    noise: WordNoise | None
    counted: int
    kept: int


def own_words(
    lm: LanguageModel, notes: pd.DataFrame, spec: VocabularySpec, unit: Unit, randomness: Randomness
) -> OwnWords:
    """New entries for a masked model from `notes` (columns text, note_id, patient_id); the same source gives the same.

    Raises ValueError as `check_extensible`.
    """
    check_extensible(lm)
    if spec.epsilon is None:
        counts = dict(Counter(word for text in notes["text"] for word in unknown_words(lm, text)))
        return OwnWords(tuple(train_pieces(lm, counts, spec.pieces)), None, len(counts), len(counts))
    noise = WordNoise.planned(spec)
    counts = unit_counts(partial(unknown_words, lm), notes, unit, spec.words, randomness)
    kept = noise.release(counts, randomness.stream(_STREAM))
    return OwnWords(tuple(train_pieces(lm, kept, spec.pieces)), noise, len(counts), len(kept))


def check_extensible(lm: LanguageModel) -> None:
    """Raise ValueError, a sentence, for a model whose word list cannot take words of notes.

    GPT-2's byte pairs are no WordPiece; in a list without capitals a name could not be told from a word.
    """
    if lm.causal:
        raise ValueError("words of the notes can be added to the word lists of distilbert and bert, not to gpt2's")
    normalizer = lm.tokenizer.backend_tokenizer.normalizer
    if normalizer is not None and normalizer.normalize_str("Ann") != "Ann":
        raise ValueError(
            "this model's word list has no capitals, so names in it could not be told from words: choose a cased model "
            "for words of the notes, for example bert-base-cased"
        )


def unknown_words(lm: LanguageModel, text: str) -> Iterator[str]:
    """Words of a text that the public word list does not hold whole, as often as they stand there.

    Words end at white space and punctuation, and digits are words of their own, so numbers are never among them.
    """
    backend = lm.tokenizer.backend_tokenizer
    clean = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    for word, _ in _WORDS.pre_tokenize_str(clean):
        if backend.token_to_id(word) is None:
            yield word


def unit_counts(
    words_of: Callable[[str], Iterable[str]], notes: pd.DataFrame, unit: Unit, most_words: int, randomness: Randomness
) -> dict[str, int]:
    """In how many units each word stands, where a unit counts for at most `most_words` different words.

    `words_of` gives the words of a text. Which of a unit's words count is drawn by a hash of the word keyed by
    `randomness` and the unit, so that a unit's choice depends on nothing but its own text. Raises ValueError for a cap
    below 1.
    """
    if most_words < 1:
        raise ValueError(f"at least one word of each unit must count, not {most_words}")
    counts: Counter[str] = Counter()
    for name, texts in notes.groupby("note_id" if unit == "note" else "patient_id", sort=False)["text"]:
        words = {word for text in texts for word in words_of(text)}
        key = randomness.name_key(name)
        counts.update(heapq.nsmallest(most_words, words, key=lambda word, key=key: _drawn(key, word)))
    return dict(counts)


def _drawn(key: bytes, word: str) -> tuple[bytes, str]:
    return blake2b(key + word.encode(), digest_size=8).digest(), word


def train_pieces(lm: LanguageModel, counts: Mapping[str, float], size: int) -> list[str]:
    """Train WordPiece on a word histogram: at most `size` pieces that the model does not have, the first learned first.

    A word that stands there once in all teaches nothing, as in the public word list (`core.models.tokenizer.train`).
    """
    alphabet = sorted({character for word in counts for character in word})
    # every character gets its id here: the trainer would number the `##` ones by a hash table, and ties would differ
    base = [*MASKED_SPECIALS.values(), *alphabet, *("##" + character for character in alphabet)]
    known = lm.tokenizer.get_vocab()
    learner = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=len(base) + len(known) + size,
        special_tokens=base,
        initial_alphabet=alphabet,
        limit_alphabet=max(1, len(alphabet)),
        min_frequency=2,
        show_progress=False,
    )
    learner.train_from_iterator(_said(counts), trainer)
    learned = learner.get_vocab()
    return [piece for piece in sorted(learned, key=learned.__getitem__) if piece not in known][:size]


def _said(counts: Mapping[str, float]) -> Iterable[str]:
    """Each word as often as it was counted: the trainer reads text, not counts."""
    share = min(1.0, MOST_WORDS / max(1.0, sum(counts.values())))
    for word in sorted(counts):
        times = round(counts[word] * share)
        if times:
            yield " ".join([word] * times)


def extend(lm: LanguageModel, entries: Sequence[str]) -> None:
    """Add entries behind those of a masked model's word list, in place: tokenizer, embeddings, output and its bias.

    A new entry begins as the mean of the pieces that the model read it by so far, embedding and output bias alike (Gee
    et al. 2022, "Fast Vocabulary Transfer"). Ids of old entries stay. Raises ValueError for GPT-2 and for entries that
    are there already.
    """
    if lm.causal:
        raise ValueError("entries can be added to the word lists of distilbert and bert, not to gpt2's")
    known = lm.tokenizer.get_vocab()
    if len(set(entries) - set(known)) < len(entries):
        raise ValueError("a word list holds every entry once")
    pieces = [torch.tensor(_pieces(entry, known, lm.tokenizer.unk_token_id)) for entry in entries]
    first = max(known.values()) + 1
    rows = lm.model.get_input_embeddings().weight.shape[0]
    if first + len(entries) > rows:
        lm.model.resize_token_embeddings(first + len(entries), mean_resizing=False)
    tables = {lm.model.get_input_embeddings().weight, lm.model.get_output_embeddings().weight}  # tied: one table
    bias = lm.model.get_output_embeddings().bias
    with torch.no_grad():
        for table in (*tables, *([] if bias is None else [bias])):
            for row, parts in enumerate(pieces, start=first):
                table[row] = table[parts].mean(0)
    lm.tokenizer = _extended_tokenizer(lm.tokenizer, {**known, **{e: first + n for n, e in enumerate(entries)}})


def public_model(spec: ModelSpec, entries: Sequence[str] | None) -> LanguageModel:
    """The public model of a spec with `entries` added to its word list: the control of a run with words of its own.

    It reads, and hides, the same tokens as the run. Without entries it is the public model as it is.
    """
    lm = load(spec)
    if entries:
        extend(lm, entries)
    return lm


def _pieces(entry: str, known: Mapping[str, int], unknown: int) -> list[int]:
    """Ids of the longest known pieces of an entry, from left to right, as WordPiece reads."""
    begins, rest = ("##", entry[2:]) if entry.startswith("##") and len(entry) > 2 else ("", entry)
    found: list[int] = []
    while rest:
        length = next((end for end in range(len(rest), 0, -1) if begins + rest[:end] in known), 0)
        if not length:
            return [unknown]
        found.append(known[begins + rest[:length]])
        begins, rest = "##", rest[length:]
    return found


def _extended_tokenizer(tokenizer: PreTrainedTokenizerFast, vocabulary: dict[str, int]) -> PreTrainedTokenizerFast:
    """A tokenizer that reads in the same way from a larger word list."""
    old = tokenizer.backend_tokenizer
    backend = Tokenizer.from_str(old.to_str())
    backend.model = models.WordPiece(
        vocab=vocabulary,
        unk_token=old.model.unk_token,
        max_input_chars_per_word=old.model.max_input_chars_per_word,
        continuing_subword_prefix=old.model.continuing_subword_prefix,
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        clean_up_tokenization_spaces=tokenizer.clean_up_tokenization_spaces,
        model_max_length=tokenizer.model_max_length,
        **{name: getattr(tokenizer, name) for name in MASKED_SPECIALS},
    )
