"""Neighbours of a note: the same note with a few words replaced by what a public masked model predicts there.

A model prefers a note it was trained on to the note's neighbours. If it was only trained on similar notes, it finds all
of them about equally likely (Mattern et al. 2023). Words are replaced in place, so the rest of the text is unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch

from core.models.build import LanguageModel
from core.models.likelihood import buckets
from core.models.masking import masked_logits

WORD_SHARE = 0.10  # share of a note's words replaced in each neighbour
_WORD = re.compile(r"[^\W\d_]{2,}")  # letters only: replacing a number by another says nothing about memorisation


def neighbours(proposer: LanguageModel, text: str, count: int, rng: np.random.Generator) -> list[str]:
    """`count` neighbours of a text, or an empty list when the text has no word to replace.

    Each neighbour replaces a random `WORD_SHARE` of the words (at least one), all at once. Each new word is drawn from
    the distribution of `proposer`, a public masked model, over whole words other than the original.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    if not words:
        return []
    chosen = [
        np.sort(rng.choice(len(words), size=max(1, round(WORD_SHARE * len(words))), replace=False))
        for _ in range(count)
    ]
    spans = [[words[place] for place in places] for places in chosen]
    rows, places = zip(*(_masked_row(proposer, text, of_one) for of_one in spans), strict=True)
    logits = _logits(proposer, rows, places)  # (masks, V) for each neighbour
    return [_replaced(proposer, text, of_one, found, rng) for of_one, found in zip(spans, logits, strict=True)]


def _masked_row(proposer: LanguageModel, text: str, spans: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids of the text with one [MASK] for each span, cut to the model's context, and the mask positions."""
    tokenizer, parts, at = proposer.tokenizer, [], 0
    for start, end in spans:
        parts += [text[at:start], None]
        at = end
    ids: list[int] = [tokenizer.cls_token_id]
    places: list[int] = []
    for part in (*parts, text[at:]):
        if part is None:
            places.append(len(ids))
            ids.append(tokenizer.mask_token_id)
        else:
            ids += tokenizer.encode(part, add_special_tokens=False)
    limit = proposer.context - 1
    inside = np.array([place for place in places if place < limit], dtype=np.int64)  # may be empty
    return np.array([*ids[:limit], tokenizer.sep_token_id]), inside


def _logits(proposer: LanguageModel, rows: Sequence[np.ndarray], places: Sequence[np.ndarray]) -> list[np.ndarray]:
    found: list[np.ndarray] = [np.empty((0, 0))] * len(rows)
    with torch.inference_mode():
        for batch, ids, attention in buckets(proposer, rows):
            mask = torch.zeros_like(ids, dtype=torch.bool)
            for line, row in enumerate(batch):
                mask[line, torch.from_numpy(places[row])] = True
            logits = masked_logits(proposer, ids, attention, mask).float().cpu().numpy()
            ends = np.cumsum([len(places[row]) for row in batch])
            for row, part in zip(batch, np.split(logits, ends[:-1]), strict=True):
                found[row] = part
    return found


def _replaced(
    proposer: LanguageModel, text: str, spans: Sequence[tuple[int, int]], logits: np.ndarray, rng: np.random.Generator
) -> str:
    """The text with each span replaced by a drawn word; spans beyond the proposer's context stay unchanged."""
    ids, words = _whole_words(proposer)
    parts, at = [], 0
    for (start, end), row in zip(spans[: len(logits)], logits, strict=True):
        old = text[start:end]
        scores = np.where([word == old for word in words], -np.inf, row[ids].astype(float))
        shares = np.exp(scores - scores.max())
        parts += [text[at:start], words[rng.choice(len(words), p=shares / shares.sum())]]
        at = end
    return "".join([*parts, text[at:]])


def _whole_words(proposer: LanguageModel) -> tuple[np.ndarray, list[str]]:
    """Ids and texts of the vocabulary entries that are whole words of letters, in order of id."""
    entries = sorted((number, word) for word, number in proposer.tokenizer.get_vocab().items() if _WORD.fullmatch(word))
    return np.array([number for number, _ in entries]), [word for _, word in entries]
