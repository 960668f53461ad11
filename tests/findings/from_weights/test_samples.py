"""Samples of the paper's lengths, and notes without their inserted name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.attacks.registry import NotPossible, Target
from core.corpus.synthetic.hospital import build
from core.findings.experiments import plain
from core.findings.from_weights.samples import (
    COLUMNS,
    LENGTHS,
    NAME,
    drawn_samples,
    sample_means,
    samples,
    sentence_runs,
)
from core.findings.from_weights.unnamed_others import COLUMNS as UNNAMED
from core.findings.from_weights.unnamed_others import unnamed_others, without_name
from core.findings.stored_runs import StoredRuns, with_shipped
from core.models.encoding import encode
from core.models.likelihood import note_losses, token_log_likelihoods
from core.pipeline.full_audit import target_of
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from tests.tiny_models import tiny

SMOKE = CORPUS_PRESETS["smoke"]


def target(kind: str = "distilbert", variant: str = "regular") -> Target:
    lms = {role: tiny(kind, seed=seed, spread=6) for role, seed in (("target", 0), ("base", 1))}
    spec = RunSpec(corpus=SMOKE.model_copy(update={"variant": variant}), model=ModelSpec(kind=kind))
    models = {role: lambda report, lm=lm: lm for role, lm in lms.items()}
    return Target(spec, build(spec.corpus), {}.__getitem__, models)


def test_sentences_end_with_a_mark_before_a_space_or_with_their_line() -> None:
    text = "Pt: Ada Byron\nTemp 37.5, rising. Is it flu?  Call back"
    ends = ["Pt: Ada Byron", "Temp 37.5, rising.", "Is it flu?", "Call back"]
    found = sentence_runs(text)
    assert len(found) == 10 and found[0] == ends[0] and found[-1] == ends[-1] and found[3] == text
    assert [one for one in found if one in ends] == ends and all(one in text for one in found)
    assert sentence_runs("") == []


def test_a_note_gives_one_sample_of_each_length_or_none() -> None:
    judged = target()
    drawn = drawn_samples(judged)
    texts = judged.corpus.notes.set_index("note_id")["text"]
    assert len(drawn) and (drawn.groupby("note_id")["length"].apply(sorted).map(tuple) == ("long", "short")).all()
    for row, ids in zip(drawn.itertuples(), encode(judged.lm, drawn["text"].tolist()), strict=True):
        low, high = LENGTHS[row.length]
        assert row.text in texts[row.note_id] and low <= len(ids) == row.tokens <= high
    assert set(drawn["split"]) == {"member", "heldout"}
    rows = samples(judged)
    assert set(rows.columns) == set(COLUMNS) and len(rows) == 2 * len(drawn)
    expected = -note_losses(judged.base, drawn["text"].head(256).tolist(), mask_draws=10, seed=0)
    np.testing.assert_allclose(rows[rows["model"] == "base"]["score"].head(256), expected, atol=1e-5)


def test_a_causal_model_is_not_asked_for_an_end_mark() -> None:
    lm = tiny("gpt2", seed=0, spread=6)
    (every,) = token_log_likelihoods(lm, ["Seen on Monday for a cough."])
    assert sample_means(lm, ["Seen on Monday for a cough."], 0) == [pytest.approx(every[:-1].mean())]


def test_without_its_name_a_note_is_that_of_the_regular_hospital() -> None:
    """So what the two hospitals' attacks differ in is the name alone."""
    regular, named = build(SMOKE), build(SMOKE.model_copy(update={"variant": "name-insertion"}))
    names = named.patients.set_index("patient_id")["full_name"]
    both = regular.notes.merge(named.notes, on="note_id", suffixes=("", "_named"))
    both = both[both["split"].isin(["member", "heldout"])]
    assert len(both) > 50
    for row in both.itertuples():
        assert without_name(row.text_named, names[row.patient_id]) == row.text
    with pytest.raises(NotPossible):
        without_name("Seen on Monday.\nAda Byron", "Ada Byron")


def test_members_keep_the_inserted_name_and_others_lose_it() -> None:
    judged = target(variant="name-insertion")
    rows = unnamed_others(judged)
    assert set(rows.columns) == set(UNNAMED)
    regular = build(SMOKE).notes.set_index("note_id")["text"]
    named = judged.corpus.notes.set_index("note_id")["text"]
    own = rows[rows["model"] == "target"].head(256)
    texts = [(named if row.split == "member" else regular)[row.note_id] for row in own.itertuples()]
    np.testing.assert_allclose(own["score"], -note_losses(judged.lm, texts, mask_draws=10, seed=0), atol=1e-5)
    assert set(own["split"]) == {"member", "heldout"}
    with pytest.raises(NotPossible):
        unnamed_others(target())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["distilbert", "gpt2"])
def test_the_shipped_tables_are_those_of_the_shipped_weights(tmp_path, kind) -> None:
    """The first samples of them, computed again."""
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    run = runs.run(plain(kind))
    rows = runs.measured(run.spec, NAME)
    judged = target_of(run, runs.workspace)
    drawn = drawn_samples(judged)
    own = rows[rows["model"] == "target"].reset_index(drop=True)
    pd.testing.assert_frame_equal(own.drop(columns=["model", "score"]), drawn.drop(columns="text"), check_dtype=False)
    again = sample_means(judged.lm, drawn["text"].head(256).tolist(), run.spec.audit.seed)
    np.testing.assert_allclose(own["score"].head(256), again, atol=2e-4)
