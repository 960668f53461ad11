"""The controls without noise differ from the private trainings in their noise alone."""

from __future__ import annotations

import pytest

from core.demo import SEEDS
from core.findings.claims.again.without_noise import without_noise
from core.findings.experiments import REPORT_NOISE, at_report_noise, plain, private
from core.spec import PrivacySpec, RunSpec


def _pairs() -> list[tuple[RunSpec, RunSpec]]:
    own = [(private("gpt2", epsilon, seed), without_noise(seed)) for epsilon in (8.0, 10.0) for seed in SEEDS]
    return own + [(at_report_noise(printed), without_noise(0)) for printed in REPORT_NOISE]


@pytest.mark.parametrize(("spec", "control"), _pairs())
def test_the_control_differs_in_its_noise_alone(spec: RunSpec, control: RunSpec) -> None:
    same = PrivacySpec()
    assert spec.model_copy(update={"privacy": same}) == control.model_copy(update={"privacy": same})
    assert spec.privacy.max_grad_norm == control.privacy.max_grad_norm
    assert spec.privacy.unit == control.privacy.unit


def test_usual_training_differs_in_more() -> None:
    assert plain("gpt2").training != private("gpt2", 8.0).training
