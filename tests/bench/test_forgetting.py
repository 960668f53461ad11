"""The comparison with retrained models, small: it goes on where it was stopped, and its control is told apart."""

from __future__ import annotations

import pandas as pd
import pytest

from bench import forgetting
from bench.forgetting import Experiment, measured, result
from core.runs.store import Workspace


@pytest.fixture
def experiment(smoke_workspace, smoke_specs, tmp_path):
    workspace = Workspace(smoke_workspace, shared=())
    run = workspace.run(smoke_specs["plain"].run_id)
    corpus = workspace.corpus(run.spec.corpus)
    patients = tuple(sorted(corpus.notes_of("member")["patient_id"].unique())[:2])
    return Experiment(run, corpus, tmp_path, epochs=1, patients=patients)


def test_it_trains_forgets_and_goes_on(experiment, monkeypatch):
    lines: list[str] = []
    full = forgetting.settings_of
    monkeypatch.setattr(  # a few steps change the weights, and the test is about what is kept
        forgetting, "settings_of", lambda method, training: full(method, training).model_copy(update={"steps": 4})
    )
    found = measured(experiment, (0, 1, 2), lines.append)
    arms = {one["arm"]: one for one in found["arms"]}
    assert set(arms) == {"retrained", "original", "ascent", "fine-tuning", "difference"}
    assert "auc" not in arms["retrained"]
    assert all(0 <= arms[arm][figure] <= 1 for arm in arms if arm != "retrained" for figure in ("auc", "odd"))
    assert len(found["patients"]) == 2 and len(lines) == 3 * 2 * 5
    monkeypatch.setattr(forgetting, "train", lambda *args, **settings: pytest.fail("trained again"))
    monkeypatch.setattr(forgetting, "unlearn", lambda *args, **settings: pytest.fail("unlearned again"))
    assert measured(experiment, (0, 1, 2)) == found


def test_a_model_that_forgot_nothing_is_told_apart_and_one_that_is_retrained_is_not():
    """By hand: gains 5 above are told in every pair; the same gains are told in half of them."""
    rows = [
        {"arm": arm, "seed": seed, "patient_id": f"P{patient}", "note_id": f"{patient}-{note}", "place": 0.5}
        | {"gain": patient + note + 0.1 * ((7 * seed + 3 * patient + note) % 5) + 5 * (arm == "original")}
        for arm in ("retrained", "original", "ascent")
        for seed in range(3)
        for patient in range(4)
        for note in range(2)
    ]
    arms = {one["arm"]: one for one in result(pd.DataFrame(rows))}
    assert arms["original"]["auc"] == 1.0 and arms["ascent"]["auc"] == pytest.approx(0.5)
    assert arms["ascent"]["place"] == 0.5
    assert arms["original"]["odd"] == 1.0 and arms["original"]["patients"] == 4
    few = {one["arm"]: one for one in result(pd.DataFrame(rows).query("arm != 'retrained' or seed > 0"))}
    assert few["original"]["odd"] == 1.0 and "auc" not in few["original"]  # two retrained models are enough for it
