"""Energies by the number of masks: against the battery's own energy, and the shipped table against the weights."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.attacks.registry import Target
from core.corpus.synthetic.hospital import build
from core.findings.experiments import plain
from core.findings.from_weights import energies, tables
from core.findings.from_weights.energies import MASKS, means_by_masks, notes_of_every_patient
from core.findings.stored_runs import StoredRuns, with_shipped
from core.models.likelihood import note_losses, pseudo_log_likelihoods
from core.pipeline.full_audit import target_of
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from tests.tiny_models import tiny

TEXTS = ["Seen on Monday for a cough.", "Mrs. Ada Byron has asthma. " * 20]


def test_each_number_of_masks_gives_the_energy_of_the_attack_with_so_many() -> None:
    lm = tiny("distilbert", seed=0, spread=6)
    found = means_by_masks(lm, TEXTS * 2, seed=3)
    for place, masks in enumerate(MASKS):
        expected = -note_losses(lm, TEXTS * 2, mask_draws=masks, seed=3)
        np.testing.assert_allclose([one[place] for one in found], expected, atol=1e-5)


def test_the_table_has_every_energy_of_two_notes_of_every_patient(monkeypatch) -> None:
    lms = {role: tiny("distilbert", seed=seed, spread=6) for role, seed in (("target", 0), ("base", 1))}
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"], model=ModelSpec(kind="distilbert"))
    models = {role: lambda report, lm=lm: lm for role, lm in lms.items()}
    target = Target(spec, build(spec.corpus), {}.__getitem__, models)
    notes = notes_of_every_patient(target, 2)
    everything = target.corpus.notes_of("member", "heldout")
    most = everything.groupby("patient_id").size().clip(upper=2)
    pd.testing.assert_series_equal(notes.groupby("patient_id").size().sort_index(), most.sort_index())

    monkeypatch.setattr(energies, "notes_of_every_patient", lambda target, most: notes.head(6))
    rows = energies.energies(target)
    assert set(rows.columns) == set(energies.COLUMNS) and len(rows) == 6 * 2 * (len(MASKS) + 1)
    one = rows[(rows["model"] == "base") & (rows["masks"] == energies.EVERY_TOKEN)]
    expected = [found.mean() for found in pseudo_log_likelihoods(lms["base"], notes["text"].head(6).tolist())]
    np.testing.assert_allclose(one["score"], expected, atol=1e-5)
    assert one["note_id"].tolist() == notes["note_id"].head(6).tolist()


@pytest.mark.slow
def test_the_shipped_table_is_that_of_the_shipped_weights(tmp_path) -> None:
    """The first notes of it, computed again."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    run = runs.run(plain("distilbert"))
    rows = runs.measured(run.spec, energies.NAME)
    assert dict(rows.dtypes.astype(str)) == {**energies.COLUMNS} and len(rows) % (2 * (len(MASKS) + 1)) == 0
    target = target_of(run, runs.workspace)
    notes = notes_of_every_patient(target, energies.NOTES_A_PATIENT)
    first = rows[(rows["model"] == "target") & (rows["masks"] == MASKS[2])]
    assert first["note_id"].tolist() == notes["note_id"].tolist()
    texts = notes["text"].head(energies._CHUNK).tolist()
    again = -note_losses(target.lm, texts, mask_draws=MASKS[2], seed=run.spec.audit.seed)
    np.testing.assert_allclose(first["score"].head(energies._CHUNK), again, atol=2e-4)
    assert tables.file_of(run.id, "nothing", runs.workspace) is None
