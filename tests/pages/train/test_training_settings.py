"""The settings on Train: limits of the number boxes, and sentences for values that no training can have."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.jobs.engine import Engine
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, TrainingSpec
from pages.parts.pickers.cohort_picker import sentence
from pages.parts.train import training_settings
from tests.pages.train.test_train import TINY, opened, whole_key


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("delta", 1.5, "δ: must be below 1."), ("rate_private", 0.0, "Learning rate: must be above 0.")],
)
def test_bad_input_is_a_sentence_beside_the_disabled_button(key, value, words):
    app = opened(epsilon="2", **TINY)
    app.number_input(key=whole_key(app, key)).set_value(value).run()
    assert not app.exception
    assert [error.value for error in app.error] == [words]
    button = app.button(key="train")
    assert button.disabled and button.help == words, "the button stays, and says why it is disabled"


@pytest.mark.parametrize("key", ["epochs_private", "batch_private"])
def test_epochs_and_batch_size_have_limits_that_a_training_can_have(folder, key):
    app = opened(epsilon="2", **TINY)
    box = app.number_input(key=whole_key(app, key))
    notes = len(Workspace(folder, shared=()).corpus(CORPUS_PRESETS["smoke"]).training_notes())
    most = {"epochs_private": 1_000, "batch_private": notes}[key]
    assert (box.min, box.max) == (1, most)
    box.set_value(99_999).run()
    assert not app.exception and not app.error and not app.button(key="train").disabled


def test_what_is_wrong_with_a_setting_is_said_in_words():
    with pytest.raises(ValidationError) as wrong:
        TrainingSpec(epochs=99_999, batch_size=0)
    assert sentence(wrong.value) == "Epochs: 1,000 at most. Batch size: 1 at least."
    assert TrainingSpec(epochs=training_settings.MOST_EPOCHS).epochs == 1_000
