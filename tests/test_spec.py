"""Recipes of specs: what was chosen by measurement, and what the caller chose instead."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.spec import PrivacySpec, TrainingSpec, recipe


def test_a_recipe_takes_any_number_of_epochs_that_a_training_can_have():
    usual = recipe("gpt2")
    assert (usual.epochs, usual.seed) == (8, 0) and recipe("bert").epochs == 16
    assert recipe("gpt2", epochs=0) == TrainingSpec(**{**usual.model_dump(), "epochs": 0})
    assert recipe("gpt2", PrivacySpec(target_epsilon=8.0), epochs=2, seed=3).epochs == 2
    for wrong in ({"epochs": -1}, {"seed": -1}):
        with pytest.raises(ValidationError):
            recipe("gpt2", **wrong)
