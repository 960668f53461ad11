"""The ε that is shown of a run is the one it guarantees, also where that is not the target."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from core.common.formatting import promised_text
from core.evaluation.verdict import treatment
from core.models.word_noise import WordNoise
from core.pipeline.training_run import _training_message
from core.runs.events import Status
from core.runs.queries import settings
from core.runs.run import PRIVACY_FILE, Run
from core.spec import ModelSpec, PrivacySpec, RunSpec, VocabularySpec, recipe
from core.spec.schema import SCHEMA
from core.training.plan import plan
from pages.parts.jobs.sentences import title
from pages.parts.patients.data import epsilon
from pages.parts.pickers.run_picker import privacy_label

NOTES, PATIENTS = 3_000, 300


def made(folder: Path, spec: RunSpec, schema: int = SCHEMA) -> Run:
    """A finished run of this spec, of which only the mechanism is stored."""
    mechanism = plan(spec.privacy, spec.training, notes=NOTES, patients=PATIENTS).mechanism
    if spec.vocabulary is not None:
        mechanism = mechanism.with_vocabulary(WordNoise.planned(spec.vocabulary))
    (folder / spec.run_id).mkdir()
    (folder / spec.run_id / PRIVACY_FILE).write_text(mechanism.to_json(), encoding="utf-8")
    return Run(folder / spec.run_id, spec, Status(state="done", finished=1.0), shipped=False, schema=schema)


def spec_of(kind: str = "gpt2", vocabulary: VocabularySpec | None = None, **privacy: object) -> RunSpec:
    asked = PrivacySpec(target_epsilon=8.0, **privacy)
    training = recipe("gpt2", asked, notes=NOTES)
    return RunSpec(model=ModelSpec(kind=kind), privacy=asked, training=training, vocabulary=vocabulary)


@pytest.mark.parametrize("accountant", ["prv", "rdp"])
def test_a_target_that_is_kept_is_shown_as_asked(tmp_path: Path, accountant: str) -> None:
    run = made(tmp_path, spec_of(accountant=accountant))
    assert run.epsilon == 8.0 == epsilon(run) and run.privacy.epsilon() <= 8.0
    assert privacy_label(run) == "ε = 8 per note · DP"
    assert treatment(run) == treatment(run.spec) == "with ε = 8 per note"
    assert settings([run])["epsilon"].tolist() == [8.0] and " ε = 8 per note " in title(run)


def test_of_a_run_planned_by_gdp_the_guarantee_is_shown_and_before_it_the_target(tmp_path: Path) -> None:
    run = made(tmp_path, spec_of(accountant="gdp"))
    assert run.epsilon == epsilon(run) == run.privacy.epsilon() == pytest.approx(9.22, abs=0.005)
    assert privacy_label(run) == "ε = 9.22 per note · DP" and treatment(run) == "with ε = 9.22 per note"
    assert " ε = 9.22 per note " in title(run) and " target ε = 8 per note " in title(run.spec)
    assert treatment(run.spec) == "with target ε = 8 per note" and "target ε = 8 for" in _training_message(run.spec)
    assert math.isnan(settings([run])["epsilon"].item()), "not a point at ε = 8"


def test_a_vocabulary_from_the_notes_and_an_old_cap_are_counted(tmp_path: Path) -> None:
    words = made(tmp_path, spec_of("distilbert", VocabularySpec(epsilon=4.0)))
    assert words.epsilon == epsilon(words) == words.privacy.epsilon() > 8.5
    assert treatment(words) == f"with ε = {promised_text(words.epsilon)} per note" and "target ε = 8" in treatment(
        words.spec
    )
    assert privacy_label(words).endswith("per note · DP, vocabulary included")
    capped = made(tmp_path, spec_of(), schema=1)  # its scores are not there: what cannot be looked up is not promised
    assert capped.capped and capped.epsilon == epsilon(capped) == capped.privacy.epsilon() > 16
    assert privacy_label(capped) == treatment(capped).replace("with ", "") + " · DP" != "ε = 8 per note · DP"
