"""References of few and of many patients: nested, and each patient's mean as it is added up naively."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.attacks.evaluation_set import evaluation_notes, reference_patients
from core.attacks.registry import NotPossible, Target
from core.corpus.synthetic.hospital import build
from core.findings.from_weights import population_sizes as made
from core.findings.measures import rarity
from core.models.likelihood import note_losses
from core.spec import CORPUS_PRESETS, RunSpec
from tests.tiny_models import tiny


@pytest.fixture(scope="module")
def target() -> Target:
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"])
    lms = {role: tiny("gpt2", seed=seed, spread=6) for role, seed in (("target", 0), ("base", 1))}
    return Target(spec, build(spec.corpus), {}.__getitem__, {role: lambda _, lm=lm: lm for role, lm in lms.items()})


def test_the_smaller_references_are_among_the_larger_and_begin_with_the_attacks_own(target: Target) -> None:
    everyone, own = target.corpus.notes_of("population")["patient_id"], reference_patients(target)
    order = made.nested(everyone, own, seed=0)
    assert sorted(order) == sorted(set(everyone)) and set(order[: len(own)]) == own
    assert order == made.nested(everyone.sample(frac=1, random_state=1), own, seed=0)


def test_each_patient_has_the_mean_of_their_notes_under_each_reference(target: Target, monkeypatch) -> None:
    read: list[int] = []

    def trained(target: Target, notes: pd.DataFrame, report: object) -> object:
        read.append(notes["patient_id"].nunique())
        return tiny("gpt2", seed=len(read), spread=6)

    monkeypatch.setattr(made, "SIZES", (1, 3))
    monkeypatch.setattr(made, "_trained", trained)
    rows = made.population_sizes(target)
    assert read == [1, 3] and set(rows.columns) == set(made.COLUMNS)
    notes = evaluation_notes(target)
    for size, seed in ((1, 1), (3, 2)):
        for patient, own in notes[notes["split"] == "heldout"].groupby("patient_id"):
            naive = -np.mean(
                [next(iter(note_losses(tiny("gpt2", seed=seed, spread=6), [text]))) for text in own["text"]]
            )
            found = rows[(rows["patient_id"] == patient) & (rows["patients"] == size)]["score"]
            assert found.to_list() == pytest.approx([naive], rel=1e-4)
    monkeypatch.setattr(made, "SIZES", (1, 10_000))
    with pytest.raises(NotPossible, match="10000 patients"):
        made.population_sizes(target)


def test_rarity_is_compared_under_two_references(monkeypatch) -> None:
    """ρ under the ratio to the larger reference − ρ under the ratio to the smaller one, by SciPy."""
    rng = np.random.default_rng(0)
    patients = [f"P{at:02d}" for at in range(40)]
    units = pd.DataFrame(
        {"log_probability": rng.normal(size=45), "score": rng.normal(size=45), "member": [1] * 5 + [0] * 40}
    )
    table = pd.DataFrame(
        {"patient_id": patients * 2, "patients": [2] * 40 + [9] * 40, "score": rng.normal(size=80).astype("float32")}
    ).sample(frac=1, random_state=0)
    monkeypatch.setattr(rarity, "_judged", lambda runs, spec, attacks: {attacks[0]: units})
    monkeypatch.setattr(rarity, "_heldout", lambda *_: patients)
    runs = SimpleNamespace(measured=lambda spec, name: table)
    found = rarity.turn_by_reference(runs, None, 2, 9)  # type: ignore[arg-type]
    rare, loss = -units["log_probability"][5:].to_numpy(), units["score"][5:].to_numpy()
    by = {size: table[table["patients"] == size].sort_values("patient_id")["score"].to_numpy(float) for size in (2, 9)}
    rho = {size: stats.spearmanr(rare, loss - reference).statistic for size, reference in by.items()}
    assert found.value == pytest.approx(rho[9] - rho[2]) and found.low < found.value < found.high
