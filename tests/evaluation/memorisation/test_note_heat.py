"""What a note's words gained in training adds up to what the note gained."""

from __future__ import annotations

import numpy as np
import pytest

from core.evaluation.memorisation.note_heat import note_gains
from core.models.build import load
from core.models.likelihood import pseudo_log_likelihoods, token_log_likelihoods
from core.runs.store import Workspace
from core.spec import ModelSpec

TEXT = "Patient: Kurt Novák, 61 y. “Ache” for 3 days.\nPlan: ibuprofen 400 mg."


@pytest.fixture(scope="module")
def trained(smoke_workspace, smoke_specs):
    return Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id).model()


def test_the_gains_of_a_causal_model_add_up(trained):
    base = load(ModelSpec())
    tokens = note_gains(trained, base, TEXT)
    whole = token_log_likelihoods(trained, [TEXT])[0] - token_log_likelihoods(base, [TEXT])[0]
    assert sum(token.gain for token in tokens) == pytest.approx(whole[:-1].sum(), abs=1e-6), "all but the end mark"
    assert len({round(token.gain, 6) for token in tokens}) > 5
    assert all(one.end <= other.start for one, other in zip(tokens, tokens[1:], strict=False))
    covered = "".join(TEXT[token.start : token.end] for token in tokens)
    assert covered.split() == TEXT.split(), "every character but white space belongs to a token"


def test_a_text_longer_than_a_sample_keeps_its_places(trained):
    base, text = load(ModelSpec()), " ".join([TEXT] * 12)
    tokens = note_gains(trained, base, text)
    assert text[tokens[-1].start : tokens[-1].end].strip() == "."
    whole = token_log_likelihoods(trained, [text])[0] - token_log_likelihoods(base, [text])[0]
    assert sum(token.gain for token in tokens) == pytest.approx(whole[:-1].sum(), abs=1e-5)


def test_a_masked_model_hides_each_token_in_turn():
    lm = load(ModelSpec(kind="distilbert"))
    same = note_gains(lm, lm, "He takes aspirin.")
    assert [token.gain for token in same] == [0.0] * len(same)
    other = load(ModelSpec(kind="distilbert"))
    weight = next(other.model.parameters())
    weight.data += 0.05 * np.pi
    tokens = note_gains(other, lm, "He takes aspirin.")
    found = [pseudo_log_likelihoods(one, ["He takes aspirin."])[0] for one in (other, lm)]
    assert [token.gain for token in tokens] == pytest.approx(list(found[0] - found[1]))
    assert "".join("He takes aspirin."[token.start : token.end] for token in tokens) == "Hetakesaspirin."


def test_models_of_two_tokenizers_are_not_compared(trained):
    with pytest.raises(ValueError, match="different tokens"):
        note_gains(trained, load(ModelSpec(kind="distilbert")), TEXT)
