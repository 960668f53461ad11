"""Our own public text: deterministic, apart from its held-out part, and never worded like the hospital."""

import re

from core.corpus.hospital import build
from core.corpus.leaflets import HELDOUT, TRAINING
from core.corpus.public_text import heldout_text, topics, training_text
from core.spec import CORPUS_PRESETS


def five_grams(texts: list[str]) -> set[tuple[str, ...]]:
    """Five words in a row, digits masked; runs of numbers alone are no wording."""
    found: set[tuple[str, ...]] = set()
    for text in texts:
        words = [re.sub(r"\d", "0", word) for word in re.findall(r"[^\W_]+(?:['.-][^\W_]+)*", text.lower())]
        grams = zip(*[words[start:] for start in range(5)], strict=False)
        found |= {gram for gram in grams if any(character.isalpha() for character in "".join(gram))}
    return found


def test_no_wording_is_shared_with_the_hospital():
    corpus = build(CORPUS_PRESETS["classroom"])
    hospital = five_grams([*corpus.notes["text"], *corpus.canaries["text"]])
    assert len(hospital) > 10_000
    assert not five_grams(training_text()) & hospital
    assert not five_grams(heldout_text()) & hospital


def test_the_comparison_would_find_a_shared_phrase():
    shared = "sit quietly for 5 minutes before"
    assert five_grams(["Please sit quietly for 7 minutes before lunch."]) & five_grams([shared.upper()])
    assert not five_grams(["1 2 3 4 5 6"])


def test_the_text_is_the_same_every_time_and_of_the_promised_size():
    assert training_text() == training_text() and heldout_text() == heldout_text()
    assert 150_000 <= sum(map(len, training_text())) <= 300_000
    assert 10_000 <= sum(map(len, heldout_text())) <= 20_000
    assert len(set(training_text())) == len(training_text())


def test_held_out_sentences_come_from_other_templates():
    templates = [{sentence for topic in topics(source) for sentence in topic} for source in (TRAINING, HELDOUT)]
    assert not templates[0] & templates[1]
    assert len(topics(TRAINING)) > 20 and len(topics(HELDOUT)) == 5
    shared = five_grams(training_text()) & five_grams(heldout_text())
    assert len(shared) <= 0.005 * len(five_grams(heldout_text()))


def test_every_choice_and_number_is_filled_in():
    everything = " ".join(training_text() + heldout_text())
    assert not re.search(r"[\[\]{}|]", everything)
    assert re.search(r"\d{3}/\d{2}", everything) and ":" in everything


def test_it_names_nobody():
    everything = " ".join(training_text() + heldout_text())
    assert not re.search(r"\b(?:Mr|Mrs|Ms|Dr)\b", everything)
    assert set(re.findall(r"@([\w.]+\w)", everything)) == {"clinic.example"}
