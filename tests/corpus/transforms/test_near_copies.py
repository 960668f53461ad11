"""Near copies against comparing every pair by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.corpus.transforms import near_copies
from core.corpus.transforms.near_copies import BANDS, ROWS, SIMILAR, copies_in, find_copies

WORDS = st.lists(st.sampled_from([f"word{number}" for number in range(40)]), min_size=8, max_size=40)


def jaccard(left: str, right: str) -> float:
    a, b = (
        {tuple(words[at : at + 5]) for at in range(len(words) - 4)}
        for words in (left.lower().split(), right.lower().split())
    )
    return len(a & b) / len(a | b) if a | b else 0.0


@given(WORDS, st.integers(0, 10), st.integers(0, 10))
def test_similarity_is_jaccards_of_five_word_shingles(words, cut, added):
    left, right = " ".join(words), " ".join([*words[cut:], *["new"] * added])
    hashed = (near_copies._shingles([text]).indices for text in (left, right))
    assert near_copies._jaccard(*hashed) == pytest.approx(jaccard(left, right))


def test_every_pair_that_is_similar_enough_is_found_and_no_other():
    rng = np.random.default_rng(0)
    texts = []
    for base in range(40):
        words = [f"w{number}" for number in rng.integers(0, 500, size=60)]
        texts.append(" ".join(words))
        for changes in (1, 3, 8)[: base % 4]:
            changed = list(words)
            for at in rng.choice(60, size=changes, replace=False):
                changed[at] = f"x{rng.integers(500)}"
            texts.append(" ".join(changed))
    groups = find_copies(texts).near_group
    parent = list(range(len(texts)))
    for a, b in combinations(range(len(texts)), 2):
        if jaccard(texts[a], texts[b]) >= SIMILAR:
            parent = [parent[a] if one == parent[b] else one for one in parent]
    assert [[x == y for y in groups] for x in groups] == [[x == y for y in parent] for x in parent]
    assert len(set(parent)) < len(texts)


def test_texts_that_come_in_batches_have_the_same_groups(monkeypatch):
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, 9, size=rng.integers(1, 12))) for _ in range(300)]
    texts += [text.upper() for text in texts[::7]] + [f"{text} more" for text in texts[::5]]
    batches = [texts[start : start + 37] for start in range(0, len(texts), 37)]
    told: list[int] = []
    parts, whole = copies_in(lambda: iter(batches), told.append), find_copies(texts)
    assert (parts.exact_group == whole.exact_group).all() and (parts.near_group == whole.near_group).all()
    assert 0 < whole.exact < whole.near < len(texts) and told[-1] == len(texts)
    monkeypatch.setattr(near_copies, "MOST_REMEMBERED", 0)
    assert (find_copies(texts).near_group == whole.near_group).all()


def test_copies_word_for_word_do_not_mind_blanks_and_case_and_short_ones_count():
    copies = find_copies(["Short note", "short  NOTE", "another", "a b c d e f", "a b c d e f g"])
    assert copies.exact == 1 and copies.repeats("exact").tolist() == [False, True, False, False, False]
    assert copies.near == 1, "five of six words: 2 of 3 shingles are shared, too few"
    assert find_copies([]).near == 0


def test_a_pair_at_the_limit_is_missed_less_than_once_in_ten_thousand():
    assert 1 - (1 - (1 - SIMILAR**ROWS) ** BANDS) < 1e-4
