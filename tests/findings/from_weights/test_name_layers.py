"""Names by layer: after the last layer they are the probes of the battery, and earlier layers are the model's."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from core.attacks.probes import half_name, name_seen
from core.attacks.probes.vectors import vectors
from core.attacks.registry import NotPossible, Target
from core.corpus.synthetic.hospital import build
from core.findings.experiments import plain
from core.findings.from_weights.name_layers import COLUMNS, NAME, cls_by_layer, last_name_by_layer, name_layers
from core.findings.stored_runs import StoredRuns, with_shipped
from core.models.encoding import encode
from core.pipeline.full_audit import target_of
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, RunSpec
from tests.tiny_models import tiny

PEOPLE = pd.DataFrame(
    {"first": ["Ada", "Maximiliane", "Jo"], "last": ["Byron", "Lee", "Featherstonehaugh-Smith"], "title": "Mrs."}
)


@pytest.mark.parametrize("kind", ["distilbert", "bert"])
def test_layers_are_read_out_as_the_model_makes_them(kind) -> None:
    """Each name by itself, without padding, by the model's own interface."""
    lm = tiny(kind, seed=0, spread=6)
    names = (PEOPLE["first"] + " " + PEOPLE["last"]).tolist()
    of_cls, of_name = cls_by_layer(lm, names), last_name_by_layer(lm, PEOPLE)
    assert of_cls.shape == (3, 3, 32) and of_name.shape == (3, 3)
    np.testing.assert_allclose(of_cls[-1], vectors(lm, names, "cls"), atol=1e-5)
    np.testing.assert_allclose(of_cls[0, 0], of_cls[0, 1], atol=1e-6)
    np.testing.assert_allclose(of_name[-1], half_name.half_scores(lm, PEOPLE, half_name.LAST), atol=1e-5)
    special = (lm.tokenizer.cls_token_id, lm.tokenizer.sep_token_id)
    for person, (first, last) in enumerate(
        zip(*(encode(lm, PEOPLE[half].tolist()) for half in ("first", "last")), strict=True)
    ):
        ids = torch.tensor([[special[0], *first, *[lm.tokenizer.mask_token_id] * len(last), special[1]]])
        with torch.no_grad():
            states = lm.model(input_ids=ids, attention_mask=torch.ones_like(ids), output_hidden_states=True)[1]
            for layer, state in enumerate(states):
                spread = lm.head(state[0, 1 + len(first) : -1]).log_softmax(-1)
                expected = spread[torch.arange(len(last)), torch.tensor(last)].mean().item()
                assert of_name[layer, person] == pytest.approx(expected, abs=1e-4)


def test_a_model_that_reads_from_the_left_has_no_such_layers() -> None:
    spec = RunSpec(corpus=CORPUS_PRESETS["smoke"], model=ModelSpec(kind="gpt2"))
    target = Target(spec, build(spec.corpus), {}.__getitem__, {"target": lambda report: tiny("gpt2", seed=0)})
    with pytest.raises(NotPossible):
        name_layers(target)


@pytest.mark.slow
def test_the_shipped_table_is_that_of_the_shipped_weights_and_of_the_shipped_probes(tmp_path) -> None:
    runs = StoredRuns(with_shipped(Workspace(tmp_path, shared=(DEMO,))))
    run = runs.run(plain("distilbert"))
    stored = runs.measured(run.spec, NAME)
    again = name_layers(target_of(run, runs.workspace)).astype(COLUMNS)
    pd.testing.assert_frame_equal(stored.drop(columns="score"), again[list(COLUMNS)].drop(columns="score"))
    # A probe is trained, and enlarges how a processor rounds; a name that is unlike the others has a score of 114.
    apart = (stored["score"] - again["score"]).abs() / stored["score"].abs().clip(lower=1)
    assert apart.median() < 1e-3 and apart.max() < 0.05
    probes = runs.audited(run.spec, "probes")
    last = stored[stored["layer"] == stored["layer"].max()]
    for probe, chosen in (
        (name_seen.PROBE, probes["probe"] == name_seen.PROBE),
        (
            half_name.PROBE,
            (probes["probe"] == half_name.PROBE)
            & (probes["method"] == half_name.OWN)
            & (probes["target"] == half_name.LAST),
        ),
    ):
        keys = ["model", "patient_id"]
        both = last[last["probe"] == probe].merge(probes[chosen], on=keys, suffixes=("", "_battery"))
        assert len(both) == int(chosen.sum()) == int((last["probe"] == probe).sum())
        assert both["label"].equals(both["label_battery"])
        np.testing.assert_allclose(both["score"], both["score_battery"], atol=5e-3)
