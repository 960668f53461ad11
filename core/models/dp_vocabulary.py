"""Vocabulary from the notes: new entries for a model's vocabulary, with or without privacy (Hoory 2021, §3.2).

Words of the notes that the public vocabulary lacks are counted, the counts get noise, and rare words are dropped
(`core.models.word_noise`). WordPiece is trained on the remaining words, and its pieces are appended to the public
entries. Everything after the noisy counts is post-processing. Anyone who has the model can read its vocabulary: without
noise, a rare name in it is a leak, whatever guarantee training has (docs/methods/vocabulary.md).
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
from core.models.tokenizer import MASKED_SPECIALS, SINGLE_WORDS
from core.models.word_noise import WordNoise
from core.spec import ModelSpec, Unit, VocabularySpec

MOST_WORDS = 2_000_000  # words read by the WordPiece trainer; larger histograms are scaled down to about this size
_STREAM = 41  # random-number stream


@dataclass(frozen=True)
class OwnWords:
    """The vocabulary taken from the notes: new `entries` in the order of training, and their privacy guarantee.

    `kept` of `counted` words remained after the noise (all of them without noise). `counted` is not covered by the
    guarantee.
    """

    entries: tuple[str, ...]
    noise: WordNoise | None
    counted: int
    kept: int


def own_words(
    lm: LanguageModel, notes: pd.DataFrame, spec: VocabularySpec, unit: Unit, randomness: Randomness
) -> OwnWords:
    """New entries for a masked model from `notes` (columns text, note_id, patient_id).

    The same randomness gives the same entries. Raises ValueError as `check_extensible` does.
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
    """Raise ValueError, with a sentence to show, for a model whose vocabulary cannot be extended with words of notes.

    GPT-2's byte pairs are not WordPiece. In a vocabulary without capitals, names cannot be told from other words.
    """
    if lm.causal:
        raise ValueError("words from the notes can be added to the vocabularies of distilbert and bert, not of gpt2")
    normalizer = lm.tokenizer.backend_tokenizer.normalizer
    if normalizer is not None and normalizer.normalize_str("Ann") != "Ann":
        raise ValueError(
            "this model's vocabulary has no capitals, so names in it could not be told from other words: choose a "
            "cased model for vocabulary from the notes, for example bert-base-cased"
        )


def unknown_words(lm: LanguageModel, text: str) -> Iterator[str]:
    """Words of a text that are not whole entries of the public vocabulary, as often as they occur.

    Words end at white space and punctuation, and each digit is a separate word, so numbers are never included.
    """
    backend = lm.tokenizer.backend_tokenizer
    clean = text if backend.normalizer is None else backend.normalizer.normalize_str(text)
    for word, _ in SINGLE_WORDS.pre_tokenize_str(clean):
        if backend.token_to_id(word) is None:
            yield word


def unit_counts(
    words_of: Callable[[str], Iterable[str]], notes: pd.DataFrame, unit: Unit, most_words: int, randomness: Randomness
) -> dict[str, int]:
    """The number of units that contain each word; a unit counts for at most `most_words` different words.

    Which of a unit's words count is drawn by a hash of the word, keyed by `randomness` and the unit, so that a unit's
    choice depends only on its own text.

    Args:
        words_of: gives the words of a text.
        notes: columns text, note_id, patient_id.
        unit: note or patient.
        most_words: cap for each unit.
        randomness: key of the draw.

    Raises:
        ValueError: for a cap below 1.
    """
    if most_words < 1:
        raise ValueError(f"at least one word of each unit must count, not {most_words}")
    counts: Counter[str] = Counter()
    for name, texts in notes.groupby("note_id" if unit == "note" else "patient_id", sort=False)["text"]:
        words = {word for text in texts for word in words_of(text)}
        key = randomness.name_key(name)
        counts.update(heapq.nsmallest(most_words, words, key=partial(_drawn, key)))
    return dict(counts)


def _drawn(key: bytes, word: str) -> tuple[bytes, str]:
    return blake2b(key + word.encode(), digest_size=8).digest(), word


def train_pieces(lm: LanguageModel, counts: Mapping[str, float], size: int) -> list[str]:
    """Train WordPiece on a word histogram: at most `size` pieces that the model lacks, in the order learned.

    A word with a total count of 1 has no effect, as in the public vocabulary (`core.models.tokenizer.train`).
    """
    alphabet = sorted({character for word in counts for character in word})
    # Every character gets its id here: the trainer would number the `##` ones by a hash table, and ties would vary.
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
    """Each word as often as it was counted, since the trainer reads text, not counts."""
    share = min(1.0, MOST_WORDS / max(1.0, sum(counts.values())))
    for word in sorted(counts):
        times = round(counts[word] * share)
        if times:
            yield " ".join([word] * times)


def extend(lm: LanguageModel, entries: Sequence[str]) -> None:
    """Append entries to a masked model's vocabulary, in place: tokenizer, embeddings, output layer and its bias.

    A new entry starts as the mean of the pieces that represented it so far, for embedding and output bias alike (Gee et
    al. 2022, "Fast Vocabulary Transfer"). Existing entries keep their ids.

    Raises:
        ValueError: for GPT-2, and for entries that already exist.
    """
    if lm.causal:
        raise ValueError("entries can be added to the vocabularies of distilbert and bert, not of gpt2")
    known = lm.tokenizer.get_vocab()
    if len(set(entries) - set(known)) < len(entries):
        raise ValueError("a vocabulary must contain each entry only once")
    pieces = [torch.tensor(_pieces(entry, known, lm.tokenizer.unk_token_id)) for entry in entries]
    first = max(known.values()) + 1
    rows = lm.model.get_input_embeddings().get_parameter("weight").shape[0]
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
    """The public model of a spec with `entries` added to its vocabulary: the control of a run with its own vocabulary.

    It reads and masks the same tokens as the run. Without entries it is the unchanged public model.
    """
    lm = load(spec)
    if entries:
        extend(lm, entries)
    return lm


def _pieces(entry: str, known: Mapping[str, int], unknown: int) -> list[int]:
    """Ids of the longest known pieces of an entry, from left to right, as WordPiece tokenises it."""
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
    """A tokenizer that works in the same way with a larger vocabulary."""
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
