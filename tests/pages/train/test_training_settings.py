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


@pytest.mark.parametrize("value", [0, 99_999])
@pytest.mark.parametrize(("key", "label"), [("epochs_private", "Epochs"), ("batch_private", "Batch size")])
def test_a_number_out_of_its_range_is_refused_with_what_is_allowed(folder, key, label, value):
    app = opened(epsilon="2", **TINY)
    box = app.number_input(key=whole_key(app, key))
    usual = box.value
    notes = len(Workspace(folder, shared=()).corpus(CORPUS_PRESETS["smoke"]).training_notes())
    most = {"Epochs": 1_000, "Batch size": notes}[label]
    box.set_value(value).run()
    words = f"“{label}” takes a number from 1 to {most:,}, not {value:,}."
    assert not app.exception and [error.value for error in app.error] == [words]
    assert app.button(key="train").disabled and app.button(key="train").help == words
    assert app.number_input(key="training_seed").value == 0, "the boxes below stay"
    app.number_input(key=whole_key(app, key)).set_value(most).run()
    assert not app.error and not app.button(key="train").disabled
    app.number_input(key=whole_key(app, key)).set_value(usual).run()
    assert not app.exception and not app.error


def test_noise_by_risk_is_not_computed_for_a_training_out_of_range():
    app = opened(privacy="choose the risk", **TINY)
    app.number_input(key=whole_key(app, "batch_private")).set_value(10**9).run()
    assert not app.exception and [error.value[:12] for error in app.error] == ["“Batch size”"]


def test_what_is_wrong_with_a_setting_is_said_in_words():
    with pytest.raises(ValidationError) as wrong:
        TrainingSpec(epochs=99_999, batch_size=0)
    assert sentence(wrong.value) == "Epochs: 1,000 at most. Batch size: 1 at least."
    assert TrainingSpec(epochs=training_settings.MOST_EPOCHS).epochs == 1_000
