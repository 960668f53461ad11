"""Unlearning from runs on defended notes: both sides are judged by their own texts, and unlearning reads defended ones.

A patient judged by scrubbed notes among held-out patients with their names would be placed by the placeholders.
"""

from __future__ import annotations

import random
import shutil
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest

from core.attacks.forgetting import Sides, judged_notes, never_seen_loss, public_means, sides, standing
from core.attacks.registry import Target
from core.attacks.unlearning import STANDING, STEPS, unlearning
from core.corpus.tables import Corpus
from core.corpus.transforms.defences import defended
from core.evaluation.forgetting import standings
from core.evaluation.memorisation.unlearning import places
from core.pipeline import forgetting
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, DefenceSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.trainer import train
from core.training.unlearning import patient_loss
from tests.tiny_models import tiny
from tests.training.tiny import notes

AUDIT = AuditSpec(mask_draws=2)
SCRUB = DefenceSpec(scrub_recall=0.95)
TRAINING = TrainingSpec(epochs=4, batch_size=6, max_tokens=48, learning_rate=5e-3)


@cache
def public():
    return tiny("gpt2", seed=0, spread=6)


@cache
def named() -> pd.DataFrame:
    """40 patients with 3 notes; every note begins with the patient's own random name, twice, marked as one."""
    rng, rows = random.Random(3), []
    for number, (_, row) in enumerate(notes(120, a_patient=3, words=12).iterrows()):
        if number % 3 == 0:
            name = " ".join("".join(rng.choice("hijklmnopq") for _ in range(6)).capitalize() for _ in range(2))
        spans = [{"start": at, "end": at + len(name), "field": "full_name"} for at in (0, len(name) + 1)]
        rows.append(row.to_dict() | {"text": f"{name} {name} {row['text']}", "phi_spans": spans, "entity_spans": []})
    return pd.DataFrame(rows)


def cohort(members: list[str], table: pd.DataFrame | None = None) -> Corpus:
    table = named() if table is None else table
    table = table.assign(split=np.where(table["patient_id"].isin(members), "member", "heldout"))
    return Corpus(CorpusSpec(), table[["patient_id", "split"]].drop_duplicates(), table, pd.DataFrame())


def place(lm, own: pd.DataFrame, heldout: pd.DataFrame, patient: str) -> float:
    judged = public_means(public(), judged_notes(own, heldout, patient, 0), AUDIT)
    return float(standings(standing(lm, judged, AUDIT).assign(arm="x"))["percentile"].iloc[0])


def test_never_read_patients_of_a_scrubbed_run_are_placed_anywhere():
    """Null: models trained on scrubbed notes of others. Scrubbed notes among raw ones would stand out all the same."""
    found, mixed = [], []
    for seed in range(3):
        ids = np.random.default_rng(seed).permutation(named()["patient_id"].unique().astype(object)).tolist()
        lm, corpus = deepcopy(public()), cohort(ids[:20])
        plain, read = sides(corpus, None, SCRUB)
        of_others = read.training[read.training["patient_id"].isin(ids[:8])]
        train(lm, of_others, TRAINING.model_copy(update={"seed": seed}), PrivacySpec())
        found += [place(lm, plain.training, plain.heldout, one) for one in ids[8:20]]
        mixed += [place(lm, read.training, plain.heldout, one) for one in ids[8:20]]
    assert np.mean(found) == pytest.approx(0.5, abs=0.15)
    assert np.mean(mixed) > 0.8, "so that a mixture of texts would show here"


def test_both_pairs_hold_the_same_notes_and_the_second_is_scrubbed():
    corpus = cohort(named()["patient_id"].unique().tolist()[:20])
    plain, read = sides(corpus, None, SCRUB)
    pd.testing.assert_frame_equal(read.training, defended(corpus.training_notes(), SCRUB))
    for one, other in ((plain.training, read.training), (plain.heldout, read.heldout)):
        assert one["note_id"].tolist() == other["note_id"].tolist()
    assert set(plain.heldout["text"]) <= set(named()["text"])
    assert read.heldout["text"].str.contains("[NAME]", regex=False).mean() > 0.8
    same, as_well = sides(corpus, None, None)
    assert same is as_well, "without a defence nothing is read twice"


