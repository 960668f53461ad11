"""What is said of the chosen ε before training: a limit only where the run guarantees that ε."""

from __future__ import annotations

import pytest

from core.jobs.engine import Engine
from core.spec import ModelSpec, PrivacySpec, RunSpec, VocabularySpec
from pages.parts.train.training_settings import _meaning
from tests.pages.visit import visit


@pytest.fixture(autouse=True)
def data(monkeypatch, tmp_path):
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))


def test_no_limit_is_named_for_an_epsilon_that_gdp_planned():
    """GDP's 8 is 10.6 by PRV, and e^8 = 2,981 would be a limit 13 times too low."""
    app = visit("train", epsilon="8", cohort="tiny")
    assert any("at most 2,981-fold" in caption.value for caption in app.caption)
    app.selectbox(key="accountant").set_value("gdp").run()
    captions = [caption.value for caption in app.caption]
    assert not app.exception and not any("-fold" in one for one in captions)
    assert any("guarantees a larger ε than this one, because GDP mostly under-reports it" in one for one in captions)


def test_words_from_the_notes_add_to_the_epsilon():
    privacy, words = PrivacySpec(target_epsilon=3.0), VocabularySpec(epsilon=0.5)
    spec = RunSpec(corpus={}, model=ModelSpec(kind="distilbert"), privacy=privacy, vocabulary=words)
    assert "because the words add to it" in _meaning(spec)
    assert "at most 20.1-fold" in _meaning(spec.model_copy(update={"vocabulary": None}))
