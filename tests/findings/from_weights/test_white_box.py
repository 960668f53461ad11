"""White-box attacks under one mask and with more features: against the battery's own, made and shipped."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from core.attacks.evaluation_set import MASK_DRAWS, evaluation_notes
from core.attacks.membership.attacks import GRADIENT_NOTES
from core.attacks.membership.decision import ATTENTION, GRADIENTS
from core.attacks.membership.white_box import SMALLEST, attention_features, gradient_features
from core.attacks.registry import REGISTRY, Target, no_report
from core.corpus.synthetic.hospital import build
from core.findings.experiments import plain
from core.findings.from_weights import white_box
from core.findings.from_weights.white_box import BESIDE_PUBLIC, COLUMNS, DETAILED, ONE_MASK
from core.findings.stored_runs import StoredRuns, with_shipped
from core.pipeline.full_audit import target_of
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from tests.tiny_models import tiny

BRIEF = CORPUS_PRESETS["smoke"].model_copy(update={"note_length": "brief"})
TEXTS = ["Seen on Monday for a cough.", "Mrs. Ada Byron has asthma. " * 5, "Started on aspirin, reviewed in May."]


def test_features_of_the_four_usual_quantiles_are_among_the_detailed_ones() -> None:
    lm = tiny("gpt2", seed=0, spread=6)
    heads = lm.model.config.n_layer * lm.model.config.n_head
    usual = attention_features(lm, TEXTS).reshape(len(TEXTS), -1, heads)
    detailed = attention_features(lm, TEXTS, quantiles=white_box.QUANTILES).reshape(len(TEXTS), -1, heads)
    places = [0, *(1 + white_box.QUANTILES.index(one) for one in (0.5, 0.05, 0.95))]
    np.testing.assert_allclose(detailed[:, places], usual)


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_the_table_has_the_scores_of_every_way_and_one_mask_is_not_the_battery_s_attack(kind) -> None:
    lms = {role: tiny(kind, seed=seed, spread=6) for role, seed in (("target", 0), ("base", 1))}
    spec = RunSpec(corpus=BRIEF, model=ModelSpec(kind=kind))
    models = {role: lambda report, lm=lm: lm for role, lm in lms.items()}
    target = Target(spec, build(spec.corpus), {}.__getitem__, models)
    rows = white_box.white_box(target)
    ways = {(ATTENTION, DETAILED), (ATTENTION, BESIDE_PUBLIC)}
    ways |= {(GRADIENTS, ONE_MASK)} if kind == "distilbert" else set()
    assert set(zip(rows["attack"], rows["way"], strict=True)) == ways and set(COLUMNS) <= set(rows.columns)
    scores = {way: part["score"].to_numpy() for way, part in rows.groupby("way")}
    assert not np.allclose(scores[DETAILED], scores[BESIDE_PUBLIC])
    if kind == "distilbert":
        shipped = REGISTRY[GRADIENTS].run(target, no_report)["scores"]
        assert shipped["note_id"].tolist() == rows[rows["way"] == ONE_MASK]["note_id"].tolist()
        assert not np.allclose(scores[ONE_MASK], shipped["score"])


@pytest.mark.slow
def test_shipped_scores_are_linear_in_the_gradients_of_the_shipped_weights(tmp_path) -> None:
    """The first notes computed again: one fit made all scores, so they are an affine function of the log norms."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    run = runs.run(plain("distilbert"))
    rows, audited = runs.measured(run.spec, white_box.NAME), runs.scores(run.spec, GRADIENTS)
    assert dict(rows.dtypes.astype(str)) == COLUMNS
    target = target_of(run, runs.workspace)
    notes = evaluation_notes(target, GRADIENT_NOTES).head(200)  # the first ones: masks follow a note's place
    lm, texts, seed = run.model(), notes["text"].tolist(), run.spec.audit.seed
    stored = {1: rows[rows["way"] == ONE_MASK], MASK_DRAWS: audited}
    made = {masks: gradient_features(lm, texts, mask_draws=masks, seed=seed) for masks in stored}
    misfits = {pair: _misfit(notes["note_id"], made[pair[0]], stored[pair[1]]) for pair in product(stored, stored)}
    assert max(misfits[masks, masks] for masks in stored) < 0.01
    assert min(misfits[1, MASK_DRAWS], misfits[MASK_DRAWS, 1]) > 0.1, "the features of another attack fit as well"


def _misfit(note_ids: pd.Series, squares: np.ndarray, scores: pd.DataFrame) -> float:
    """Root mean square that the best affine function of the log norms leaves of the scores, of their deviation."""
    known = scores.set_index("note_id")["score"].reindex(note_ids)
    judged = known.notna().to_numpy()
    features = np.column_stack([np.log(np.maximum(squares, SMALLEST)), np.ones(len(squares))])[judged]
    wanted = known[judged].to_numpy(dtype=float)
    assert len(wanted) > 2 * features.shape[1]
    left = wanted - features @ np.linalg.lstsq(features, wanted, rcond=None)[0]
    return float(left.std() / wanted.std())