def test_deduplication_leaves_out_copies_on_both_sides():
    """A held-out copy of a member's note goes, and so does a member's second copy; the kept texts are the cohort's."""
    ids = named()["patient_id"].unique().tolist()
    longer = named().assign(
        text=[f"{text} {number} five more words for you" for number, text in enumerate(named()["text"])]
    )
    first = longer.iloc[0]
    copies = [first.to_dict() | {"note_id": name, "patient_id": one} for name, one in (("m", ids[1]), ("h", ids[30]))]
    corpus = cohort(ids[:20], pd.concat([longer, pd.DataFrame(copies)], ignore_index=True))
    plain, read = sides(corpus, None, DefenceSpec(deduplicate=True))
    assert "m" not in set(plain.training["note_id"]) and "h" not in set(plain.heldout["note_id"])
    assert first["note_id"] in set(plain.training["note_id"])
    assert set(plain.heldout["note_id"]) == set(read.heldout["note_id"])
    assert set(plain.training["text"]) <= set(longer["text"])


def test_the_battery_stops_where_scrubbed_notes_of_strangers_are():
    corpus = cohort(named()["patient_id"].unique().tolist()[:4])
    lm = deepcopy(public())
    plain, read = sides(corpus, None, SCRUB)
    train(lm, read.training, TRAINING, PrivacySpec())
    spec = RunSpec(model=ModelSpec(kind="gpt2"), audit=AUDIT, training=TRAINING, defence=SCRUB)
    target = Target(spec, corpus, {}.get, {"target": lambda report: lm, "base": lambda report: public()})
    made = unlearning(target, lambda done, total: None)
    for patient, rows in made[STEPS].groupby("drawn"):
        level = public_means(public(), judged_notes(read.training, read.heldout, patient, 0), AUDIT)
        own = read.training.loc[read.training["patient_id"] == patient, "text"].tolist()
        expected = never_seen_loss(patient_loss(public(), own, TRAINING.max_tokens), standing(lm, level, AUDIT))
        assert rows["stop_loss"].tolist() == pytest.approx([expected] * len(rows), abs=1e-4)
        trained = made[STANDING].query("drawn == @patient and arm == 'original'")
        assert places(trained)["percentile"].iloc[0] == pytest.approx(place(lm, plain.training, plain.heldout, patient))


@pytest.mark.usefixtures("asks_few_claims")
def test_a_scrubbed_run_is_judged_by_original_notes_and_unlearns_scrubbed_ones(
    smoke_workspace, smoke_specs, tmp_path, monkeypatch
):
    workspace = Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())
    run = execute(smoke_specs["plain"].model_copy(update={"defence": SCRUB}), workspace)
    corpus = workspace.corpus(run.spec.corpus)
    patient = str(corpus.notes_of("member")["patient_id"].value_counts().sort_index().idxmax())
    plain, read = sides(corpus, run.note_cap, SCRUB)
    told: dict[str, object] = {}

    class Seen(Exception):
        """Ends the comparison once the texts are known."""

    def seen(lm, forget, retain, settings, *, stop_loss, **rest):
        told.update(forget=forget, stop=stop_loss)
        raise Seen

    monkeypatch.setattr("core.training.unlearning.unlearn", seen)
    with pytest.raises(Seen):
        forgetting.forget(run, patient, workspace, methods=["ascent"], samples=1)

    def own(side: Sides) -> list[str]:
        return side.training.loc[side.training["patient_id"] == patient, "text"].tolist()

    assert told["forget"] == own(read) != own(plain)
    base, lm = workspace.control(run.spec).model(), run.model()
    level = public_means(base, judged_notes(read.training, read.heldout, patient, run.spec.audit.seed), run.spec.audit)
    heard = patient_loss(base, own(read), run.spec.training.max_tokens)
    assert told["stop"] == pytest.approx(never_seen_loss(heard, standing(lm, level, run.spec.audit)), abs=1e-4)
    stored = workspace.audit(run.id).forgetting(patient).table_of("original", "standing")
    judged = judged_notes(plain.training, plain.heldout, patient, run.spec.audit.seed)
    expected = standing(lm, public_means(base, judged, run.spec.audit), run.spec.audit)
    np.testing.assert_allclose(stored["nats"], expected["nats"], rtol=1e-4)
