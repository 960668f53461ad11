"""Our own public text: deterministic, apart from its held-out part, and never worded like the hospital."""

import hashlib
import re

import pytest

from core.corpus.public_text import heldout_text, topics, training_text
from core.corpus.synthetic.hospital import build
from core.models.shared_wording import five_grams, shared_with_hospital
from core.spec import CORPUS_PRESETS, CorpusSpec

HOSPITALS = {  # every way the hospital writes
    "brief notes": CORPUS_PRESETS["classroom"],
    "full notes": CorpusSpec(seed=3, naming_rate=0.4),
    "one sentence a code": CorpusSpec(variant="template-only"),
}


@pytest.mark.parametrize("spec", HOSPITALS.values(), ids=list(HOSPITALS))
def test_no_wording_is_shared_with_the_hospital(spec):
    corpus = build(spec)
    hospital = five_grams([*corpus.notes["text"], *corpus.canaries["text"]])
    assert len(hospital) > (2_000 if spec.variant == "template-only" else 50_000)
    assert five_grams(training_text()) & hospital == set()
    assert five_grams(heldout_text()) & hospital == set()


def test_the_comparison_would_find_a_shared_phrase():
    shared = "sit quietly for 5 minutes before"
    assert five_grams(["Please sit quietly for 7 minutes before lunch."]) & five_grams([shared.upper()])
    assert not five_grams(["1 2 3 4 5 6"])


def test_the_shared_part_of_a_text_is_counted():
    notes = build(CORPUS_PRESETS["classroom"]).notes["text"]
    assert shared_with_hospital(training_text()) == 0
    one = shared_with_hospital([notes[0]])
    assert 0 < one < shared_with_hospital(notes[:50]) < shared_with_hospital(notes) <= 1


def test_the_text_is_the_one_that_the_shipped_base_models_have_read():
    """Whoever changes leaflets.toml must pretrain the models of assets/base anew, and then write the new digests."""
    digests = [hashlib.sha256("\0".join(text).encode()).hexdigest()[:16] for text in (training_text(), heldout_text())]
    assert digests == ["7e9f751b280666ce", "a98b9d8c301ec90f"]


def test_the_text_has_the_promised_size():
    assert 150_000 <= sum(map(len, training_text())) <= 300_000
    assert 10_000 <= sum(map(len, heldout_text())) <= 20_000
    assert len(set(training_text())) == len(training_text())


def test_held_out_sentences_come_from_other_templates():
    templates = [{sentence for topic in topics(part) for sentence in topic} for part in ("training", "heldout")]
    assert not templates[0] & templates[1]
    assert len(topics("training")) > 20 and len(topics("heldout")) == 5
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
