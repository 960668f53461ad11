"""The link to Train with the settings of a run: the same training again, with secret noise."""

from __future__ import annotations

import pytest

from core.jobs.engine import Engine, Job
from core.spec import CORPUS_PRESETS, PrivacySpec, RunSpec, VocabularySpec, audit_of, recipe_of
from pages.parts.train import link
from tests.pages.visit import visit


@pytest.fixture
def asked(monkeypatch, tmp_path) -> list[RunSpec]:
    """What was submitted; nothing is trained."""
    specs: list[RunSpec] = []

    def submit(self, spec, user=None):
        specs.append(spec)
        return Job(spec.run_id, spec, "queued", "", 0.0, 0)

    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    monkeypatch.setattr(Engine, "submit", submit)
    return specs


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_a_link_asks_for_the_same_training_with_secret_noise(asked, unit):
    corpus, privacy = CORPUS_PRESETS["classroom"], PrivacySpec(target_epsilon=3.0, unit=unit)
    training = recipe_of("gpt2", privacy, corpus).model_copy(update={"seed": 2})
    spec = RunSpec(corpus=corpus, privacy=privacy, training=training, audit=audit_of(corpus))
    app = visit("train", **link.with_secret_noise(spec))
    app.button(key="train").click().run()
    assert not app.exception and asked == [spec.model_copy(update={"privacy": secret_of(privacy)})]


def secret_of(privacy: PrivacySpec) -> PrivacySpec:
    return privacy.model_copy(update={"noise_source": "secret"})


def test_settings_that_the_page_does_not_have_get_no_link(smoke_specs):
    corpus, privacy = CORPUS_PRESETS["classroom"], PrivacySpec(target_epsilon=3.0)
    usual = RunSpec(corpus=corpus, privacy=privacy, training=recipe_of("gpt2", privacy, corpus), audit=audit_of(corpus))
    assert link.with_secret_noise(usual) is not None
    assert link.with_secret_noise(smoke_specs["dp"]) is None and link.with_secret_noise(smoke_specs["plain"]) is None
    for change in (
        {"privacy": privacy.model_copy(update={"target_epsilon": 3.5})},
        {"privacy": privacy.model_copy(update={"delta": 1e-6})},
        {"training": usual.training.model_copy(update={"epochs": 1})},
        {"vocabulary": VocabularySpec(epsilon=1.0)},
    ):
        assert link.with_secret_noise(usual.model_copy(update=change)) is None, change
