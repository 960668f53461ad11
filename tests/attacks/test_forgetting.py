"""The attacks on one patient: the control is drawn by seed, and a model that never read them says so."""

from __future__ import annotations

from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest

from core.attacks.forgetting import (
    NEVER_SEEN,
    first_texts,
    judged_notes,
    never_seen_loss,
    public_means,
    scores,
    standing,
    written,
)
from core.evaluation.forgetting import standings
from core.models.likelihood import note_losses
from core.phi.index import PhiIndex
from core.spec import AuditSpec, PrivacySpec, TrainingSpec
from core.training.trainer import train
from core.training.unlearning import patient_loss
from tests.tiny_models import tiny
from tests.training.tiny import notes

AUDIT = AuditSpec(mask_draws=2)


@cache
def model(kind, seed=0):
    """A tiny model; copy it to train it."""
    return tiny(kind, seed=seed, spread=6)


def test_a_model_that_never_read_the_patient_places_them_anywhere():
    """Null, with real models: patients are drawn to be trained on, forgotten or held out; places are uniform."""
    every, places = notes(120, a_patient=3, words=12), []
    public = model("gpt2")
    for seed in range(10):
        ids = np.random.default_rng(seed).permutation(every["patient_id"].unique().astype(object))
        lm = deepcopy(public)
        spec = TrainingSpec(epochs=2, batch_size=6, max_tokens=32, learning_rate=5e-3, seed=seed)
        train(lm, every[every["patient_id"].isin(ids[:12])], spec, PrivacySpec())
        heldout = every[every["patient_id"].isin(ids[16:])]
        for patient in ids[12:16]:
            judged = public_means(public, judged_notes(every, heldout, patient, 0), AUDIT)
            places.append(standings(standing(lm, judged, AUDIT).assign(arm="x"))["percentile"].iloc[0])
    assert np.mean(places) == pytest.approx(0.5, abs=0.15)
    assert np.mean(np.array(places) < 0.25) == pytest.approx(0.25, abs=0.2)
    assert np.mean(np.array(places) > 0.75) == pytest.approx(0.25, abs=0.2)


def test_the_gain_is_the_difference_of_mean_losses():
    every = notes(12)
    public, lm = model("gpt2"), model("gpt2", seed=1)
    judged = public_means(public, judged_notes(every, every.iloc[6:], "patient-0", 0), AUDIT)
    found = standing(lm, judged, AUDIT)
    texts = judged.notes["text"].tolist()
    naive = pd.Series(note_losses(public, texts) - note_losses(lm, texts))
    own = found[found["forgotten"]]
    np.testing.assert_allclose(own["gain"], naive[judged.notes["forgotten"]], atol=1e-6)
    heldout = naive.groupby(judged.notes["patient_id"]).mean().drop("patient-0")
    np.testing.assert_allclose(found[~found["forgotten"]].set_index("patient_id")["gain"], heldout, atol=1e-6)
    assert own["patient_id"].unique().tolist() == ["patient-0"] and len(own) == 3
    held = found[~found["forgotten"]].groupby("patient_id")["gain"].mean().mean()
    expected = note_losses(public, every["text"].tolist()[:3]).mean() - held
    stop = never_seen_loss(patient_loss(public, every["text"].tolist()[:3], 512), found)
    assert stop == pytest.approx(expected, abs=1e-6)


def test_masked_models_read_the_same_masks():
    every = notes(8)
    one, same = (scores(model("distilbert"), every, AUDIT) for _ in range(2))
    pd.testing.assert_frame_equal(one, same)


def test_at_most_so_many_strangers_drawn_by_seed():
    every = notes(3 * (NEVER_SEEN + 10), words=4)
    found = [judged_notes(every, every.iloc[3:], "patient-0", seed) for seed in (0, 0, 1)]
    strangers = [set(one.loc[~one["forgotten"], "patient_id"]) for one in found]
    assert len(strangers[0]) == NEVER_SEEN and strangers[0] == strangers[1] != strangers[2]
    with pytest.raises(ValueError, match="patient stranger has no notes in the training data"):
        judged_notes(every, every, "stranger", 0)
    with pytest.raises(ValueError, match="no held-out patients"):
        judged_notes(every, every.iloc[:0], "patient-0", 0)


def test_values_are_counted_with_their_controls():
    people = [("A", "member", "Ada Lovelace"), ("B", "member", "Bob Martin"), ("H", "heldout", "Hal Jordan")]
    index = PhiIndex.build(pd.DataFrame(people, columns=["patient_id", "split", "full_name"]))
    texts = ["Ada Lovelace came.", "Ada Lovelace and Ada Lovelace.", "Bob Martin.", "Hal Jordan.", "nobody"]
    generations = pd.DataFrame({"generation_id": range(5), "prompt_id": 1, "prompt": "Patient:", "text": texts})
    found = written(generations, index, "A", ["H"], ["A", "B"])
    assert found == {
        "texts": 5,
        "patient_texts": 2,
        "never_seen": 1,
        "never_seen_written": 1,
        "others": 1,
        "others_leaked": 1,
    }
    unknown = written(generations, index, "X", ["H", "Y"], ["A", "B", "X", "Z"])
    assert unknown == found | {"patient_texts": None, "others": 2, "others_leaked": 2}, "X, Y and Z have no known value"
    both = pd.concat([generations, generations.assign(prompt_id=2)])
    assert first_texts(both, 2)["text"].tolist() == texts[:2] * 2
