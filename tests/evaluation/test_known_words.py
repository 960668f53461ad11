from __future__ import annotations

import gzip

import pytest

from core.corpus.hospital import build
from core.evaluation.known_words import WordListMissing, hospital_words, known_share, public_words, whole_words, words
from core.spec import CORPUS_PRESETS


def test_words_are_letters_only_of_at_least_two():
    assert words("A 5-mg dose; II-5b, Zoë's x2y metoprolol12 O2") == ["mg", "dose", "ii", "zoë", "metoprolol"]


def test_a_word_cut_off_by_the_length_limit_is_not_judged():
    assert whole_words("no acute distr") == ["no", "acute"] == whole_words("no acute 3 ") == whole_words("No acute.")
    assert whole_words("dose of 5") == ["dose", "of"] and whole_words("was X") == ["was"] and whole_words("") == []


def test_share_counts_every_occurrence():
    found = known_share(["The dog runs.", "xqz the THE."], frozenset({"the", "dog"}), resamples=50)
    assert found.value == pytest.approx(4 / 6) and 0 <= found.low <= found.value <= found.high <= 1
    assert known_share(["ab ab ab"] * 5, frozenset({"ab"}), resamples=50).low == 1.0


def test_the_interval_resamples_generations_not_words():
    vocabulary = frozenset({"yes"})
    split = known_share(["yes yes yes yes.", "no no no no."] * 5, vocabulary)
    mixed = known_share(["yes no yes no."] * 10, vocabulary)
    assert split.value == mixed.value == 0.5
    assert mixed.low == mixed.high == 0.5 and split.low < 0.4 < 0.6 < split.high


def test_the_hospital_knows_its_notes_and_its_people():
    corpus = build(CORPUS_PRESETS["smoke"])
    known = hospital_words(corpus)
    assert set(words(" ".join(corpus.notes["text"]))) <= known
    assert set(words(" ".join(corpus.patients["full_name"]))) <= known
    assert "qqqq" not in known


def test_public_words_plain_or_packed(tmp_path):
    (tmp_path / "plain.txt").write_text("the\nheart\n", encoding="utf-8")
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(b"the\nheart\n"))
    assert public_words(tmp_path / "plain.txt") == public_words(tmp_path / "packed.txt") == {"the", "heart"}
    with pytest.raises(WordListMissing, match=r"nowhere\.txt does not exist"):
        public_words(tmp_path / "nowhere.txt")
    assert {"patient", "the", "disease"} <= public_words()


def test_no_words_is_a_sentence():
    with pytest.raises(ValueError, match="no words"):
        known_share(["1 2 3", ""], frozenset({"a"}))
