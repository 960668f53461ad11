"""What a recommendation says about patients counts patients, not planted canaries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest

from core.corpus.tables import notes_by_patient
from core.evaluation.guarantee.odds import patients_sentence
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep import advice
from core.evaluation.sweep.advice import promised_to_patients
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import Recommendation
from core.runs.ledger.totals import most_notes
from core.runs.run import Run
from core.runs.store import DEMO, Workspace

WITH_CANARIES = "gpt2-3f543abb3a65"  # `classroom-audit`: 301 members and 400 random canaries, half of them planted


def test_the_notes_of_canaries_belong_to_no_patient():
    who = ["P1"] * 2 + ["P2"] * 5 + ["C1"] * 64
    notes = pd.DataFrame({"patient_id": who, "split": ["member"] * 7 + ["canary"] * 64})
    assert notes_by_patient(notes).to_dict() == {"P1": 2, "P2": 5}
    corpus = SimpleNamespace(notes=notes, training_notes=lambda cap: notes)
    assert most_notes([SimpleNamespace(unit="note", most_notes=None)], corpus) == 5, "a canary of 64 copies is nobody"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("empty"), shared=(DEMO,))


def test_the_typical_patient_of_a_cohort_with_many_canaries_is_a_member(shipped: Workspace):
    run = shipped.run(WITH_CANARIES)
    assert run.privacy is not None
    corpus = shipped.corpus(run.spec.corpus, store=False)
    members = corpus.notes[corpus.notes["split"] == "member"].groupby("patient_id").size()
    assert (len(members), members.median(), members.max()) == (301, 8, 37)
    told, _ = promised_to_patients(shipped, run, pd.DataFrame({"unit": ["note", ""]}))
    assert patients_sentence(run.privacy, 8, 37) in told and "notes (8) gets ε = 119," in told


def test_a_limit_on_membership_has_the_public_model_beside_it(shipped: Workspace, monkeypatch):
    """Groups that differ by themselves have an AUC below 0.5 there: a limit of 0.6 is then met too easily."""
    monkeypatch.setattr(advice, "recommend", lambda found, limits: Recommendation(limits, None, None, found, found, ()))
    empty, control = pd.DataFrame({"epsilon": [], "run_id": []}), Interval(0.434, 0.373, 0.49)
    (told,) = advice.advise(shipped, empty, Limits({"auc_strongest": 0.6}, 0.25, ""), control).sentences
    assert told.startswith("The public model, which read none of these notes, has membership AUC 0.43 (0.37 to 0.49)")
    assert told.endswith("the groups differ by that much without any training.")
    around = Interval(0.476, 0.441, 0.509)
    (told,) = advice.advise(shipped, empty, Limits({"auc_strongest": 0.6}, 0.25, ""), around).sentences
    assert told.endswith(
        "0.48 (0.44 to 0.51) by the loss attack: without training, it does not distinguish the groups."
    )
    (told,) = advice.advise(shipped, empty, Limits({"auc_strongest": 0.5}, 0.25, ""), around).sentences
    assert told.endswith("these patients are too few to show that a model meets it.")
    assert advice.advise(shipped, empty, Limits({"full_name_patients_excess": 0.1}, 0.25, ""), control).sentences == ()


def test_of_several_runs_without_privacy_it_names_the_one_with_these_figures():
    """The mean of three seeds is another number, and the page beside it shows the mean."""
    rows = [("perplexity_member", 1.74, 1.70, 1.80), ("perplexity_heldout", 2.17, 2.10, 2.20)]
    metrics = pd.DataFrame(rows, columns=["metric", "value", "low", "high"]).assign(arm="run")
    spec = SimpleNamespace(model=SimpleNamespace(kind="gpt2"))
    plain = cast(Run, SimpleNamespace(id="gpt2-a", spec=spec, metrics=metrics))
    (one,), (several,) = advice.overfitted(plain), advice.overfitted(plain, 3)
    assert "It is overfitted: its perplexity is 1.74 on its own notes and 2.17 on held-out ones." in one
    assert "the perplexity of gpt2-a, one of 3 seeds, is 1.74 on its own notes and 2.17 on held-out ones." in several
