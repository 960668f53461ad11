"""What tells filter engines apart: made-up names, ordinary words, and the time of each search, by known answers."""

from __future__ import annotations

import pandas as pd
import pytest

from bench.identifiers._filter_engines import Timed, made_up, ordinary_words, renamed, unlisted_names, words_lost
from core.corpus.tables import Corpus
from core.phi.detector.engine import RULES, SHAPES, rules, shapes
from core.phi.detector.vocabulary import is_first_name, is_last_name
from core.phi.output_filter import OutputFilter
from core.spec import CorpusSpec


def test_made_up_names_are_on_no_list_and_follow_from_the_name():
    names = [made_up(f"name {number}") for number in range(200)]
    assert made_up("name 7") == names[7] and len(set(names)) > 190
    assert all(len(name.split()) == 2 and name.istitle() for name in names)
    assert not any(is_first_name(word) or is_last_name(word) for name in names for word in name.split())


@pytest.fixture
def answers() -> pd.DataFrame:
    rows = [(0, "Patient:", " Maria Keller came with Ann Lee."), (1, "Re:", " Ann Lee"), (2, "Re:", " nobody")]
    return pd.DataFrame(rows, columns=["generation_id", "prompt", "text"])


@pytest.fixture
def hits() -> pd.DataFrame:
    rows = [  # the second place names two members; the fourth continues what was typed, the last is a stranger's
        (0, 1, 13, "full_name", "member"),
        (0, 24, 31, "full_name", "member"),
        (0, 24, 31, "full_name", "member"),
        (1, 0, 8, "full_name", "member"),
        (2, 1, 7, "full_name", "heldout"),
    ]
    return pd.DataFrame(rows, columns=["generation_id", "start", "end", "field", "split"])


def test_only_members_whole_names_are_replaced(answers, hits):
    found = renamed(answers, hits)
    first, second = made_up("maria keller"), made_up("ann lee")
    assert found["text"].tolist() == [f" {first} came with {second}."]
    assert set(found["names"].iloc[0]) == {first, second} and found["prompt"].tolist() == ["Patient:"]


def test_a_text_passes_if_one_whole_name_does(answers, hits):
    """After “Patient:” the shapes know a name by its cue, but the second one is on no list."""
    texts = renamed(answers, hits)
    found = unlisted_names(texts, {"none": None, "shapes": OutputFilter(), "nothing": OutputFilter(detector=None)})
    assert found["value"].tolist() == [1.0, 1.0, 1.0] and (found["n"] == 1).all()
    one = texts.assign(text=texts["text"].str.partition(" came")[0], names=[(made_up("maria keller"),)])
    assert unlisted_names(one, {"shapes": OutputFilter()})["value"].tolist() == [0.0]
    assert unlisted_names(texts.head(0), {"shapes": OutputFilter()})["n"].tolist() == [0]


def test_ordinary_words_are_outside_identifiers_and_on_no_list():
    span = {"start": 0, "end": 12, "field": "full_name"}
    dose = {"start": 18, "end": 25, "field": "medication"}
    notes = pd.DataFrame([("Zorvan Quill takes aspirin. Maria!", [dose, span])], columns=["text", "phi_spans"])
    corpus = Corpus(CorpusSpec(), pd.DataFrame(), notes, pd.DataFrame())
    assert ordinary_words(corpus) == {"takes", "aspirin"}


def test_words_are_lost_if_a_part_of_them_is_blacked_out(answers):
    """Three ordinary words are written, and the filter takes a part of one away."""

    class Greedy:
        name, lacks, tags = "greedy", "", False

        def find(self, text):
            at = text.find("ame")
            return [] if at < 0 else [(at, at + 3, "number")]

    found = words_lost(answers, frozenset({"came", "with", "nobody"}), {"greedy": OutputFilter(Greedy())})
    assert found[["value", "n"]].values.tolist() == [[pytest.approx(1 / 3), 3]]
    assert found["low"].iloc[0] < 1 / 3 < found["high"].iloc[0]


@pytest.mark.parametrize("name", [SHAPES, RULES])
def test_a_timed_detector_finds_the_same_and_searches_once(name, monkeypatch):
    text, plain = "Seen by Dr. Quist, MRN: B-98765, call 415-555-0142", {SHAPES: shapes(), RULES: rules()}[name]
    timed = Timed(name)
    assert timed.find(text) == plain.find(text) and timed.seconds[text] >= 0
    monkeypatch.setattr(type(plain), "find", lambda *_: pytest.fail("searched again"))
    assert timed.find(text) and list(timed.seconds) == [text]
