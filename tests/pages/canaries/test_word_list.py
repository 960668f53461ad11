"""The view Word list of the Canaries page: names in word lists, and the lists of the chosen runs."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from core.evaluation.memorisation.vocabulary import names_by_epsilon
from core.models.build import load
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec, VocabularySpec
from pages.parts.canaries.word_list import names_chart
from pages.parts.pickers.run_picker import label
from tests.pages.visit import visit
from tests.tiny_models import tiny

SMALL = AuditSpec(samples_per_prompt=1, new_tokens=8, mask_draws=1, bootstrap=20)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """One run of a tiny masked model with words of its own, and its control."""
    root, base = tmp_path_factory.mktemp("list"), tmp_path_factory.mktemp("base")
    tiny("distilbert", seed=3).save(base)
    spec = RunSpec(
        corpus=CORPUS_PRESETS["smoke"],
        model=ModelSpec(kind="distilbert", base=str(base)),
        privacy=PrivacySpec(),
        training=TrainingSpec(epochs=1, batch_size=16, max_tokens=96),
        audit=SMALL,
        vocabulary=VocabularySpec(pieces=2_000),
    )
    execute(spec, Workspace(root, shared=()))
    return root


@pytest.mark.slow
def test_the_list_is_read_with_its_control_and_the_runs_own_names(data, monkeypatch):
    monkeypatch.setenv("PHILAB_DATA", str(data))
    app = visit("canaries", view="Word list", guess="1")
    assert not app.exception and not app.get("plotly_chart"), "a guess comes first"
    next(button for button in app.button if button.label == "nearly all").click().run()
    assert not app.exception and len(app.get("plotly_chart")) == 1
    corpus = Workspace(data, shared=()).corpus(CORPUS_PRESETS["smoke"])
    asked = VocabularySpec(epsilon=1.0, pieces=4_096)
    (member,) = names_by_epsilon(load(ModelSpec(kind="distilbert")), corpus, asked, epsilons=[math.inf]).query(
        "arm == 'run'"
    )["rare_names"]
    told = " ".join(line.value for line in app.markdown)
    assert f"for {100 * member:.0f}\u00a0% of the members" in told and "of the held-out patients" in told
    run = next(run for run in Workspace(data, shared=()).runs() if not run.spec.is_base)
    assert f"has {len(run.vocabulary):,} entries from the notes" in told and run.privacy is None
    members = corpus.patients[corpus.patients["split"] == "member"]
    named = [name for name in members["full_name"] if set(name.split()) & set(run.vocabulary)]
    figure = run.metrics.set_index(["metric", "arm"]).loc[("vocabulary_names", "run"), "value"]
    assert named and figure == pytest.approx(len(named) / len(members)), "a leak that no training can mend"
    assert any("public word list" in caption.value for caption in app.caption), "of the control"
    assert "words from the notes without noise" in label(run)


def test_the_chart_shows_the_mean_of_draws_and_their_range():
    rows = [(1.0, 0, 10, 0.1), (1.0, 1, 14, 0.3), (math.inf, 0, 90, 0.8)]
    table = pd.DataFrame(rows, columns=["epsilon", "draw", "kept", "names"]).assign(arm="run")
    (trace,) = names_chart(table, "names").data
    assert list(trace.x) == ["1", "no noise"] and list(trace.y) == pytest.approx([0.2, 0.8])
    assert list(trace.error_y.array) == pytest.approx([0.1, 0.0]) and [row[0] for row in trace.customdata] == [12, 90]
