from __future__ import annotations

import gzip
import math

import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.evaluation.memorisation.known_words import (
    WordListMissing,
    hospital_words,
    identifier_spans,
    identifier_words,
    known_share,
    public_words,
    whole_words,
    without_spans,
    words,
)
from core.models.shipped_bases import word_list
from core.phi.fields import DIRECT
from core.spec import CLINICAL, CORPUS_PRESETS

WORDS = word_list(CLINICAL)


def test_words_are_letters_only_of_at_least_two():
    assert words("A 5-mg dose; II-5b, Zoë's x2y metoprolol12 O2") == ["mg", "dose", "ii", "zoë", "metoprolol"]


def test_a_word_cut_off_by_the_length_limit_is_not_judged():
    assert whole_words("no acute distr") == ["no", "acute"] == whole_words("no acute 3 ") == whole_words("No acute.")
    assert whole_words("dose of 5") == ["dose", "of"] and whole_words("was X") == ["was"] and whole_words("") == []


def test_share_counts_every_occurrence():
    found = known_share(["The dog runs.", "xqz the THE the."], frozenset({"the", "dog"}), resamples=50)
    assert found.value == pytest.approx(5 / 7) and 0 <= found.low <= found.value <= found.high <= 1
    every = known_share(["ab ab ab"] * 10, frozenset({"ab"}), resamples=50)
    assert every.value == every.high == 1.0 and every.low == pytest.approx(0.722, abs=1e-3), "Wilson's for 10 of 10"


def test_the_interval_resamples_generations_not_words():
    vocabulary = frozenset({"yes"})
    split = known_share(["yes yes yes yes.", "no no no no."] * 5, vocabulary)
    mixed = known_share(["yes no yes no."] * 10, vocabulary)
    assert split.value == mixed.value == 0.5
    assert math.isnan(mixed.low) and math.isnan(mixed.high), "alike in all texts"
    assert split.low < 0.4 < 0.6 < split.high


def test_the_hospital_knows_its_notes_but_nobodys_identifiers():
    corpus = build(CORPUS_PRESETS["smoke"])
    known = hospital_words(corpus)
    spans = corpus.notes["phi_spans"].map(lambda found: [(s["start"], s["end"]) for s in found if s["field"] in DIRECT])
    texts = [without_spans(text, of) for text, of in zip(corpus.notes["text"], spans, strict=True)]
    assert spans.map(len).sum() > 20 and set(words(" ".join(texts))) <= known
    assert set(words(" ".join(corpus.patients["diagnosis"]))) <= known
    names = set(words(" ".join(corpus.patients["full_name"])))
    left_out = identifier_words(corpus, public_words(WORDS) | known)
    assert len(names - known) > len(names) / 2, "names that are ordinary words besides, such as Young, stay words"
    assert names <= left_out | known | public_words(WORDS) and not left_out & (known | public_words(WORDS))
    assert "qqqq" not in known | left_out


def test_a_name_copied_from_a_training_note_changes_nothing():
    """Neither a whole name, found as a hit, nor a part of one; nor does an invented name count as a mistake."""
    corpus = build(CORPUS_PRESETS["smoke"])
    vocabulary = public_words(WORDS) | hospital_words(corpus)
    options = {"left_out": identifier_words(corpus, vocabulary), "resamples": 50}
    name = next(one for one in corpus.patients["full_name"] if not set(words(one)) & vocabulary)
    written, before = (
        f"{name}. The patient was qqqq.",
        known_share([" " * len(name) + ". The patient was qqqq."], vocabulary),
    )
    hits = pd.DataFrame(
        [(7, 0, len(name), "full_name", "value")], columns=["generation_id", "start", "end", "field", "rule"]
    )
    assert identifier_spans(hits) == {7: [(0, len(name))]}
    assert known_share([without_spans(written, identifier_spans(hits)[7])], vocabulary, **options).value == before.value
    assert known_share([f"The patient {name.split()[-1]} was."], vocabulary, **options).value == 1.0
    assert before.value == 3 / 4
    health = hits.assign(field="diagnosis")
    assert identifier_spans(health) == {} == identifier_spans(hits.assign(rule="old"))


def test_public_words_plain_or_packed(tmp_path):
    (tmp_path / "plain.txt").write_text("the\nheart\n", encoding="utf-8")
    (tmp_path / "packed.txt.gz").write_bytes(gzip.compress(b"the\nheart\n"))
    assert public_words(tmp_path / "plain.txt") == public_words(tmp_path / "packed.txt") == {"the", "heart"}
    with pytest.raises(WordListMissing, match=r"nowhere\.txt does not exist"):
        public_words(tmp_path / "nowhere.txt")
    assert {"patient", "the", "disease"} <= public_words(WORDS)


def test_no_words_is_a_sentence():
    with pytest.raises(ValueError, match="no words"):
        known_share(["1 2 3", ""], frozenset({"a"}))
