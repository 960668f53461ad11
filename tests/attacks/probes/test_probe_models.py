"""What probes read from models, against one text at a time and one token at a time."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from core.attacks.probes.ask import ask
from core.attacks.probes.cloze import cloze_scores
from core.attacks.probes.fill_in import condition_ids, condition_scores, openings
from core.attacks.probes.half_name import FIRST, LAST, half_scores
from core.attacks.probes.vectors import vectors
from core.models.build import LanguageModel
from core.models.encoding import encode
from tests.tiny_models import tiny

KINDS = ("gpt2", "distilbert", "bert")
PEOPLE = pd.DataFrame(
    {
        "first": ["Maria", "John", "Bo"],
        "last": ["Keller", "Poe", "Abernathy"],
        "title": ["Mrs.", "Mr.", "Mr."],
        "age": [63, 7, 101],
    }
)
CONDITIONS = ["fever", "chest pain", "type 2 diabetes mellitus", "asthma"]


def log_p(lm: LanguageModel, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of one text of ids, special tokens included: (T, V)."""
    with torch.inference_mode():
        return torch.log_softmax(lm.model(input_ids=torch.tensor([ids])).logits[0].float(), -1)


def naive_cloze(lm: LanguageModel, text: list[int], places: list[int]) -> float:
    if lm.causal:
        ids = [lm.tokenizer.bos_token_id, *text]
        chances = log_p(lm, ids)
        return float(np.mean([chances[place, text[place]] for place in places]))
    shown = [lm.tokenizer.mask_token_id if at in places else token for at, token in enumerate(text)]
    chances = log_p(lm, [lm.tokenizer.cls_token_id, *shown, lm.tokenizer.sep_token_id])
    return float(np.mean([chances[place + 1, text[place]] for place in places]))


@pytest.mark.parametrize("kind", KINDS)
def test_cloze_scores_equal_one_text_at_a_time(untrained, kind):
    lm = untrained[kind]
    texts = encode(lm, ["Maria Keller was seen today.", "No fever.", "Chest pain since yesterday, worse at night."])
    places = [[0, 1], [len(texts[1]) - 1], [2]]
    expected = [naive_cloze(lm, text, at) for text, at in zip(texts, places, strict=True)]
    np.testing.assert_allclose(cloze_scores(lm, texts, places), expected, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_condition_scores_equal_a_loop(untrained, kind):
    lm = untrained[kind]
    texts, conditions = openings(PEOPLE), condition_ids(lm, CONDITIONS)
    assert texts[0] == "Mrs. Maria Keller is a 63 yo patient with"
    found = condition_scores(lm, texts, conditions)
    for row, prefix in enumerate(encode(lm, texts)):
        for column, ids in enumerate(conditions):
            places = list(range(len(prefix), len(prefix) + len(ids)))
            end = [] if lm.causal else encode(lm, ["x."])[0][1:]
            expected = naive_cloze(lm, [*prefix, *ids, *end], places)
            assert found[row, column] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_template_without_a_name(untrained, kind):
    lm = untrained[kind]
    conditions = condition_ids(lm, CONDITIONS)
    found = condition_scores(lm, [""], conditions)[0]
    end = [] if lm.causal else encode(lm, ["x."])[0][1:]
    expected = [naive_cloze(lm, [*ids, *end], list(range(len(ids)))) for ids in conditions]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_equal_one_text_at_a_time(untrained, kind, pooling):
    lm = untrained[kind]
    texts = ["Maria Keller", "A much longer text about nobody at all.", "Poe"]
    found = vectors(lm, texts, pooling)
    for row, ids in enumerate(encode(lm, texts)):
        marked = [lm.tokenizer.cls_token_id, *ids, lm.tokenizer.sep_token_id]
        whole = [lm.tokenizer.bos_token_id, *ids] if lm.causal else marked
        with torch.inference_mode():
            hidden = lm.model.base_model(input_ids=torch.tensor([whole]))[0][0].numpy()
        own = hidden[1:] if lm.causal else hidden[1:-1]
        expected = own.mean(0) if pooling == "mean" else hidden[-1 if lm.causal else 0]
        np.testing.assert_allclose(found[row], expected, atol=1e-4)


def test_half_names_hide_the_right_half(untrained):
    lm = untrained["bert"]
    for hidden in (LAST, FIRST):
        found = half_scores(lm, PEOPLE, hidden)
        for row, person in enumerate(PEOPLE.itertuples()):
            first, last = encode(lm, [person.first, person.last])
            whole = [*first, *last]
            places = range(len(first)) if hidden == FIRST else range(len(first), len(whole))
            assert found[row] == pytest.approx(naive_cloze(lm, whole, list(places)), rel=1e-4)
    assert encode(lm, ["Maria Keller"])[0] == [*encode(lm, ["Maria"])[0], *encode(lm, ["Keller"])[0]]


@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_a_model_that_learned_a_name_and_its_condition_says_so(teach, kind):
    names = ["Maria Keller", "Carla Novak", "Dora Poe"]
    notes = [f"Mrs. {name} is a 50 yo patient with {what}." for name, what in zip(names, CONDITIONS, strict=False)]
    lm = teach(kind, notes, 120)
    reply = ask(
        lm, "Maria  Keller", "fever", title="Mrs.", age=50, other_names=names[1:], wordings=[*CONDITIONS, "rash"]
    )
    assert reply.times > 1 and reply.beaten == 2
    assert reply.own > reply.alone and reply.rank == 1 and reply.likeliest[0] == "fever"


def test_what_cannot_be_asked_is_said_in_a_sentence(untrained):
    how = {"title": "Mr.", "age": 50, "wordings": CONDITIONS}
    for name, condition, others, said in (
        ("", "fever", ["John Poe"], "Type a name"),
        ("John", " ", ["John Poe"], "Type a name"),
        ("John", "x " * 60, ["John Poe"], "shorten it"),
        ("John", "fever", [], "no other name"),
        ("John" * 60, "fever", ["John Poe"], "name is too long"),
        ("[MASK] Keller", "fever", ["John Poe"], "a special token of the model"),
        ("John", "[MASK] fever", ["John Poe"], "a special token of the model"),
    ):
        with pytest.raises(ValueError, match=said):
            ask(untrained["bert"], name, condition, other_names=others, **how)


def test_a_condition_scores_the_mean_over_its_own_tokens_whatever_it_is_read_with():

    lm = tiny("gpt2", seed=3)
    conditions = [[5], [7, 8], [9, 10, 11], [12] * 9, [13, 14], [15] * 5]
    together = condition_scores(lm, ["Mr. Lee"], conditions)[0]
    alone = [condition_scores(lm, ["Mr. Lee"], [one])[0, 0] for one in conditions]
    assert together == pytest.approx(alone, abs=1e-5)
